"""One received message, and how `serve` treats it."""

from __future__ import annotations

import json
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self

BODY_LIMIT: Final = 64 * 1024
ANSWER_LIMIT: Final = 8 * 1024
_CUT: Final = "\n[cut]"
# The kinds that `serve` passes to its command by default; notices are a further kind.
MESSAGE, NOTICE = "message", "notice"
KINDS: Final = frozenset({MESSAGE, "task"})
# Messages of the daemon that the agent has to act on or has requested.
_ADDRESSED: Final = frozenset({
    "question", "escalation", "answer", "plan_submitted", "plan_approved", "plan_rejected",
    "reminder", "trigger", "wait_over", "batch_done", "resume", "revision",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class ReceivedLetter:
    """The fields of a message that `serve` needs."""

    id: str
    sender: str
    relation: str
    body: str
    kind: str
    thread: str
    reply_to: str
    source: str = ""

    @classmethod
    def of(cls, message: object) -> Self:
        """Read a letter from the wire: absent and null are the same."""
        row = message if isinstance(message, dict) else {}
        names = ("id", "from", "relation", "body", "kind", "thread", "reply_to", "source")
        return cls(*(str(row.get(name) or "") for name in names))

    def is_one_of(self, kinds: Collection[str]) -> bool:
        """Whether the letter is of one of these kinds.

        By its own kind, as a message, or as a notice.

        Notices are messages that the daemon sends by itself: the agent was moved, a configuration
        was deployed, its tasks have changed.
        """
        notice = self.relation == "daemon" and self.kind not in _ADDRESSED
        return self.kind in kinds or (NOTICE if notice else MESSAGE) in kinds

    @property
    def answerable(self) -> bool:
        """Whether output is sent back.

        Output is not sent to the daemon, which does not read mail, nor to the agent itself. It is
        not sent in answer to an answer, since two serving agents would never stop (the rule of RFC
        3834 for mail), nor in answer to a copy or a published message.
        """
        addressed = self.relation not in ("self", "daemon") and self.kind not in ("copy", "topic")
        return addressed and not self.reply_to

    @property
    def question(self) -> tuple[str, int]:
        """The question that the letter is about, and the number of its items; empty without one."""
        if self.relation != "daemon" or self.kind not in ("question", "escalation"):
            return "", 0
        with suppress(ValueError):
            head = json.loads(self.body.partition("\n")[0])
            if isinstance(head, dict) and isinstance(head.get("items"), int):
                return str(head.get("question") or ""), head["items"]
        return "", 0

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of the command; it reads the body from standard input."""
        variables = {
            "HIVE_MESSAGE_ID": self.id,
            "HIVE_FROM": self.sender,
            "HIVE_RELATION": self.relation,
            "HIVE_SOURCE": self.source,
            "HIVE_THREAD": self.thread,
            "HIVE_KIND": self.kind,
            "HIVE_REPLY_TO": self.reply_to,
            "HIVE_QUESTION": self.question[0],
        }
        # execve does not accept NUL, and a kind or thread is text of the sender.
        return {key: value.replace("\0", "") for key, value in variables.items()}


def answers(text: str, items: int) -> list[str]:
    """The output as one answer for each item.

    All of it for a single item, otherwise one line each.
    """
    pieces = [text] if items == 1 else text.split("\n")
    return [piece.encode()[:ANSWER_LIMIT].decode(errors="ignore") for piece in pieces]


def reply_body(output: bytes) -> str:
    """The output of a command as a body: text without the final newline, cut to the limit."""
    text = output.decode(errors="replace").removesuffix("\n")
    data = text.encode()
    if len(data) <= BODY_LIMIT:
        return text
    return data[: BODY_LIMIT - len(_CUT)].decode(errors="ignore") + _CUT
