"""keep_turn and list_turns: the last turns of an agent."""

from __future__ import annotations

from each import for_each
from fixtures.world import Reply, World, rows
from hypothesis import given
from hypothesis import strategies as st

from hive_core.ledger.turns.storage import BYTES_KEPT, TURNS_KEPT, SavedTurn
from hive_core.operations.turns.operations import shorten_turn

READERS = {
    "a1": "", "a": "", "root": "", "operator": "", "a11": "NotAllowed", "a2": "NotAllowed",
    "b1": "NotFound",
}  # fmt: skip


def keep(world: World, turn: int, **fields: object) -> Reply:
    params = {"conversation": "main", "turn": turn, "status": "done", **fields}
    world.advance(0.05)
    return world.call("a1", "keep_turn", **params)


def turns(world: World, caller: str = "operator", **params: object) -> list[Reply]:
    return rows(world.call(caller, "list_turns", agent="a1", **params)["turns"])


@for_each("caller, error", READERS.items())
def test_who_may_read_the_turns_of_an_agent(world: World, caller: str, error: str) -> None:
    assert world.fault(caller, "list_turns", agent="a1") == error


def test_a_turn_is_read_as_it_was_recorded(world: World) -> None:
    began = world.clock.now() - 3
    keep(world, 1, system="You are a1.", input="hello", text="hi", task="t1", began=began)
    keep(world, 2, input="again", status="error", error="the provider failed")
    newest, first = turns(world)
    assert (first["system"], first["input"], first["text"]) == ("You are a1.", "hello", "hi")
    assert (first["task"], first["began"], first["cut"]) == ("t1", began, False)
    assert (newest["turn"], newest["status"], newest["error"]) == (
        2,
        "error",
        "the provider failed",
    )
    assert newest["ended"] == world.clock.now()
    assert turns(world, "a1") == turns(world, "root")


def test_they_survive_a_restart_and_a_move(world: World) -> None:
    keep(world, 1, text="kept")
    world.restart()
    world.call("operator", "move", agent="a1", parent="b")
    assert [row["text"] for row in turns(world, "b")] == ["kept"]
    assert world.fault("a", "list_turns", agent="a1") == "NotFound"


def test_a_turn_that_is_recorded_again_replaces_the_first(world: World) -> None:
    keep(world, 1, text="first")
    keep(world, 1, text="second")
    assert [row["text"] for row in turns(world)] == ["second"]


def test_the_last_two_hundred_stay(world: World) -> None:
    for turn in range(TURNS_KEPT + 5):
        keep(world, turn)
    listed = turns(world, limit=100)
    rest = turns(world, after=str(listed[-1]["number"]))
    numbers = [row["turn"] for row in (*listed, *rest)]
    assert numbers == list(range(TURNS_KEPT + 4, 4, -1))


def test_four_mebibytes_stay(world: World) -> None:
    for turn in range(BYTES_KEPT // (64 << 10) + 10):
        keep(world, turn, text="x" * (64 << 10))
    sizes = world.ledger.turns.bytes_of_all()
    assert BYTES_KEPT - (65 << 10) < sizes <= BYTES_KEPT
    assert turns(world)[0]["turn"] == BYTES_KEPT // (64 << 10) + 9
    assert world.ledger.stored.of(world.uuid("a1"))["turns"] <= BYTES_KEPT + 200 * TURNS_KEPT


def test_of_a_turn_sixty_four_kibibytes_stay_and_short_texts_stay_whole(world: World) -> None:
    assert keep(world, 1, system="s" * 50_000, input="what?", text="☃" * 20_000)["cut"] is True
    (row,) = turns(world)
    assert row["input"] == "what?"
    size = sum(len(str(row[name]).encode()) for name in ("system", "input", "text"))
    assert 65_000 < size <= 65_536
    assert len(str(row["system"])) > 30_000 < len(str(row["text"]).encode())
    assert world.fault("a1", "keep_turn", conversation="main", turn=2, status="done",
                       text="x" * 65_537) == "InvalidArgument"  # fmt: skip


@given(st.text(max_size=50), st.text(max_size=50), st.text(max_size=50))
def test_texts_that_fit_are_never_changed(system: str, said: str, text: str) -> None:
    turn = SavedTurn(0, "a", "m", 1, "done", "", None, 1.0, system, said, text, "", cut=False)
    assert shorten_turn(turn) == turn


def test_only_turns_of_one_conversation_are_listed(world: World) -> None:
    keep(world, 1)
    keep(world, 1, conversation="task-7")
    assert [row["conversation"] for row in turns(world, conversation="task-7")] == ["task-7"]


def test_secrets_are_masked(world: World) -> None:
    world.call("operator", "set_secret", agent="a1", key="token", value="hunter2hunter2")
    keep(world, 1, text="it is hunter2hunter2", input="hunter2hunter2?")
    (row,) = turns(world)
    assert (row["text"], row["input"]) == ("it is ***", "***?")


def test_they_end_with_the_agent(world: World) -> None:
    keep(world, 1, text="mine")
    world.call("a", "destroy", agent="a1", recursive=True)
    assert world.ledger.turns.bytes_of_all() == 0


def test_the_oldest_of_all_go_when_together_they_are_too_many(world: World) -> None:
    for turn in range(10):
        keep(world, turn, text="x" * 1000)
    with world.ledger.transaction():
        assert world.ledger.turns.prune(1 << 20) == 0
        assert world.ledger.turns.prune(1000) == 10


def test_a_page_that_does_not_exist_is_refused(world: World) -> None:
    assert world.fault("operator", "list_turns", agent="a1", after="x") == "InvalidArgument"
    assert world.fault("operator", "list_turns") == "InvalidArgument"
    assert (
        world.fault("operator", "keep_turn", conversation="m", turn=1, status="done") == "Conflict"
    )
