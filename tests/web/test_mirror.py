"""The mirror of all agents: what a page of changes says about it."""

from __future__ import annotations

from typing_extensions import override

from hive_core.varlink import Message
from hive_core.web.mirror import AgentMirror, Row, TreeView


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


def test_below_an_agent_that_is_not_known_is_nobody() -> None:
    """All agents are not below it: a page would say that they are destroyed with it."""
    mirror = AgentMirror()
    assert mirror.below("root") == []
    mirror.apply(page(agent("root", None), agent("a"), reset=True))
    assert mirror.below("gone") == []
    assert mirror.page(TreeView(under="gone")).matching == 0
    assert mirror.below("root") == ["root", "a"]


def test_an_agent_is_looked_up_without_a_look_at_all_others() -> None:
    """Pages look up each of many agents."""

    class CountedRows(dict[str, Row]):
        looked = 0

        @override
        def get(self, key: str, default: Row | None = None) -> Row | None:  # type: ignore[override]  # of rows alone
            self.looked += 1
            return super().get(key, default)

    mirror = AgentMirror()
    mirror.rows = rows = CountedRows()
    mirror.apply(page(agent("root", None), *(agent(f"w-{at}") for at in range(99)), reset=True))
    mirror.apply(page(agent("w-7", inbox=1)))
    assert mirror.get("w-7") == agent("w-7", inbox=1)
    before = rows.looked
    assert all(mirror.get(f"w-{at}") is not None for at in range(99))
    assert rows.looked == before
    mirror.apply(page(agent("w-7", inbox=2)))
    assert mirror.get("w-7") == agent("w-7", inbox=2)
