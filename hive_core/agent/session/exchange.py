"""One exchange with the runtime: a `turn`, its answers and calls, and its `end`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from hive_core.agent.session.calls import CallAnswer
from hive_core.agent.session.context import RequestPurpose, TurnContext
from hive_core.agent.session.conversation import OpenConversation
from hive_core.agent.session.live import LiveText
from hive_core.agent.session.meter import TurnUsage
from hive_core.agent.session.runtimes.builtin import Line, RuntimeGone
from hive_core.agent.session.runtimes.pool import RuntimePool, SessionRuntime
from hive_core.agent.session.server_socket import SessionTool
from hive_core.agent.session.state import ConversationState, ToolCall, TurnState, number, texts
from hive_core.errors import HiveError

_CANCELLED: Final[Line] = {"type": "end", "status": "cancelled"}
# Providers refuse a history in which a call has no result.
_RESULT_KEYS: Final = ("content", "is_error", "template", "context")
_NOT_RUN: Final[Line] = {"content": "not run: the turn was stopped", "is_error": True}


class ModelFailed(HiveError):
    """A request to the model failed; `end` is what the runtime said of it."""

    def __init__(self, end: Line) -> None:
        super().__init__(str(end.get("error") or "no reason"))
        self.end = end


class ExchangeHandler(Protocol):
    """Runs or refuses the calls of an exchange."""

    @property
    def is_pausing(self) -> bool:
        """Whether the exchange is to stop after what was just done."""
        ...

    def answer(self, turn: TurnState, call: ToolCall, *, last: bool) -> CallAnswer:
        """Run a call, and log it."""
        ...

    def on_response(self) -> None:
        """An answer is on disk."""
        ...


@dataclass(slots=True)
class ModelExchange:
    """The runtime of one conversation, started when it is needed.

    `session_tool`: what the session runs itself for a CLI, beside the tools of servers.
    """

    conversation: OpenConversation
    context: TurnContext
    pool: RuntimePool
    live: LiveText
    session_tool: SessionTool | None = None
    meter: TurnUsage = field(default_factory=TurnUsage)
    _runtime: SessionRuntime | None = None
    _rendered: Line = field(default_factory=dict)

    def run(
        self,
        turn: TurnState,
        handler: ExchangeHandler,
        purpose: RequestPurpose = RequestPurpose.WORK,
    ) -> Line:
        """Ask the model, and go on until the runtime says `end`; RuntimeGone when it dies."""
        before = turn.rendered
        self._send_turn(turn, purpose)
        if self.conversation.ending:
            return self._cancel()
        while True:
            kind, value = self.conversation.events.get()
            match kind:
                case "line" if isinstance(value, dict):
                    end = self._on_line(turn, value, before, handler)
                    if end is not None:
                        return end
                case "gone":
                    self._runtime = None
                    raise RuntimeGone(str(value))
                case "input":
                    self._pass_arrived()
                case _:  # urgent, or a stop
                    return self._cancel()

    def summarize(self, shorten: int = 0) -> str:
        """Ask for a summary of the history, halved so many times; nothing of it is logged here.

        ModelFailed when the model cannot be asked.
        """
        line = self.context.turn_line(
            [self.context.template("compaction")],
            _results(self.conversation.state),
            rounds=0,
            conversation=self.conversation,
            purpose=RequestPurpose.SUMMARY,
        )
        self._send({**line, "shorten": shorten})
        answer = ""
        while True:
            line = self._next_line()
            match line["type"]:
                case "response":
                    answer = str(line.get("text") or "")
                    self._open_runtime().send({"type": "kept", "seq": line.get("seq")})
                case "call":
                    refusal = {"content": "not now: write the summary", "is_error": True}
                    self._open_runtime().send({"type": "result", "id": line.get("id"), **refusal})
                case "end":
                    self.meter.add(line)
                    if line.get("status") == "error":
                        raise ModelFailed(line)
                    return answer
                case _:
                    pass

    def _next_line(self) -> Line:
        """The next line of the runtime; inputs are in the log, and are asked about later."""
        while True:
            kind, value = self.conversation.events.get()
            if kind == "gone":
                self._runtime = None
                raise RuntimeGone(str(value))
            if kind == "line" and isinstance(value, dict):
                return value

    def rest(self) -> None:
        """Give the runtime back, for the next turn within the idle time."""
        if self._runtime is not None:
            self.pool.give_back(self._runtime, self.conversation.name)
            self._runtime = None

    def stop(self) -> None:
        """End the runtime now."""
        if self._runtime is not None:
            self._runtime.close()
            self._runtime = None
        self.conversation.drop_events()

    def _send_turn(self, turn: TurnState, purpose: RequestPurpose) -> None:
        rounds = self.context.rounds_left(turn) if purpose is RequestPurpose.WORK else 0
        unseen = self.conversation.take_unseen()
        line = self.context.turn_line(
            [self.context.input_line(row) for row in unseen],
            _results(self.conversation.state),
            rounds=rounds, conversation=self.conversation, purpose=purpose,
        )  # fmt: skip
        if self.pool.is_cli:
            line["cli"] = self._cli_fields(turn)
        self._send(line)

    def _cli_fields(self, turn: TurnState) -> Line:
        """What a CLI needs to go on with its own conversation."""
        return {
            "session": self.conversation.state.cli, "begun": turn.begun,
            "letter": str(turn.trigger.get("id") or ""), "tools": self.context.toolset.kinds,
            "locked": self.context.locked, "server_tools": self.context.toolset.server_tools,
            "session_tool": self.session_tool,
        }  # fmt: skip

    def _send(self, line: Line) -> None:
        history = self.conversation.state.history
        data = "\n".join(history).encode(errors="replace") if history else None
        if data is not None:
            line = {**line, "history": True}
        if self._runtime is None:
            self._runtime = self.pool.take(
                self.conversation.events, self.context.model.wire, self.conversation.name
            )
        self._runtime.send(line, data)

    def _pass_arrived(self) -> None:
        for row in self.conversation.take_new_inputs():
            line = self.context.input_line(row)
            self._open_runtime().send({"type": "enqueue", "input": line})

    def _open_runtime(self) -> SessionRuntime:
        if self._runtime is None:
            raise RuntimeGone("the runtime has ended")
        return self._runtime

    def _on_line(
        self, turn: TurnState, line: Line, before: int, handler: ExchangeHandler
    ) -> Line | None:
        match line["type"]:
            case "system":
                self.conversation.append({"t": "system", "text": str(line.get("text") or "")})
            case "begun":
                session = str(line.get("session") or "")
                self.conversation.append({"t": "cli", "turn": turn.number, "session": session})
                self._open_runtime().send({"type": "kept"})
            case "rendered":
                self._rendered = line
            case "delta":
                self.live.add(turn.number, str(line.get("text") or ""))
            case "response":
                self._log_response(turn, line, before)
                handler.on_response()
                self._open_runtime().send({"type": "kept", "seq": line.get("seq")})
            case "call":
                return self._on_call(turn, line, handler)
            case "end":
                self.meter.add(line)
                self.live.flush(turn.number)
                return line
            case _:
                pass
        return None

    def _log_response(self, turn: TurnState, line: Line, before: int) -> None:
        message, rows = line.get("message"), line.get("calls")
        if not isinstance(message, str) or not isinstance(rows, list) or "\n" in message:
            raise RuntimeGone("the runtime sent a malformed answer")
        # Without calls nothing begins with this answer: it shares the sync of what ends the turn.
        append = self.conversation.append if rows else self.conversation.append_without_sync
        append({
            "t": "response", "turn": turn.number, "sent": texts(self._rendered.get("messages")),
            "inputs": before + number(self._rendered.get("inputs")), "message": message,
            "calls": [_call_row(row) for row in rows], "text": str(line.get("text") or ""),
            "tokens": number(line.get("tokens")), "last": self._rendered.get("last") is True,
            **({"replied": texts(line["replied"])} if line.get("replied") else {}),
        })  # fmt: skip

    def _on_call(self, turn: TurnState, line: Line, handler: ExchangeHandler) -> Line | None:
        """Run a call of the last answer; return the exchange's end if the turn must wait."""
        call = next((row for row in turn.calls if row.id == line.get("id")), None)
        if call is None or call.result is not None:
            raise RuntimeGone(f"the runtime asks for a call that is not open: {line.get('id')}")
        outcome = handler.answer(turn, call, last=turn.last)
        if handler.is_pausing or self.conversation.ending:
            return self._cancel()
        self._pass_arrived()  # first, so that the request with the result has it
        result = {"content": outcome.content, "is_error": outcome.is_error}
        self._open_runtime().send({"type": "result", "id": call.id, **result})
        return None

    def _cancel(self) -> Line:
        """Cancel the request; the turn goes on from its log."""
        self._open_runtime().send({"type": "cancel"})
        while True:
            kind, value = self.conversation.events.get()
            if kind == "gone":
                self._runtime = None
                return _CANCELLED
            if kind == "line" and isinstance(value, dict) and value["type"] == "end":
                self.meter.add(value)
                return _CANCELLED


def _results(state: ConversationState) -> Line:
    """The results of the last answer's calls, for a runtime that has only the history."""
    is_open = state.turn is not None and bool(state.turn.calls)
    rows = ((call.id, call.result) for call in state.calls if call.result or not is_open)
    return {
        id_: {key: row[key] for key in _RESULT_KEYS if key in row} if row else _NOT_RUN
        for id_, row in rows
    }


def _call_row(row: object) -> Mapping[str, object]:
    fields = row if isinstance(row, dict) else {}
    return {key: fields.get(key) for key in ("id", "name", "arguments")}
