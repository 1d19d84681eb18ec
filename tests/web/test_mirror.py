"""The mirror of all agents: what a page of changes says about it."""

from __future__ import annotations

from hive_core.varlink import Message
from hive_core.web.mirror import AgentMirror


def page(*rows: Message, **more: object) -> Message:
    return {"rows": list(rows), "gone": [], "synced": True, **more}


def agent(name: str, parent: str | None = "root", **more: object) -> Message:
    return {"uuid": f"u-{name}", "name": name, "parent": parent, "role": "agent", **more}


def test_a_row_that_stays_at_its_place_moves_no_tree_even_if_nobody_has_drawn_it() -> None:
    """A frame that says so makes each browser load the whole tree."""
    mirror = AgentMirror()
    assert mirror.apply(page(agent("root", None), agent("a"), reset=True))[1] is True
    for inbox in (1, 2):
        assert mirror.apply(page(agent("a", inbox=inbox))) == ([agent("a", inbox=inbox)], False)
    assert mirror.apply(page(agent("a", inbox=2))) == ([], False)


def test_a_new_place_and_an_agent_that_is_gone_move_the_tree() -> None:
    mirror = AgentMirror()
    mirror.apply(page(agent("root", None), agent("a"), agent("b"), reset=True))
    for change in (
        page(agent("b", "a")), page(agent("c")), page(agent("a", role="lead")),
        page(gone=["u-b"]), page(agent("root", None), reset=True),
    ):  # fmt: skip
        assert mirror.apply(change)[1] is True
        mirror._index()
    assert mirror.apply(page(gone=["u-b"]))[1] is False


def test_those_are_at_work_whose_activity_is_running() -> None:
    mirror = AgentMirror()
    rows = [agent(name, activity=name) for name in ("idle", "running", "blocked")]
    mirror.apply(page(*rows, agent("other", state="running"), reset=True))

    assert mirror.count_working() == 1
