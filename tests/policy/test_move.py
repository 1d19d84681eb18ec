"""Row H6: which agent may move which agent below which other."""

from __future__ import annotations

from each import for_each
from fixtures.topologies import forests, hive_of
from hypothesis import given
from hypothesis import strategies as st
from policy.naive import Question, decide

from hive_core.policy.rules import MOVE

TREE = {
    "root": None, "bob": "root", "carl": "bob", "cleo": "carl", "dora": "root", "eve": "dora",
    "other": None, "oscar": "other",
}  # fmt: skip
HIVE = hive_of(TREE)
LOOP = "the new parent is the agent itself or its descendant"
OUTSIDE = "the new parent is neither you nor your descendant"


@for_each(
    "caller, agent, parent, reason",
    [
        ("operator", "carl", "oscar", None),
        ("operator", "root", "other", None),
        ("operator", "carl", None, None),
        ("root", "carl", "dora", None),
        ("root", "cleo", "root", None),
        ("bob", "cleo", "bob", None),
        ("operator", "bob", "bob", LOOP),
        ("operator", "bob", "cleo", LOOP),
        ("root", "bob", "cleo", LOOP),
        ("root", "carl", None, "only the operator may make a root"),
        ("bob", "cleo", None, "only the operator may make a root"),
        ("bob", "carl", "root", OUTSIDE),
        ("bob", "carl", "dora", OUTSIDE),
        ("bob", "bob", "dora", "not your descendant"),
        ("bob", "dora", "bob", "not your descendant"),
        ("bob", "root", "bob", "not your descendant"),
        ("dora", "carl", "dora", "no such agent"),
        ("root", "carl", "oscar", "no such agent: oscar"),
        ("root", "carl", "nobody", "no such agent: nobody"),
        ("operator", "nobody", "root", "no such agent"),
        ("operator", "carl", "operator", None),
    ],
)
def test_a_move_needs_someone_above_both_ends(
    caller: str, agent: str, parent: str | None, reason: str | None
) -> None:
    decision = decide(MOVE, Question(HIVE, caller, "move", agent, parent))
    assert decision.allowed == (reason is None)
    assert reason in (None, decision.reason)


@given(forests(3), st.data())
def test_what_is_allowed_keeps_the_tree_a_tree_and_the_caller_above(
    parents: dict[str, str | None], data: st.DataObject
) -> None:
    """What an agent moves stays below it: no agent moves work out from under an ancestor."""
    hive = hive_of(parents)
    names = st.sampled_from([*parents])
    caller, agent, parent = data.draw(names), data.draw(names), data.draw(names)
    if decide(MOVE, Question(hive, caller, "move", agent, parent)).allowed:
        moved = hive.with_parent(agent, parent).validate()
        assert set(moved.topology.subtree(caller)) == set(hive.topology.subtree(caller))
