"""The next step after a crash at every byte of a log, and that nothing is run twice."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from hive_core.agent.session.records import Record, encode_record, read_records
from hive_core.agent.session.recovery import (
    AskModel,
    CloseTurn,
    EndTurn,
    RunCall,
    WaitForInput,
    next_step,
)
from hive_core.agent.session.state import ConversationState

OPEN: Record = {"t": "open", "log": "1234", "conversation": "main", "turns": 0, "seen": []}


class Crash(BaseException):
    """The process is gone."""


@dataclass
class Agent:
    """A session in small: every write and every effect may be its last.

    `plan`: how many calls each answer of the model has. `effects` outlive a crash, as `log` does.
    """

    plan: list[int]
    budget: int
    log: bytes = b""
    effects: dict[str, int] = field(default_factory=dict)
    replies: dict[str, int] = field(default_factory=dict)
    asked: int = 0

    def live(self) -> None:
        """Run until the turn is closed."""
        self.log = self.log[: read_records(self.log).size]
        if not self.log:
            self.write(OPEN)
        if not any(row["t"] == "input" for row in self.records):
            self.write({"t": "input", "turn": 1, "id": "m1", "text": "go"})
        while not isinstance(next_step(self.records), WaitForInput) or not self.closed:
            self.step()

    @property
    def records(self) -> list[Record]:
        return read_records(self.log).records

    @property
    def closed(self) -> bool:
        return any(row["t"] == "closed" for row in self.records)

    def step(self) -> None:
        match next_step(self.records):
            case AskModel(turn):
                self.asked += 1
                size = self.plan[turn.rounds]
                calls = [{"id": f"c{turn.rounds}.{at}", "name": "bash", "arguments": {}}
                         for at in range(size)]  # fmt: skip
                self.write({"t": "response", "turn": 1, "inputs": len(turn.inputs),
                            "sent": ["q"], "message": "a", "calls": calls})  # fmt: skip
            case RunCall(_, call):
                content = "interrupted"
                if call.started is None:
                    self.write({"t": "call", "turn": 1, "call": call.id})
                    self.spend(1)
                    self.effects[call.id] = self.effects.get(call.id, 0) + 1
                    content = "ran"
                self.write({"t": "result", "turn": 1, "call": call.id, "content": content})
            case EndTurn():
                self.write({"t": "end", "turn": 1, "status": "done"})
            case CloseTurn():
                self.spend(1)
                key = ConversationState.of(self.records).key("t1")
                self.replies[key] = self.replies.get(key, 0) + 1
                self.write({"t": "closed", "turn": 1})
            case WaitForInput():
                raise AssertionError("the turn is not closed and nothing is to be done")

    def write(self, record: Record) -> None:
        line = encode_record(record)
        part = line[: self.budget]
        self.log += part
        self.spend(len(line))

    def spend(self, cost: int) -> None:
        self.budget -= cost
        if self.budget < 0:
            raise Crash


def survive(plan: list[int], first: int, second: int) -> Agent:
    """Crash after `first` bytes and effects, again after `second`, then live on."""
    agent = Agent(plan, first)
    for budget in (second, 1 << 30):
        try:
            agent.live()
        except Crash:
            agent.budget = budget
        else:
            break
    else:
        agent.live()
    return agent


PLAN = [2, 1, 0]


def test_a_crash_at_every_byte_runs_no_call_twice_and_ends_the_turn_once() -> None:
    whole = survive(PLAN, 1 << 30, 0)
    size = len(whole.log) + 8
    for first in range(size):
        agent = survive(PLAN, first, 1 << 30)
        assert set(agent.effects.values()) <= {1}
        assert agent.closed
        # The same key each time: the daemon answers a repeat with the first result.
        assert len(agent.replies) == 1
        kinds = [row["t"] for row in agent.records]
        assert kinds.count("end") == kinds.count("closed") == kinds.count("input") == 1


@given(st.lists(st.integers(0, 3), max_size=4), st.integers(0, 2000), st.integers(0, 2000))
def test_two_crashes_anywhere_run_no_call_twice(plan: list[int], first: int, second: int) -> None:
    agent = survive([*[size or 1 for size in plan], 0], first, second)
    assert set(agent.effects.values()) <= {1}
    assert agent.closed
    results = [row for row in agent.records if row["t"] == "result"]
    started = {row["call"] for row in agent.records if row["t"] == "call"}
    assert len(results) == sum(size or 1 for size in plan)
    # Only a call that was begun can be called interrupted, and no effect is left out.
    assert {row["call"] for row in results} == started
    assert {row["call"] for row in results if row["content"] == "ran"} <= set(agent.effects)


def turn(*more: Record) -> list[Record]:
    return [OPEN, {"t": "input", "turn": 1, "id": "m1", "text": "go"}, *more]


def response(*calls: str, inputs: int = 1, text: str = "") -> Record:
    rows = [{"id": id_, "name": "send", "arguments": {"to": "a"}} for id_ in calls]
    return {"t": "response", "turn": 1, "inputs": inputs, "sent": ["q"], "message": "a",
            "calls": rows, "text": text}  # fmt: skip


def test_an_input_asks_the_model() -> None:
    step = next_step(turn())
    assert isinstance(step, AskModel)
    assert [row["id"] for row in step.turn.unseen] == ["m1"]


def test_all_calls_of_an_answer_are_run_before_the_model_is_asked_again() -> None:
    first = next_step(turn(response("a", "b")))
    assert isinstance(first, RunCall)
    assert first.call.id == "a"
    records = turn(response("a", "b"), {"t": "result", "call": "a", "content": "1"})
    second = next_step(records)
    assert isinstance(second, RunCall)
    assert second.call.id == "b"
    assert isinstance(next_step([*records, {"t": "result", "call": "b", "content": "2"}]), AskModel)


def test_calls_of_the_same_id_in_two_answers_have_keys_of_their_own() -> None:
    one = next_step(turn(response("a")))
    result: Record = {"t": "result", "call": "a", "content": "1"}
    two = next_step(turn(response("a"), result, response("a")))
    assert isinstance(one, RunCall)
    assert isinstance(two, RunCall)
    assert one.call.key != two.call.key
    assert one.call.key.startswith("main:1234:")


def test_mail_after_the_last_answer_asks_the_model_again() -> None:
    late: Record = {"t": "input", "turn": 1, "id": "m2", "text": "and"}
    assert isinstance(next_step(turn(response(text="done"))), EndTurn)
    step = next_step(turn(response(text="done"), late))
    assert isinstance(step, AskModel)
    assert [row["id"] for row in step.turn.unseen] == ["m2"]


def test_a_turn_that_has_ended_is_closed_and_calls_nothing_more() -> None:
    end: Record = {"t": "end", "turn": 1, "status": "cancelled"}
    assert isinstance(next_step(turn(response("a"), end)), CloseTurn)
    closed: Record = {"t": "closed", "turn": 1}
    assert next_step(turn(response("a"), end, closed)) == WaitForInput()


def test_a_rewind_takes_the_history_back_to_the_end_of_a_turn() -> None:
    closed: Record = {"t": "closed", "turn": 1}
    records = turn(response(text="one"), closed)
    later: list[Record] = [
        {"t": "input", "turn": 2, "id": "m2", "text": "more"}, {**response(text="two"), "turn": 2},
        {"t": "closed", "turn": 2},
    ]  # fmt: skip
    state = ConversationState.of([*records, *later])
    assert len(state.history) == 4
    assert state.can_rewind(1)
    assert not state.can_rewind(3)
    state.add({"t": "rewind", "to": 1})
    assert state.history == ["q", "a"]
    assert state.turns == 2
    assert state.seen == {"m1", "m2"}


def test_a_compacted_turn_goes_on_with_its_inputs_and_without_its_history() -> None:
    compact: Record = {"t": "compact", "turn": 1, "rounds": 3, "text": "so far"}
    task: Record = {"t": "input", "turn": 1, "id": "m1", "text": "go"}
    step = next_step([*turn(response("a")), compact, task])
    assert isinstance(step, AskModel)
    assert [row["text"] for row in step.turn.unseen] == ["so far", "go"]
    assert step.turn.rounds == 3
