"""The message loop: any program becomes an agent by `hive-agent serve -- COMMAND...`.

One message at a time: the command gets the body on its standard input, what it prints is the
reply, exit 0 acknowledges. At least once: after a crash the message comes again, and the reply's
idempotency key (made of the message id) keeps the sender from getting two. Tasks are begun beside
that, and each ends by its report (tasks.py).
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from tempfile import NamedTemporaryFile
from typing import Final, Never

from hive_core.agent.attend import beside
from hive_core.agent.letter import Letter, answers, reply_body
from hive_core.agent.link import Link
from hive_core.agent.tasks import Tasks
from hive_core.errors import Conflict, HiveError, TimedOut, Unreachable

TRIES: Final = 3
POLL: Final = 50  # seconds one `recv` waits; the daemon allows no more
TRY_AGAIN: Final = 75
_BACK: Final = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
# Answers kept for senders whose inbox is full.
_OWED: Final = 32


class Stopped(BaseException):
    """SIGTERM or SIGINT came; not an Exception, so that no retry swallows it."""


def _say(text: str) -> None:
    sys.stderr.write(f"hive-agent: {text}\n")
    sys.stderr.flush()


def _pause(attempt: int, pauses: Sequence[float]) -> float:
    return pauses[min(attempt, len(pauses) - 1)]


@dataclass
class Work:
    """The command, and how often and how long it is tried."""

    command: Sequence[str]
    lease: int = 60
    timeout: float | None = None
    back_off: Sequence[float] = (1.0, 4.0)
    parallel: int = 1
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, letter: Letter) -> bytes:
        """What the command printed; raises CalledProcessError and the like when it failed."""
        done = subprocess.run(
            list(self.command),
            input=letter.body.encode(),
            stdout=subprocess.PIPE,
            env={**self.environment, **letter.environment},
            timeout=self.timeout,
            check=True,
        )
        return done.stdout


class Loop:
    """Receives, works, replies, acknowledges; comes back whenever the daemon was away."""

    def __init__(self, link: Link, work: Work, sleep: Callable[[float], object]) -> None:
        self._link = link
        self._work = work
        self.tasks = Tasks(
            link.path, work.command, work.environment, work.parallel, work.timeout, sleep
        )
        self._sleep = sleep
        self._owed: dict[str, bytes] = {}

    def forever(self) -> Never:
        self.recall()
        try:
            self._begin_again()
            while True:
                self.step()
        finally:
            self.tasks.close()

    def _begin_again(self) -> None:
        try:
            self.tasks.again()
        except HiveError as error:
            _say(f"cannot look for tasks: {error.reason}")

    def recall(self) -> None:
        """What the agent kept for this start is a file that the command finds in HIVE_SNAPSHOT."""
        try:
            kept = str(self._patiently("get_snapshot").get("data") or "")
        except HiveError as error:
            _say(f"cannot get snapshot: {error.reason}")
            return
        if kept:
            with NamedTemporaryFile("w", prefix="hive-snapshot-", delete=False) as file:
                file.write(kept)
            self._work.environment["HIVE_SNAPSHOT"] = file.name

    def step(self) -> bool:
        """One message, if one comes while `recv` waits."""
        try:
            reply = self._patiently("recv", wait=POLL, max=1, lease=self._work.lease)
        except HiveError as error:
            _say(f"cannot receive: {error.reason}")
            self._sleep(_BACK[-1])
            return False
        messages = reply.get("messages")
        for message in messages if isinstance(messages, list) else []:
            self._handle(Letter.of(message))
        return bool(messages)

    def _handle(self, letter: Letter) -> None:
        if self._is_of_a_task(letter):
            return
        try:
            output = self._owed.pop(letter.id, None)
            if output is None:
                output = self._attempts(letter)
        except Stopped:
            # Given back at once, so that the next start need not wait for the lease to end.
            self._quietly("nack", ids=[letter.id], why="the agent stopped")
            raise
        if output is None:
            return
        if self._said(letter, output):
            self._quietly("ack", ids=[letter.id])

    def _said(self, letter: Letter, output: bytes) -> bool:
        """Hand on what was printed. False: there is no room for it yet."""
        body = reply_body(output)
        if letter.answerable and body:
            if not self._reply(letter, body):
                self._owe(letter, output)
                return False
        elif letter.question[0] and body:
            self._answer(letter, body)
        elif output:
            _say(f"not sent ({letter.relation or 'no'} sender): {body!r}")
        else:
            _say(f"message {letter.id} of {letter.sender}: done")
        return True

    def _is_of_a_task(self, letter: Letter) -> bool:
        """The task is on record at the daemon: the letter is done with once the work is begun."""
        try:
            taken = self.tasks.take(letter)
        except HiveError as error:
            _say(f"message {letter.id}: {error.reason}")
            self._quietly("nack", ids=[letter.id], why=error.reason)
            return True
        if taken:
            self._quietly("ack", ids=[letter.id])
        return taken

    def _attempts(self, letter: Letter) -> bytes | None:
        """The command's output, or None after it failed for good and the message was buried."""
        why = ""
        for attempt in range(TRIES):
            if attempt:
                self._sleep(_pause(attempt - 1, self._work.back_off))
            try:
                return self._work.run(letter)
            except (OSError, subprocess.SubprocessError) as error:
                why = _reason(error)
                _say(f"message {letter.id}: {why} (try {attempt + 1} of {TRIES})")
        self._quietly("nack", ids=[letter.id], why=why, dead=True)
        return None

    def _owe(self, letter: Letter, output: bytes) -> None:
        """Others must not wait for one who does not read: the message comes again after its lease,
        and the command is not run a second time for it.
        """
        self._owed[letter.id] = output
        if len(self._owed) > _OWED:
            del self._owed[next(iter(self._owed))]

    def _reply(self, letter: Letter, body: str) -> bool:
        """Answer once; a sender that is gone or may not be written to any more is only noted.

        False: there is no room for it yet.
        """
        params: dict[str, object] = {"to": letter.sender, "body": body, "reply_to": letter.id}
        if letter.thread:
            params["thread"] = letter.thread
        try:
            self._patiently("send", **params, idempotency_key=f"reply:{letter.id}")
        except Conflict:
            _say(f"message {letter.id} was answered before")
        except HiveError as error:
            _say(f"cannot reply to {letter.sender}: {error.reason}")
            return error.exit_code != TRY_AGAIN
        else:
            _say(f"message {letter.id} of {letter.sender}: answered")
        return True

    def _answer(self, letter: Letter, text: str) -> None:
        """What the command printed is the answer to a question; silence leaves it open."""
        question, items = letter.question
        try:
            self._patiently(
                "answer", question=question, answers=answers(text, items),
                idempotency_key=f"answer:{letter.id}",
            )  # fmt: skip
        except HiveError as error:
            _say(f"cannot answer question {question}: {error.reason}")
        else:
            _say(f"question {question}: answered")

    def _quietly(self, operation: str, **params: object) -> None:
        """A refusal is noted and no more: the message then comes again by itself."""
        try:
            self._patiently(operation, **params)
        except HiveError as error:
            _say(f"cannot {operation}: {error.reason}")

    def _patiently(self, operation: str, **params: object) -> dict[str, object]:
        """Ask until there is an answer: the daemon may be away or busy, or for a while an inbox
        full.
        """
        tries = len(_BACK) if operation == "send" else inf
        attempt = 0
        while True:
            try:
                return self._link.ask(operation, **params)
            except (Unreachable, TimedOut) as error:
                self._link.close()
                if attempt == 0:
                    _say(f"{error.reason}; waiting for the daemon")
            except HiveError as error:
                if error.exit_code != TRY_AGAIN or attempt >= tries:
                    raise
            self._sleep(_pause(attempt, _BACK))
            attempt += 1


def _reason(error: Exception) -> str:
    match error:
        case subprocess.CalledProcessError(returncode=code) if code < 0:
            return f"the command was ended by {signal.Signals(-code).name}"
        case subprocess.CalledProcessError(returncode=code):
            return f"the command ended with {code}"
        case subprocess.TimeoutExpired():
            return f"the command took longer than {error.timeout:g} s"
        case _:
            return f"cannot run the command: {error}"


def _stop(number: int, _frame: object) -> Never:
    raise Stopped(number)


def until_stopped(body: Callable[[], object]) -> int:
    """Run `body` until SIGTERM or SIGINT; the status is the shell's for that signal."""
    # The container's stub init sends HUP at the heels of TERM, which would cut the farewell short:
    # https://github.com/systemd/systemd/blob/v252/src/nspawn/nspawn-stub-pid1.c
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, _stop)
    try:
        body()
    except Stopped as stop:
        return 0 if stop.args[0] == signal.SIGTERM else 128 + int(stop.args[0])
    return 0


def serve(path: str, work: Work) -> int:
    beside(path)
    with Link(path, answer=POLL) as link:
        return until_stopped(Loop(link, work, threading.Event().wait).forever)


def hold() -> int:
    """Do nothing, so that the container stays and its mail waits."""
    return until_stopped(threading.Event().wait)
