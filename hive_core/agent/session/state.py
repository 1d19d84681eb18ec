"""What the records of a conversation come to: its history, and the turn that is open.

`history` holds the messages of the runtime, byte for byte. A turn begins with an input and ends
with `closed`, after its result was passed on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from hive_core.agent.session.records import Record

# The operation with which an agent ends its task.
REPORT: Final = "finish_task"
ABANDONED: Final = "abandoned"  # the status of a turn whose task was withdrawn
MEMORY: Final = "memory"  # the kind of an input: memories that were recalled
NOTES_MOST: Final = 20
_NOTE_MOST: Final = 4096
_SAID: Final = ("mail", "task")
_TASK_KEYS: Final = ("task", "attempt")


@dataclass(slots=True)
class ToolCall:
    """One call that the model asked for, with its records. `malformed`: the arguments are none."""

    id: str
    name: str
    arguments: dict[str, object]
    key: str
    malformed: bool = False
    started: Record | None = None
    result: Record | None = None


@dataclass(slots=True)
class TurnState:
    """One turn. `rendered`: how many inputs the model has seen; `rounds`: its answers so far.

    `begun`: a CLI works on it, and has not answered.
    `last`: the present answer is the last that the turn may have. `replied`: ids of messages that
    the model itself has answered. `reported`: the model has ended the task of the turn.
    `skill_limits`: what the skills that it has read take away.
    """

    number: int
    inputs: list[Record] = field(default_factory=list)
    rendered: int = 0
    rounds: int = 0
    calls: list[ToolCall] = field(default_factory=list)
    text: str = ""
    last: bool = False
    end: Record | None = None
    reported: bool = False
    replied: set[str] = field(default_factory=set)
    begun: bool = False
    skill_limits: list[Record] = field(default_factory=list)

    @property
    def trigger(self) -> Record:
        """The input that began the turn."""
        return self.inputs[0]

    @property
    def task(self) -> str:
        """The task of the turn; empty: none."""
        return str(self.trigger.get("task") or "")

    @property
    def attempt(self) -> int:
        value = self.trigger.get("attempt")
        return value if isinstance(value, int) else 0

    @property
    def needs_reminder(self) -> bool:
        """Whether nothing was asked yet, and the dated facts are missing."""
        reminded = any(row.get("kind") == "reminder" for row in self.inputs)
        return self.end is None and not self.rendered and not reminded

    @property
    def needs_memories(self) -> bool:
        """Whether nothing was asked yet, and no memories were recalled."""
        recalled = any(row.get("kind") == MEMORY for row in self.inputs)
        return self.end is None and not self.rendered and not recalled

    @property
    def unseen(self) -> list[Record]:
        """Inputs that no request has carried yet."""
        return self.inputs[self.rendered :]


class TurnMark(NamedTuple):
    """What a conversation had at the end of a turn; `calls` may have ended it without an answer."""

    size: int = 0
    tokens: int = 0
    calls: Sequence[ToolCall] = ()


@dataclass(slots=True)
class ConversationState:
    """A conversation, as its records tell it. `calls`: those of the last answer in the history.

    `paused`: the task of the last turn, which goes on when what it waits for has come. `phase`: the
    one of a queen that `system` is about. An empty `system` is to be rendered. `cli`: the id under
    which a CLI keeps the conversation. `notes`: the turns since the last reflection, shortened.
    `reflection`: the one whose changes may not all be made yet. `waiting`: letters of tasks that
    came while a turn was open; each begins a turn of its own. `parked`: the last record of a turn
    that waits, with the id of its escalation; empty once the session goes on. `parkings`: how many
    such records the segment has.
    """

    log: str = ""
    conversation: str = ""
    system: str = ""
    phase: str = ""
    history: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    turn: TurnState | None = None
    turns: int = 0
    seen: set[str] = field(default_factory=set)
    tokens: int = 0
    paused: Record = field(default_factory=dict)
    cli: str = ""
    notes: list[Record] = field(default_factory=list)
    reflection: Record = field(default_factory=dict)
    waiting: list[Record] = field(default_factory=list)
    parked: Record = field(default_factory=dict)
    parkings: int = 0
    _marks: dict[int, TurnMark] = field(default_factory=dict)
    _records: int = 0

    @classmethod
    def of(cls, records: Iterable[Record]) -> ConversationState:
        state = cls()
        for record in records:
            state.add(record)
        return state

    def add(self, record: Record) -> None:
        """Apply one record of the log."""
        self.apply(record)
        self._records += 1

    def apply(self, record: Record) -> None:
        """Apply a record without counting it: keys of calls count the records of the log."""
        getattr(self, f"_add_{record['t']}")(record)

    def key(self, suffix: object) -> str:
        """An idempotency key of this conversation; the log's id makes it unique."""
        return f"{self.conversation}:{self.log}:{suffix}"

    def _add_open(self, record: Record) -> None:
        self.log, self.conversation = str(record["log"]), str(record["conversation"])
        self.turns = number(record.get("turns"))
        self.seen.update(texts(record.get("seen")))

    def _add_system(self, record: Record) -> None:
        self.system = str(record["text"])
        self.phase = str(record.get("phase") or self.phase)

    def _add_input(self, record: Record) -> None:
        turn = number(record["turn"])
        if record.get("waits"):
            self.waiting.append(record)
        else:
            if self.turn is None or self.turn.number != turn:
                self.turn = TurnState(turn)
            self.turn.inputs.append(record)
        self.turns = max(self.turns, turn)
        if record.get("id"):
            self.seen.add(str(record["id"]))
        if record.get("kind") == "task":
            self.seen.add(task_mark(str(record["task"]), record.get("attempt")))

    def _add_response(self, record: Record) -> None:
        turn = self._open_turn()
        self.history += [*texts(record["sent"]), str(record["message"])]
        turn.rendered = number(record["inputs"])
        turn.rounds += 1
        turn.begun = False
        turn.text = str(record.get("text") or "")
        turn.replied.update(texts(record.get("replied")))
        turn.last = record.get("last") is True
        self.tokens = number(record.get("tokens"))
        rows = record.get("calls")
        turn.calls = self.calls = [
            _tool_call(row, self.key(f"{self._records}.{at}"))
            for at, row in enumerate(rows if isinstance(rows, list) else [])
        ]

    def _add_cli(self, record: Record) -> None:
        self.cli = str(record["session"])
        self._open_turn().begun = True

    def _add_call(self, record: Record) -> None:
        self._call_of(record).started = record

    def _add_result(self, record: Record) -> None:
        call = self._call_of(record)
        call.result = record
        if record.get("is_error"):
            return
        turn = self._open_turn()
        if isinstance(limit := record.get("skill"), dict):
            turn.skill_limits.append(limit)
        if call.name == "send":
            turn.replied.add(str(call.arguments.get("reply_to") or ""))
        named = call.arguments.get("task") or call.arguments.get("task_id") or turn.task
        if call.name == REPORT and named == turn.task:
            turn.reported = bool(turn.task)

    def _add_end(self, record: Record) -> None:
        self._open_turn().end = record

    def _add_closed(self, record: Record) -> None:
        self._marks[number(record["turn"])] = TurnMark(len(self.history), self.tokens, self.calls)
        turn, self.turn = self.turn, None
        if turn is not None:
            self.notes = [*self.notes, turn_note(turn)][-NOTES_MOST:]
        is_paused = turn is not None and turn.end is not None and turn.end.get("pauses") is True
        self.paused = _task_fields(turn.trigger) if turn and is_paused else {}
        # Mail that joined the turn and that the model never saw begins the next one.
        mail = _unseen_mail(turn) if turn else []
        if mail:
            self.turns += 1
            self.turn = TurnState(self.turns, [{**mail[0], **self.paused}, *mail[1:]])
        if turn is not None and not _has_lost_its_task(turn):
            self.waiting = [row for row in self.waiting if not _is_same_attempt(row, turn.trigger)]
        self._begin_waiting()

    def _begin_waiting(self) -> None:
        """Begin the turn of the next task that waits, unless another turn has begun."""
        if self.turn is None and self.waiting:
            self.turns += 1
            letter = self.waiting.pop(0)
            trigger = {key: value for key, value in letter.items() if key != "waits"}
            self.turn = TurnState(self.turns, [trigger])

    def _add_reflect(self, record: Record) -> None:
        self.reflection = record
        through = number(record.get("through"))
        self.notes = [note for note in self.notes if number(note.get("turn")) > through]

    def _add_reflected(self, _record: Record) -> None:
        self.reflection = {}

    def _add_park(self, record: Record) -> None:
        self.parked = record
        self.parkings += 1

    def _add_resume(self, _record: Record) -> None:
        self.parked = {}

    def _add_compact(self, record: Record) -> None:
        notes, reflection = record.get("notes"), record.get("reflection")
        self.notes = list(notes) if isinstance(notes, list) else []
        self.reflection = dict(reflection) if isinstance(reflection, dict) else {}
        # The inputs of the open turn follow in the same segment.
        self.history.clear()
        self.calls = []
        self._marks.clear()
        self.waiting.clear()  # they follow as well
        self.turn = TurnState(number(record["turn"]), [record], rounds=number(record["rounds"]))
        limits = record.get("skill_limits")
        self.turn.skill_limits = list(limits) if isinstance(limits, list) else []
        self.turns = max(self.turns, self.turn.number)

    def _add_fork(self, record: Record) -> None:
        """From here on the log is that of a sub-agent; the turn that is open is its own."""
        self.waiting.clear()
        self.system = str(record.get("system") or self.system)
        results = record.get("results")
        for call in self.calls:
            row = results.get(call.id) if isinstance(results, dict) else None
            call.result = row or call.result
        self.turns = max(self.turns, number(record["turn"]))
        is_clone = bool(self.history)
        self.turn = TurnState(
            number(record["turn"]), [record], rendered=int(is_clone),
            calls=self.calls if is_clone else [],
        )  # fmt: skip

    def _add_inherit(self, record: Record) -> None:
        """The conversation begins with the messages of another one."""
        self.history = texts(record["history"])
        rows = record["calls"]
        self.calls = [_tool_call(row, "") for row in (rows if isinstance(rows, list) else [])]
        for call, row in zip(self.calls, rows if isinstance(rows, list) else [], strict=True):
            call.result = row

    def _add_rewind(self, record: Record) -> None:
        mark = self._marks.get(number(record["to"]), TurnMark())
        del self.history[mark.size :]
        self.tokens, self.calls = mark.tokens, list(mark.calls)
        self.cli = ""  # what a CLI keeps cannot be cut
        self.turn = None
        self.paused = {}
        self.notes = [row for row in self.notes if number(row["turn"]) <= number(record["to"])]
        self._begin_waiting()

    def can_rewind(self, turn: int) -> bool:
        """Whether the history at the end of this turn is known; 0 is the beginning."""
        return turn == 0 or turn in self._marks

    def _open_turn(self) -> TurnState:
        if self.turn is None:
            raise ValueError("no turn is open")
        return self.turn

    def _call_of(self, record: Record) -> ToolCall:
        return next(call for call in self._open_turn().calls if call.id == record["call"])


def turn_note(turn: TurnState) -> Record:
    """What a reflection reads of a turn: what came in, without the daemon's facts, and its text."""
    texts = (str(row["text"]) for row in turn.inputs if row.get("kind") in _SAID)
    return {
        "turn": turn.number, "said": "\n".join(texts)[:_NOTE_MOST], "text": turn.text[:_NOTE_MOST]
    }  # fmt: skip


def task_mark(task: str, attempt: object) -> str:
    """What `seen` has of an attempt of a task."""
    return f"{task}:{attempt}"


def _has_lost_its_task(turn: TurnState) -> bool:
    """Whether the turn has ended because its task was withdrawn from it."""
    return turn.end is not None and turn.end.get("status") == ABANDONED


def _unseen_mail(turn: TurnState) -> list[Record]:
    """Mail of a turn that the model never saw.

    Mail that began a turn of a task is mail all the same when the task has ended meanwhile.
    """
    late = [row for row in turn.unseen if row is not turn.trigger or _has_lost_its_task(turn)]
    mail = [row for row in late if row["t"] == "input" and row.get("kind") == "mail"]
    return [{key: row[key] for key in row if key not in _TASK_KEYS} for row in mail]


def _is_same_attempt(letter: Record, trigger: Record) -> bool:
    """Whether a letter offers what the turn with this trigger works on."""
    return _task_fields(letter) == _task_fields(trigger)


def _task_fields(trigger: Record) -> Record:
    return {key: trigger[key] for key in _TASK_KEYS if key in trigger}


def _tool_call(row: object, key: str) -> ToolCall:
    fields = row if isinstance(row, dict) else {}
    arguments = fields.get("arguments")
    return ToolCall(
        str(fields.get("id")), str(fields.get("name")),
        arguments if isinstance(arguments, dict) else {}, key, not isinstance(arguments, dict),
    )  # fmt: skip


def number(value: object) -> int:
    return value if isinstance(value, int) else 0


def texts(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []
