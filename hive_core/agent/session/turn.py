"""Runs the turn of a conversation, step by step as its log says; after a crash just the same.

The runtime asks the model. Everything that lasts is done here, in this order: an answer is logged,
then its calls run, each between two records, then the turn ends, and last its result is passed on.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from hive_core.agent.reconnect import Link
from hive_core.agent.session.calls import (
    CREATE_COLONY,
    NOT_AN_OBJECT,
    CallAnswer,
    CallRunner,
    error_text,
)
from hive_core.agent.session.closing import TurnCloser, close_lost_turn
from hive_core.agent.session.compaction import OVERFLOW, Compactor
from hive_core.agent.session.context import RequestPurpose, TurnContext, read_reminder
from hive_core.agent.session.conversation import OpenConversation
from hive_core.agent.session.exchange import ModelExchange, ModelFailed
from hive_core.agent.session.guard import CALLS_MOST, TOO_MANY, TurnGuard
from hive_core.agent.session.inheritance import store_segment
from hive_core.agent.session.inputs import session_text
from hive_core.agent.session.memory.recall import MemoryRecall
from hive_core.agent.session.parking import Parked, cancel_escalation, escalate
from hive_core.agent.session.records import Record, read_hops
from hive_core.agent.session.recovery import (
    INTERRUPTED,
    AskModel,
    CloseTurn,
    EndTurn,
    RunCall,
    WaitForInput,
)
from hive_core.agent.session.results import shorten
from hive_core.agent.session.runtimes.builtin import RuntimeGone
from hive_core.agent.session.runtimes.cli_dialect import UNGRANTED
from hive_core.agent.session.services import SessionServices, say
from hive_core.agent.session.skill_files import store_skill_files
from hive_core.agent.session.skill_limits import call_refusal, limit_record
from hive_core.agent.session.state import MEMORY, ToolCall, TurnState
from hive_core.agent.session.subagents.fork import ForkRunner
from hive_core.agent.session.tasks import SessionTasks
from hive_core.agent.session.toolset import SESSION
from hive_core.errors import HiveError

_BACK_OFF: Final = (1.0, 4.0, 10.0)
_RATE_MOST: Final = 60.0
_NUDGE: Final = (
    "Your task is still open. Continue with a tool, report the result with {report}, or ask for"
    " what is missing. A text without a call is not delivered."
)
# After these a queen may have other tools and another prompt.
PHASE_MOVES: Final = frozenset({"run_agent_with_input", "stop_worker", "switch_to_reviewing"})
LIMIT: Final = "this was the last step of the turn: only the report was allowed"


@dataclass(slots=True)
class TurnRunner:
    """Runs the open turn of one conversation. It is used by one thread."""

    services: SessionServices
    conversation: OpenConversation
    link: Link
    context: TurnContext
    exchange: ModelExchange
    calls: CallRunner
    forks: ForkRunner
    guard: TurnGuard = field(default_factory=TurnGuard)
    is_subagent: bool = False  # its turn stays open at its end, and it escalates nothing
    inputs: int = 0  # that the turn had when the context was read
    recall: MemoryRecall | None = None
    has_moved: bool = False  # the queen is in another phase than the context
    _over_budget: str = ""  # why the next request only asks for the report of the task
    _park: Parked | None = None

    def run(self) -> Parked | None:
        """Run the open turn to its end, or until it has to wait."""
        turn = self.conversation.state.turn
        if turn is None or close_lost_turn(self.services, self.link, self.conversation):
            return None
        self.conversation.kill_call = self._kill_call
        try:
            self._recall_memories(turn)
            self._remind(turn)
            while not self.services.stop.is_set():
                if self.conversation.ending:
                    self._stop_turn()
                if self._is_in_other_phase() or not self._advance():
                    return None
                if self._park is not None:
                    parked, self._park = self._park, None
                    self.exchange.stop()
                    if not self.is_subagent:
                        escalate(self.services, self.link, self.conversation, parked)
                    return parked
        except Exception:
            self.exchange.stop()  # it may be in the middle of an answer that is not on disk
            raise
        finally:
            self.conversation.kill_call = None
            self.exchange.rest()
        return None

    def _is_in_other_phase(self) -> bool:
        """Whether a call or a letter since the context was read has moved the queen on."""
        if self.is_subagent:  # it goes on with what it was opened with
            return False
        letters = self.conversation.inputs[self.inputs :]
        self.has_moved = self.has_moved or any(row.get("phase") for row in letters)
        return self.has_moved

    def _advance(self) -> bool:
        """One step; False at the end of the turn."""
        match self.conversation.step():
            case WaitForInput():
                return False
            case CloseTurn() if self.is_subagent:
                return False
            case CloseTurn(turn):
                TurnCloser(self.services, self.link, self.conversation).close(turn)
                return False  # the next turn has a context, a reminder and a task of its own
            case EndTurn(turn):
                self._take_text(turn)
            case RunCall(turn, call):
                self.answer(turn, call, last=turn.last)
            case AskModel(turn):
                self._ask(turn)
        return True

    # The task of the turn.

    def _recall_memories(self, turn: TurnState) -> None:
        """Put memories behind the input of a new turn; once logged, they are not chosen again."""
        if self.recall is None or not turn.needs_memories:
            return
        inputs = "\n".join(str(row["text"]) for row in turn.inputs)
        text = self.recall.run(self.context, inputs, turn.task)
        if text:
            self.conversation.append_without_sync(
                {"t": "input", "turn": turn.number, "kind": MEMORY, "text": text}
            )

    def _remind(self, turn: TurnState) -> None:
        """Put the dated facts behind the input of a new turn."""
        if self.is_subagent or not turn.needs_reminder:
            return
        text = self.context.reminder or read_reminder(
            self.services, self.link, self.context.identity
        )
        row: Record = {"t": "input", "turn": turn.number, "kind": "reminder", "text": text}
        self.conversation.append_without_sync(row)

    def _take_text(self, turn: TurnState) -> None:
        """The last answer is text: the end of the turn, unless its task needs work or a report."""
        if turn.last:
            self._end(turn, "limit", error=self._over_budget)
            return
        progress = SessionTasks(self.services, self.link).progress(turn.task)
        if progress != "works":
            self._end(turn, "done", pauses=progress == "waits")
            return
        why = self.guard.note_text()
        if why:
            self._park = Parked(why)
            return
        text = session_text(_NUDGE.format(report=self.context.toolset.report))
        self.conversation.append({"t": "input", "turn": turn.number, "kind": "nudge", "text": text})

    def _stop_turn(self) -> None:
        why, self.conversation.ending = self.conversation.ending, ""
        turn = self.conversation.state.turn
        self.exchange.stop()
        if turn is not None and turn.end is None:
            self._end(turn, "stopped", error=why)

    # The model.

    def _ask(self, turn: TurnState) -> None:
        """One exchange with the model, which may have many answers."""
        if turn.last:
            self._end(turn, "limit", error=self._over_budget)
            return
        if self._must_compact() and not self._over_budget:
            self._compact(turn)
            return
        try:
            purpose = RequestPurpose.HAND_BACK if self._over_budget else RequestPurpose.WORK
            end = self.exchange.run(turn, self, purpose)
        except RuntimeGone as error:
            self.exchange.stop()
            self._note_failure(turn, error.reason, 0)
            return
        match end.get("status"):
            case "limit":
                self._end(turn, "limit", error=self._over_budget)
            case "error":
                self._on_error(turn, end)
            case _:
                pass  # done or cancelled: the log says how it goes on

    def on_response(self) -> None:
        """An answer is on disk: the turn goes on."""
        self.guard.note_answer()
        cancel_escalation(self.services, self.link, self.conversation)

    def _on_error(self, turn: TurnState, end: Mapping[str, object]) -> None:
        why, kind = str(end.get("error") or "no reason"), end.get("error_kind")
        after = end.get("retry_after")
        pause = float(after) if isinstance(after, int | float) else 0.0
        if kind == "budget" and turn.task and not self._over_budget:
            # Where it is the budget of the task, one request for a report passes.
            self._over_budget = why
        elif kind == "budget":
            self._park = Parked(self._over_budget or why, budget=True)
        elif kind == UNGRANTED:
            self._park = Parked(why)  # again, it would do the same
        elif kind == "rate":
            self._pause(min(max(pause, 1.0), _RATE_MOST))
        elif kind == OVERFLOW and self.conversation.state.history and not self.is_subagent:
            self._compact(turn, overflows=True)
        elif kind == OVERFLOW:
            self._end_overflow(turn, why)
        else:
            self._note_failure(turn, why, pause)

    def _note_failure(self, turn: TurnState, why: str, pause: float) -> None:
        say(f"conversation {self.conversation.name}: {why}")
        # Who watches the turn would else see nothing while the model is away.
        self.exchange.live.add(turn.number, f"\n[the model gave no answer: {why}]\n")
        self.exchange.live.flush(turn.number)
        reason = self.guard.note_failure(why)
        if reason:
            self._park = Parked(reason)
        else:
            self._pause(pause or _BACK_OFF[0])

    def _pause(self, seconds: float) -> None:
        """Wait, but not while the session or the turn is to end."""
        ends = time.monotonic() + seconds
        while not self.conversation.ending and (left := ends - time.monotonic()) > 0:
            if self.services.stop.wait(min(left, 0.2)):
                return

    def _must_compact(self) -> bool:
        if self.is_subagent:
            return False
        room = self.context.model.context * self.services.settings.compact_at
        return bool(self.conversation.state.history) and self.conversation.state.tokens > room

    def _compact(self, turn: TurnState, *, overflows: bool = False) -> None:
        compactor = Compactor(self.services, self.link, self.conversation, self.context)
        try:
            compactor.run(turn, self.exchange, overflows=overflows)
        except ModelFailed as error:
            why = f"cannot compact: {error.reason}"
            if error.end.get("error_kind") == OVERFLOW:
                self._end_overflow(turn, why)
            else:
                self._on_error(turn, {**error.end, "error": why})
        except HiveError as error:
            self._note_failure(turn, f"cannot compact: {error.reason}", 0)

    def _end_overflow(self, turn: TurnState, why: str) -> None:
        self._end(turn, "error", error=f"the conversation does not fit the model: {why}")

    # The calls.

    def answer(self, turn: TurnState, call: ToolCall, *, last: bool) -> CallAnswer:
        """Run a call between its two records, or answer it as its records say."""
        if turn.calls.index(call) >= CALLS_MOST:
            return self._refuse_excess(turn, call)
        kind = self.context.toolset.kinds.get(call.name, "")
        refusal = self._refusal(turn, call, kind, last=last)
        if refusal:
            outcome = CallAnswer(refusal, is_error=True)
        elif kind == SESSION:
            outcome = self._fork(turn, call)
        else:
            outcome = self._run_call(turn, call, kind)
        return self._log_result(turn, call, outcome)

    def _refuse_excess(self, turn: TurnState, call: ToolCall) -> CallAnswer:
        """Answer a call of an answer with too many; without a sync, since nothing was done."""
        self.conversation.append_without_sync({
            "t": "result", "turn": turn.number, "call": call.id, "content": TOO_MANY,
            "is_error": True,
        })  # fmt: skip
        return CallAnswer(TOO_MANY, is_error=True)

    def _run_call(self, turn: TurnState, call: ToolCall, kind: str) -> CallAnswer:
        run = self.calls.run if call.started is None else self.calls.run_again
        if call.started is None:
            self.conversation.append({
                "t": "call", "turn": turn.number, "call": call.id, "name": call.name,
                **self.calls.start_fields(call, kind),
            })  # fmt: skip
        try:
            parameters = self._parameters(turn, call)
        except HiveError as error:
            if self.services.stop.is_set():
                raise  # the next process of the session runs the call
            return CallAnswer(error_text(error), is_error=True)
        return run(call, kind, turn.task, parameters)

    def _fork(self, turn: TurnState, call: ToolCall) -> CallAnswer:
        """Run a sub-agent; one that an earlier process began has ended, and is not begun again."""
        if call.started is not None:
            return CallAnswer(INTERRUPTED, is_error=True)
        row: Record = {"t": "call", "turn": turn.number, "call": call.id, "name": call.name}
        self.conversation.append(row)
        return self.forks.run(call, turn)

    def _kill_call(self) -> None:
        self.calls.kill()
        self.forks.kill()

    def _log_result(self, turn: TurnState, call: ToolCall, outcome: CallAnswer) -> CallAnswer:
        content, artifact = shorten(self.services, self.link, outcome.content, f"{call.key}:result")
        record: Record = {
            "t": "result", "turn": turn.number, "call": call.id, "content": content,
            "is_error": outcome.is_error,
        }  # fmt: skip
        if artifact:
            record["artifact"] = artifact
        if not outcome.is_error and (limit := self._skill_limit(call)):
            record["skill"] = limit
        self.conversation.append(record)
        self.has_moved = self.has_moved or _moves_queen(call, outcome)
        why = self.guard.note_call(call.name, call.arguments, content)
        if why:
            self._park = Parked(why)
        return CallAnswer(content, outcome.is_error)

    def _refusal(self, turn: TurnState, call: ToolCall, kind: str, *, last: bool) -> str:
        if call.name in self.context.toolset.disabled or not kind:
            return self.context.toolset.refusal(call.name)
        if call.malformed:
            return NOT_AN_OBJECT
        if last and call.name != self.context.toolset.report:
            return LIMIT
        return call_refusal(turn, call, self.context.prompt.get("skills"))

    def _skill_limit(self, call: ToolCall) -> Record:
        return limit_record(call, self.context.prompt.get("skills"), self.context.toolset.kinds)

    def _parameters(self, turn: TurnState, call: ToolCall) -> Mapping[str, object]:
        """What the session adds to an operation: the letter, and what a colony inherits."""
        letter = max(turn.inputs, key=read_hops)
        source: dict[str, object] = {
            "source_conversation": self.conversation.name, "source_turn": turn.number,
        }  # fmt: skip
        if call.name == CREATE_COLONY:
            source |= self._handover_parameters(call)
        return {**source, **({"in_turn_of": letter["id"]} if letter.get("id") else {})}

    def _handover_parameters(self, call: ToolCall) -> Mapping[str, object]:
        """What a colony gets of its queen's workspace and conversation."""
        folder = str(call.arguments.get("skill_path") or "")
        files = store_skill_files(self.services, self.link, folder)
        if call.arguments.get("inherit") != "full":
            return files
        return {**files, **store_segment(self.services, self.link, self.conversation)}

    # The end of the turn.

    def _end(self, turn: TurnState, status: str, *, error: str = "", pauses: bool = False) -> None:
        self.conversation.append({
            "t": "end", "turn": turn.number, "status": status, "text": turn.text,
            "error": error, "rounds": turn.rounds, **({"pauses": True} if pauses else {}),
            **self.exchange.meter.fields(),
        })  # fmt: skip

    @property
    def is_pausing(self) -> bool:
        """Whether the exchange is to stop: to wait, to compact, or because the task has ended."""
        step = self.conversation.step()
        compacts = self._must_compact() and isinstance(step, AskModel)
        return self._park is not None or self.has_moved or compacts or isinstance(step, EndTurn)


def _moves_queen(call: ToolCall, outcome: CallAnswer) -> bool:
    return call.name in PHASE_MOVES and not outcome.is_error
