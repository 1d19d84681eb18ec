"""Judges results beside the conversations: the verdict of the agent's model on work that it gave.

A thread asks for one verdict after the other; no turn waits for it. An answer that is not exactly a
verdict is none. Without a verdict the agent decides itself: nothing accepts a result but the word
`accept` in the place for it.
"""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hive_core.agent.prompt_text import escape_attribute, escape_tags
from hive_core.agent.reconnect import Link
from hive_core.agent.session.aside import AsideAnswer, AsideQuestion, ask_aside
from hive_core.agent.session.context import TurnContext
from hive_core.agent.session.exchange import ModelFailed
from hive_core.agent.session.memory.budget import DailyTokens
from hive_core.agent.session.runtimes.pool import RuntimePool
from hive_core.agent.session.services import SessionServices, describe_fault, fault_text, say
from hive_core.agent.task_run import mapping
from hive_core.errors import Conflict, HiveError, NotFound

WAITS: Final = "awaiting_judgement"
FILE: Final = "judge.json"
FEEDBACK_MOST: Final = 2000
_TEXT_MOST: Final = 48 * 1024
_VERDICTS: Final = ("accept", "retry", "escalate")


@dataclass(frozen=True, slots=True)
class ModelVerdict:
    """A verdict as the broker records it."""

    verdict: str
    feedback: str


class ResultJudge:
    """The judge of one session."""

    def __init__(self, services: SessionServices, pool: RuntimePool) -> None:
        self._services = services
        self._pool = pool
        self._budget = DailyTokens(services.folder / FILE, services.judge.tokens)
        self._tasks: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def note(self, task: str) -> None:
        """Have the result of a task judged."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="judge", daemon=True)
            self._thread.start()
        self._tasks.put(task)

    def resume(self, link: Link) -> None:
        """Have the results judged that an earlier process was asked about."""
        after: object = None
        while True:
            page = self._services.try_ask(link, "list_tasks", state=WAITS, after=after)
            rows = page.get("tasks")
            for row in map(mapping, rows if isinstance(rows, list) else []):
                if row.get("assigner") == self._services.name:
                    self.note(str(row.get("id")))
            if not (after := page.get("next")):
                return

    def _serve(self) -> None:
        with self._services.open_link() as link:
            while not self._services.stop.is_set():
                task = self._tasks.get()
                try:
                    self._judge(link, task)
                except Exception as error:  # noqa: BLE001 - a fault of ours ends no thread
                    say(f"cannot judge task {task}: {describe_fault(error)}")
                    link.close()

    def _judge(self, link: Link, task: str) -> None:
        try:
            whole = self._services.ask(link, "get_task", task=task)
        except NotFound:
            return
        row = mapping(whole.get("task"))
        if row.get("state") != WAITS or whole.get("undecided"):
            return
        attempt = row.get("attempt")
        verdict = self._verdict(link, task, judge_text(whole))
        try:
            self._services.ask(
                link, "judge_task", task=task, verdict=verdict.verdict, feedback=verdict.feedback,
                attempt=attempt, by_model=True, idempotency_key=f"judge:{task}:{attempt}",
            )  # fmt: skip
        except Conflict as error:  # it was decided or taken back meanwhile
            say(f"no verdict on task {task}: {error.reason}")

    def _verdict(self, link: Link, task: str, text: str) -> ModelVerdict:
        """The verdict of the model; escalate where it gives none."""
        if not self._services.judge.enabled:
            return ModelVerdict("escalate", "[judge] of the assigner is not enabled")
        question = AsideQuestion("judge", text, task)
        try:
            if not self._budget.take(question.tokens):
                return ModelVerdict("escalate", "the tokens of [judge] are used up for today")
            answer = self._ask(link, question)
        except (HiveError, OSError) as error:
            why = f"the judge cannot be asked: {fault_text(error)}"
            return ModelVerdict("escalate", why[:1000])
        self._budget.settle(question.tokens, answer.tokens)
        return read_verdict(answer.text) or ModelVerdict("escalate", "the judge gave no verdict")

    def _ask(self, link: Link, question: AsideQuestion) -> AsideAnswer:
        """Ask at the cost of the task; where that cannot pay, at the cost of the agent."""
        context = TurnContext.read(self._services, link)
        try:
            return ask_aside(self._pool, context, question)
        except ModelFailed as error:
            if error.end.get("error_kind") != "budget":
                raise
        return ask_aside(self._pool, context, AsideQuestion("judge", question.text))


def read_verdict(text: str) -> ModelVerdict | None:
    """The verdict, where the answer is one JSON object with a verdict and nothing else."""
    try:
        bare = text.strip().removeprefix("```json").removesuffix("```")
        value = json.loads(bare, object_pairs_hook=_single_members)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or not value.keys() <= {"verdict", "feedback"}:
        return None
    verdict, feedback = value.get("verdict"), value.get("feedback", "")
    if verdict not in _VERDICTS or not isinstance(feedback, str) or len(feedback) > FEEDBACK_MOST:
        return None
    is_reasoned = feedback.strip() or verdict == "accept"
    feedback = feedback.encode(errors="replace").decode()
    return ModelVerdict(verdict, feedback) if is_reasoned else None


def _single_members(pairs: Sequence[tuple[str, object]]) -> Mapping[str, object]:
    """An object; ValueError where a member comes twice: which one counts is not to be guessed."""
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("duplicate member")
    return members


def judge_text(whole: Mapping[str, object]) -> str:
    """What the judge reads: all of it data, in which no tag of hive is left."""
    result, criteria = mapping(whole.get("delivered")), mapping(whole.get("criteria"))
    parts = [str(result.get("summary") or "(no summary)")]
    if result.get("data") is not None:
        parts.append(f"data:\n{json.dumps(result['data'], indent=1, ensure_ascii=False)}")
    if names := result.get("artifacts"):
        parts.append(f"artifacts: {names}")
    head = f'<judged-result status="{escape_attribute(str(result.get("status")))}">'
    return "\n\n".join((
        _enclose("<judged-task>", str(whole.get("description") or ""), "</judged-task>"),
        _enclose("<judged-criteria>", str(criteria.get("text") or ""), "</judged-criteria>"),
        *_earlier_feedback(whole.get("judgements")),
        _enclose(head, "\n\n".join(parts), "</judged-result>"),
    ))  # fmt: skip


def _earlier_feedback(rows: object) -> Sequence[str]:
    judgements = map(mapping, rows if isinstance(rows, list) else [])
    lines = [
        f"- attempt {row.get('attempt')}: {escape_tags(str(row.get('feedback')))}"
        for row in judgements if row.get("verdict") == "retry"
    ]  # fmt: skip
    return ["\n".join(("Earlier results were not accepted:", *lines))] if lines else []


def _enclose(head: str, text: str, end: str) -> str:
    """A text between tags, shortened where it is long."""
    if len(text) > _TEXT_MOST:
        text = f"{text[:_TEXT_MOST]}\n[the rest is left out]"
    return f"{head}\n{escape_tags(text)}\n{end}"
