"""Spans of events: attempts of tasks, plans, turns, calls of models, uses of tools.

Names and attributes follow the GenAI conventions of OpenTelemetry
(https://github.com/open-telemetry/semantic-conventions-genai). No text of an agent is in them,
unless the operator wants it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from hive_core.model.wire.trace_context import (
    attempt_span,
    parse_traceparent,
    span_id,
    trace_id,
)
from hive_core.otel.events import LogEvent
from hive_core.otel.spans import CLIENT, Attribute, Span
from hive_core.otel.state import (
    OPEN_MOST,
    WAITING_MOST,
    OpenSpan,
    OpenTask,
    OtelState,
    WaitingSpan,
    keep_bounded,
)

TURN_WAIT: Final = 300.0  # seconds that a span waits for the record of its turn
_CLOCK_SLACK: Final = 1.0  # the session reads its clock before hived does
_ENDS: Final = frozenset({"finish", "fail", "drop", "stopped", "expired", "hand_back"})
_WELL: Final = frozenset({"success", "partial"})
_PROVIDERS: Final = {"messages": "anthropic", "chat": "openai", "responses": "openai"}


@dataclass
class SpanBuilder:
    """Takes events in their order; `spans` are those that have ended."""

    state: OtelState
    texts: bool = False
    spans: list[Span] = field(default_factory=list)

    def take(self, event: LogEvent) -> None:
        """Add what this event says."""
        match event.kind, event.operation:
            case "task", _:
                self._take_task(event)
            case "model", "call":
                self._take_model(event)
            case "record", "use_tool":
                self._begin_tool(event)
            case "record", "end_tool":
                self._end_tool(event, event.text("status"))
            case "tool", "grants_expire":
                self._end_tool(event, "expired")
            case "record", "keep_turn":
                self._take_turn(event)
            case _:  # it is about no span
                pass

    def flush(self, now: float) -> None:
        """Release spans whose turn was not recorded in time."""
        late = {one.agent for one in self.state.waiting if now - one.span.end >= TURN_WAIT}
        for agent in late:
            keep_bounded(self.state.without_turns, agent, value=True)
        self.spans += [one.span for one in self.state.waiting if one.agent in late]
        self.state.waiting = [one for one in self.state.waiting if one.agent not in late]

    # Tasks

    def _take_task(self, event: LogEvent) -> None:
        id_ = event.text("task")
        task = self._task(event, id_)
        task.attempt = max(1, event.number("attempt"))
        match event.operation:
            case "assign":
                task.title = event.text("title")
                task.parent = self._parent_of_task(event)
            case "begin" | "submit" | "delegate" if task.work is None and event.text("trace"):
                task.work = self._work(event, id_, task)
        if event.operation == "submit" and task.work is not None:
            task.plan = self._plan(event, id_, task)
        elif event.operation in ("approve", "reject") or event.operation in _ENDS:
            self._end_plan(event, task)
        if event.operation in _ENDS:
            self._end_work(event, id_, task)

    def _task(self, event: LogEvent, id_: str) -> OpenTask:
        task = self.state.tasks.get(id_)
        if task is None:
            task = OpenTask(trace=event.text("trace") or trace_id(id_))
            keep_bounded(self.state.tasks, id_, task)
        return task

    def _parent_of_task(self, event: LogEvent) -> str:
        """The attempt that split this task off, or the span of the operator's own program."""
        if whole := event.text("part_of"):
            known = self.state.tasks.get(whole)
            return attempt_span(whole, 1 if known is None else known.attempt)
        origin = parse_traceparent(event.text("traceparent"))
        return "" if origin is None else origin.span

    def _work(self, event: LogEvent, id_: str, task: OpenTask) -> OpenSpan:
        agent = event.target
        attributes: dict[str, Attribute] = {
            "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": agent,
            "hive.agent.id": event.target_uuid, "hive.task.id": id_,
            "hive.task.attempt": task.attempt,
        }  # fmt: skip
        if self.texts:
            attributes["hive.task.title"] = task.title
        return OpenSpan(
            name=f"invoke_agent {agent}", trace=task.trace, id=attempt_span(id_, task.attempt),
            parent=task.parent, start=event.time, agent=event.target_uuid, attributes=attributes,
        )  # fmt: skip

    def _plan(self, event: LogEvent, id_: str, task: OpenTask) -> OpenSpan:
        attributes: dict[str, Attribute] = {
            "gen_ai.operation.name": "plan", "gen_ai.agent.name": event.target, "hive.task.id": id_,
        }  # fmt: skip
        return OpenSpan(
            name=f"plan {event.target}", trace=task.trace,
            id=span_id("plan", id_, repr(event.time)), parent=attempt_span(id_, task.attempt),
            start=event.time, agent=event.target_uuid, attributes=attributes,
        )  # fmt: skip

    def _end_plan(self, event: LogEvent, task: OpenTask) -> None:
        if task.plan is not None:
            error = "" if event.operation == "approve" else event.operation
            self.spans.append(task.plan.close(event.time, error, ok=not error))
            task.plan = None

    def _end_work(self, event: LogEvent, id_: str, task: OpenTask) -> None:
        """The span of an attempt; a task that ended before it began has none."""
        status = event.text("status")
        is_over = event.operation != "hand_back"
        if task.work is not None:
            task.work.attributes["hive.task.status"] = status or event.operation
            error = "" if status in _WELL else status or event.operation
            if error:
                task.work.attributes["error.type"] = error
            if self.texts and error and event.reason:
                error = f"{error}: {event.reason}"
            self.spans.append(task.work.close(event.time, error, ok=not error))
        task.work = None
        if is_over:
            self.state.tasks.pop(id_, None)

    # What a turn contains

    def _take_model(self, event: LogEvent) -> None:
        model, status = event.text("alias"), event.text("status")
        seconds = event.number("latency_ms") / 1000
        attributes: dict[str, Attribute] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": _PROVIDERS.get(event.text("wire"), "hive"),
            "gen_ai.request.model": model, "gen_ai.response.model": event.text("model"),
            "gen_ai.usage.input_tokens": event.number("tokens_in"),
            "gen_ai.usage.output_tokens": event.number("tokens_out"),
            "gen_ai.usage.cache_read.input_tokens": event.number("cache_read"),
            "gen_ai.usage.cache_creation.input_tokens": event.number("cache_write"),
            "hive.cost_millionths": event.number("cost"), "hive.ttft_ms": event.number("ttft_ms"),
            "hive.usage.source": event.text("source"), **self._whose(event),
        }  # fmt: skip
        error = "" if status == "done" else status
        if error:
            attributes["error.type"] = error
        trace, parent = self._above(event)
        self._wait(event, Span(
            name=f"chat {model}", trace=trace or trace_id(event.text("reservation")),
            id=span_id("chat", event.text("reservation"), status), parent=parent, kind=CLIENT,
            start=event.time - seconds, end=event.time, attributes=attributes, error=error,
            ok=not error,
        ))  # fmt: skip

    def _begin_tool(self, event: LogEvent) -> None:
        grant, tool = event.text("grant"), event.text("tool")
        trace, parent = self._above(event)
        attributes: dict[str, Attribute] = {
            "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool,
            "gen_ai.tool.type": "function", "gen_ai.tool.call.id": grant, **self._whose(event),
        }  # fmt: skip
        if self.texts:
            attributes["gen_ai.tool.call.arguments"] = event.text("argument")
        keep_bounded(self.state.tools, grant, OpenSpan(
            name=f"execute_tool {tool}", trace=trace or trace_id(grant), id=span_id("tool", grant),
            parent=parent, start=event.time, agent=event.caller_uuid, attributes=attributes,
        ))  # fmt: skip

    def _end_tool(self, event: LogEvent, status: str) -> None:
        begun = self.state.tools.pop(event.text("grant"), None)
        if begun is None:
            return
        error = "" if status == "ok" else status
        if error:
            begun.attributes["error.type"] = error
        self._wait(event, begun.close(event.time, error, ok=not error), begun.agent)

    def _take_turn(self, event: LogEvent) -> None:
        """The span of a turn, and those that waited for it."""
        agent, began = event.caller_uuid, event.seconds("began")
        conversation, number = event.text("conversation"), str(event.number("turn"))
        id_ = span_id("turn", agent, conversation, number)
        self.state.without_turns.pop(agent, None)
        theirs = [one.span for one in self.state.waiting if one.agent == agent]
        self.state.waiting = [one for one in self.state.waiting if one.agent != agent]
        if began is None:
            began = min((span.start for span in theirs), default=event.time)
        trace, parent = self._above(event)
        trace = trace or trace_id(f"{agent} {conversation} {number}")
        for span in theirs:
            inside = span.end >= began - _CLOCK_SLACK
            update = {"trace": trace, "parent": id_} if inside else {}
            self.spans.append(span.model_copy(update=update))
        status = event.text("status")
        error = status if status in ("error", "limit") else ""
        attributes: dict[str, Attribute] = {
            "gen_ai.agent.name": event.caller, "gen_ai.conversation.id": conversation,
            "hive.agent.id": agent, "hive.turn": event.number("turn"), "hive.turn.status": status,
            "hive.task.id": event.text("task"),
        }  # fmt: skip
        if error:
            attributes["error.type"] = error
        self.spans.append(Span(
            name=f"turn {event.caller}", trace=trace, id=id_, parent=parent, start=began,
            end=event.time, attributes=attributes, error=error, ok=status == "done",
        ))  # fmt: skip

    def _above(self, event: LogEvent) -> tuple[str, str]:
        """The trace and the attempt of the task that the event belongs to; empty without a task."""
        id_ = event.text("task")
        if not id_:
            return "", ""
        task = self.state.tasks.get(id_)
        trace = event.text("trace") or (trace_id(id_) if task is None else task.trace)
        return trace, attempt_span(id_, 1 if task is None else task.attempt)

    def _whose(self, event: LogEvent) -> dict[str, Attribute]:
        return {
            "gen_ai.agent.name": event.caller, "hive.agent.id": event.caller_uuid,
            "hive.task.id": event.text("task"), "hive.subagent.id": event.text("sub"),
        }  # fmt: skip

    def _wait(self, event: LogEvent, span: Span, agent: str = "") -> None:
        """Keep the span until its turn is recorded, where the agent records turns."""
        agent = agent or event.caller_uuid
        waiting = self.state.waiting
        if agent in self.state.without_turns:
            self.spans.append(span)
            return
        waiting.append(WaitingSpan(agent=agent, span=span))
        while len(waiting) > min(WAITING_MOST, OPEN_MOST):
            self.spans.append(waiting.pop(0).span)
