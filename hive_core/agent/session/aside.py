"""A request to the model beside the conversations: one question without tools, and one answer.

The system prompt is a template of its own. Nothing of it enters the history of a conversation.
"""

from __future__ import annotations

import json
import queue
import time
from dataclasses import dataclass
from typing import Final

from hive_core.agent.session.context import TurnContext
from hive_core.agent.session.exchange import ModelFailed
from hive_core.agent.session.runtimes.builtin import Line, RuntimeGone
from hive_core.agent.session.runtimes.pool import RuntimePool, SessionRuntime
from hive_core.agent.session.state import number
from hive_core.agent.task_run import mapping

OUTPUT_MOST: Final = 2048  # tokens


@dataclass(frozen=True, slots=True)
class AsideQuestion:
    """A question. `task` pays for it; empty: the budget of the agent."""

    template: str
    text: str
    task: str = ""
    seconds: float = 120.0

    @property
    def tokens(self) -> int:
        """An estimate of what it takes, from above."""
        return len(self.text.encode(errors="replace")) // 3 + 1024 + OUTPUT_MOST

    def line(self, context: TurnContext) -> Line:
        """The `turn` line of the child protocol."""
        model = context.model
        most = min(model.max_output or OUTPUT_MOST, OUTPUT_MOST)
        return {
            "type": "turn", "turn": 0, "results": {}, "tools": [], "deny": {},
            "system": {"context": dict(context.prompt), "template": self.template},
            "input": [{"kind": self.template, "text": self.text}],
            "model": model.alias, "wire": model.wire, "context": model.context,
            "settings": {
                "rounds": 0, "report": "", "last": {}, "task": self.task, "hands_back": False,
                "max_output": most, "name": model.name, "conversation": self.template,
            },
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class AsideAnswer:
    """The text of the answer, and the tokens that it took."""

    text: str
    tokens: int = 0

    def json_object(self) -> Line | None:
        """The JSON object in the text; None where there is none."""
        begin, end = self.text.find("{"), self.text.rfind("}")
        try:
            value = json.loads(self.text[begin : end + 1])
        except (ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) else None


def ask_aside(pool: RuntimePool, context: TurnContext, question: AsideQuestion) -> AsideAnswer:
    """Ask; RuntimeGone or ModelFailed where no answer comes in time."""
    events: queue.SimpleQueue[tuple[str, object]] = queue.SimpleQueue()
    runtime = pool.take(events, context.model.wire)
    try:
        runtime.send(question.line(context))
        answer = _read_answer(runtime, events, time.monotonic() + question.seconds)
    except BaseException:
        runtime.close()
        raise
    pool.give_back(runtime)
    return answer


def _read_answer(
    runtime: SessionRuntime, events: queue.SimpleQueue[tuple[str, object]], until: float
) -> AsideAnswer:
    text = ""
    while True:
        try:
            kind, line = events.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            raise RuntimeGone("the model did not answer in time") from None
        if kind == "gone" or not isinstance(line, dict):
            raise RuntimeGone(str(line))
        match line["type"]:
            case "response":
                text = str(line.get("text") or "")
                runtime.send({"type": "kept", "seq": line.get("seq")})
            case "call":
                refusal = {"content": "not now: answer with text", "is_error": True}
                runtime.send({"type": "result", "id": line.get("id"), **refusal})
            case "end" if line.get("status") == "error":
                raise ModelFailed(line)
            case "end":
                usage = mapping(line.get("usage"))
                used = sum(number(usage.get(key)) for key in ("tokens_in", "tokens_out"))
                return AsideAnswer(text, used)
            case _:
                pass
