"""Replies to full inboxes: a thread sends them later, while the loop continues.

The message stays leased until its reply is sent. When it is delivered again, its command is not run
again.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Final, Never, Protocol

from hive_core.agent.letter import ReceivedLetter, reply_body
from hive_core.errors import Conflict, HiveError

TRY_AGAIN: Final = 75
# Maximum number of such replies; beyond it the command runs again for the oldest message.
MOST: Final = 32
PAUSE: Final = 2.0  # seconds between two rounds


class BrokerCall(Protocol):
    """Call an operation by its name; raises a refusal of the daemon."""

    def __call__(self, operation: str, /, **params: object) -> dict[str, object]: ...


def send_reply(ask: BrokerCall, letter: ReceivedLetter, output: bytes) -> bool:
    """Answer a message once; a sender that was destroyed or refuses mail is only logged.

    Return False when its inbox is full.
    """
    params: dict[str, object] = {
        "to": letter.sender, "body": reply_body(output), "reply_to": letter.id,
    }  # fmt: skip
    if letter.thread:
        params["thread"] = letter.thread
    try:
        ask("send", **params, idempotency_key=f"reply:{letter.id}")
    except Conflict:
        say(f"message {letter.id} was answered before")
    except HiveError as error:
        say(f"cannot reply to {letter.sender}: {error.reason}")
        return error.exit_code != TRY_AGAIN
    else:
        say(f"message {letter.id} of {letter.sender}: answered")
    return True


class Outbox:
    """Replies that wait for room, by message."""

    def __init__(self) -> None:
        self._replies: dict[str, tuple[ReceivedLetter, bytes]] = {}
        self._lock = threading.Lock()
        self.filled = threading.Event()

    def add(self, letter: ReceivedLetter, output: bytes) -> None:
        with self._lock:
            self._replies[letter.id] = (letter, output)
            if len(self._replies) > MOST:
                del self._replies[next(iter(self._replies))]
        self.filled.set()

    def holds(self, message: str) -> bool:
        """Whether the reply to this message is in this outbox."""
        return message in self._replies

    def deliver(self, ask: BrokerCall) -> None:
        """Try each reply once; acknowledge the message of a reply that was sent."""
        for letter, output in list(self._replies.values()):
            with self._lock:  # the loop and the thread may handle the same reply
                if self.holds(letter.id) and send_reply(ask, letter, output):
                    del self._replies[letter.id]
                    ask("ack", ids=[letter.id])
        if not self._replies:
            self.filled.clear()

    def forever(self, ask: BrokerCall, sleep: Callable[[float], object]) -> Never:
        """Deliver replies forever, in a thread of its own."""
        while True:
            self.filled.wait()
            sleep(PAUSE)
            try:
                self.deliver(ask)
            except HiveError as error:
                say(f"cannot send replies: {error.reason}")


def say(text: str) -> None:
    sys.stderr.write(f"hive-agent: {text}\n")
    sys.stderr.flush()
