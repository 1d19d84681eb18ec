"""`hive-agent serve -- COMMAND...`: the loop that runs any program as an agent.

It handles one message at a time: the command reads the body on its standard input, its output is
the reply, and exit 0 acknowledges the message. Delivery is at least once: after a crash the message
is delivered again, and the idempotency key of the reply prevents a second reply. Tasks run in
threads of their own (tasks.py), so that messages and tasks do not wait for each other.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from tempfile import NamedTemporaryFile
from typing import Final, Never

from hive_core.agent.attend import start_beside
from hive_core.agent.letter import KINDS, ReceivedLetter, answers, reply_body
from hive_core.agent.outbox import TRY_AGAIN, Outbox, send_reply
from hive_core.agent.reconnect import Link
from hive_core.agent.secret_environment import with_secrets
from hive_core.agent.tasks import TaskLoop
from hive_core.errors import HiveError, TimedOut, Unreachable

TRIES: Final = 3
POLL: Final = 50  # seconds one `recv` waits; the daemon allows no more
_LOGGED: Final = 200
_BACK: Final = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class AgentStopped(BaseException):
    """SIGTERM or SIGINT came; not an Exception, so that no retry swallows it."""


def _say(text: str) -> None:
    sys.stderr.write(f"hive-agent: {text}\n")
    sys.stderr.flush()


def _pause_after(attempt: int, pauses: Sequence[float]) -> float:
    return pauses[min(attempt, len(pauses) - 1)]


@dataclass
class ServedCommand:
    """The command, with its number of tries and its time limit.

    `parallel`: tasks at once, unless the agent's spec sets it. `kinds`: the kinds of mail that the
    command gets; other mail is only logged. `secrets`: keys of secrets, by environment variable.
    """

    command: Sequence[str]
    lease: int = 60
    timeout: float | None = None
    back_off: Sequence[float] = (1.0, 4.0)
    parallel: int = 1
    environment: dict[str, str] = field(default_factory=dict)
    kinds: frozenset[str] = KINDS
    secrets: Mapping[str, str] = field(default_factory=dict)

    def run(self, letter: ReceivedLetter) -> bytes:
        """Run the command and return its output; raises OSError or SubprocessError."""
        done = subprocess.run(
            list(self.command),
            input=letter.body.encode(),
            stdout=subprocess.PIPE,
            env={**with_secrets(self.environment, self.secrets), **letter.environment},
            timeout=self.timeout,
            check=True,
        )
        return done.stdout


class MessageLoop:
    """Receives, runs the command, replies, acknowledges; waits while the daemon is away."""

    def __init__(self, link: Link, work: ServedCommand, sleep: Callable[[float], object]) -> None:
        self._link = link
        self._work = work
        self.tasks = TaskLoop(
            link.path, work.command, work.environment, work.parallel, work.timeout, sleep,
            accepts="task" in work.kinds, secrets=work.secrets,
        )  # fmt: skip
        self._sleep = sleep
        self._one = threading.Lock()
        # `link`: the connection of the thread of tasks. On another thread's, which waits for mail,
        # each of the two would read the answer to the other's call.
        self._own = threading.local()
        self.outbox = Outbox()

    def forever(self) -> Never:
        self.read_snapshot()
        self._read_parallel()
        threading.Thread(target=self._do_tasks, name="tasks", daemon=True).start()
        threading.Thread(target=self._send_replies, name="replies", daemon=True).start()
        try:
            while True:
                self.step()
        finally:
            self.tasks.close()

    def _read_parallel(self) -> None:
        """Read the number of tasks at once from the agent's spec, if that sets it."""
        try:
            wanted = self._call("whoami").get("parallel")
        except HiveError as error:
            _say(f"cannot read the number of tasks at once: {error.reason}")
            return
        if isinstance(wanted, int):
            if self._work.parallel not in (1, wanted):
                _say(f"{wanted} tasks at once, as the agent's spec says")
            self.tasks.set_parallel(wanted)

    def _do_tasks(self) -> Never:
        """Resume the tasks that were begun before, then take offered tasks."""
        self.tasks.resume_begun()
        with Link(self._link.path, answer=POLL) as link:
            self._own.link = link
            while True:
                self.tasks.step(link, self._work.lease, self.handle_message)

    def _send_replies(self) -> Never:
        with Link(self._link.path, answer=POLL) as link:
            self.outbox.forever(link.ask, self._sleep)

    def read_snapshot(self) -> None:
        """Write the agent's snapshot to a file; HIVE_SNAPSHOT has its path."""
        try:
            snapshot = str(self._call("get_snapshot").get("data") or "")
        except HiveError as error:
            _say(f"cannot get snapshot: {error.reason}")
            return
        if snapshot:
            with NamedTemporaryFile("w", prefix="hive-snapshot-", delete=False) as file:
                file.write(snapshot)
            self._work.environment["HIVE_SNAPSHOT"] = file.name

    def step(self) -> bool:
        """Handle one message, if one comes while `recv` waits."""
        try:
            reply = self._call("recv", wait=POLL, max=1, lease=self._work.lease, only="other")
        except HiveError as error:
            _say(f"cannot receive: {error.reason}")
            self._sleep(_BACK[-1])
            return False
        messages = reply.get("messages")
        for message in messages if isinstance(messages, list) else []:
            self._handle(ReceivedLetter.of(message))
        return bool(messages)

    def _handle(self, letter: ReceivedLetter) -> None:
        if self.outbox.holds(letter.id):
            self.outbox.deliver(self._call)
        elif self.tasks.hear(letter):
            self._try_call("ack", ids=[letter.id])
        elif not letter.is_one_of(self._work.kinds):
            _say(f"{letter.kind} of {letter.sender}: {_first_line(letter.body)}")
            self._try_call("ack", ids=[letter.id])
        else:
            self.handle_message(letter)

    def handle_message(self, letter: ReceivedLetter) -> None:
        """Run the command for a message; only one message is handled at a time."""
        with self._one:
            self._work_on(letter)

    def _work_on(self, letter: ReceivedLetter) -> None:
        try:
            output = self._run_command(letter)
        except AgentStopped:
            # Give the message back at once, so that the next start does not wait for the lease.
            self._try_call("nack", ids=[letter.id], why="the agent stopped")
            raise
        if output is None:
            return
        if self._pass_output_on(letter, output):
            self._try_call("ack", ids=[letter.id])

    def _pass_output_on(self, letter: ReceivedLetter, output: bytes) -> bool:
        """Send the output as a reply or an answer. False: the recipient's inbox is full."""
        body = reply_body(output)
        if letter.answerable and body:
            if not send_reply(self._call, letter, output):
                self.outbox.add(letter, output)
                return False
        elif letter.question[0] and body:
            self._answer_question(letter, body)
        elif output:
            _say(f"not sent ({letter.relation or 'no'} sender): {body!r}")
        else:
            _say(f"message {letter.id} of {letter.sender}: done")
        return True

    def _run_command(self, letter: ReceivedLetter) -> bytes | None:
        """The output of the command.

        None after three failures, which make the message a dead letter.
        """
        why = ""
        for attempt in range(TRIES):
            if attempt:
                self._sleep(_pause_after(attempt - 1, self._work.back_off))
            try:
                return self._work.run(letter)
            except (OSError, subprocess.SubprocessError) as error:
                why = _failure_reason(error)
                _say(f"message {letter.id}: {why} (try {attempt + 1} of {TRIES})")
        self._try_call("nack", ids=[letter.id], why=why, dead=True)
        return None

    def _answer_question(self, letter: ReceivedLetter, text: str) -> None:
        """Answer a question with the output of the command."""
        question, items = letter.question
        try:
            self._call(
                "answer", question=question, answers=answers(text, items),
                idempotency_key=f"answer:{letter.id}",
            )  # fmt: skip
        except HiveError as error:
            _say(f"cannot answer question {question}: {error.reason}")
        else:
            _say(f"question {question}: answered")

    def _try_call(self, operation: str, **params: object) -> None:
        """Call; a refusal is logged, and the message will be delivered again."""
        try:
            self._call(operation, **params)
        except HiveError as error:
            _say(f"cannot {operation}: {error.reason}")

    def _call(self, operation: str, /, **params: object) -> dict[str, object]:
        """Call until an answer comes: the daemon may be restarting or busy.

        A reply to a full inbox is refused at once, and sent later.
        """
        tries = 0 if operation == "send" else inf
        link: Link = getattr(self._own, "link", self._link)
        attempt = 0
        while True:
            try:
                return link.ask(operation, **params)
            except (Unreachable, TimedOut) as error:
                link.close()
                if attempt == 0:
                    _say(f"{error.reason}; waiting for the daemon")
            except HiveError as error:
                if error.exit_code != TRY_AGAIN or attempt >= tries:
                    raise
            self._sleep(_pause_after(attempt, _BACK))
            attempt += 1


def _first_line(body: str) -> str:
    return body.partition("\n")[0][:_LOGGED]


def _failure_reason(error: Exception) -> str:
    match error:
        case subprocess.CalledProcessError(returncode=code) if code < 0:
            return f"the command was ended by {signal.Signals(-code).name}"
        case subprocess.CalledProcessError(returncode=code):
            return f"the command ended with {code}"
        case subprocess.TimeoutExpired():
            return f"the command took longer than {error.timeout:g} s"
        case _:
            return f"cannot run the command: {error}"


def _raise_stop_request(number: int, _frame: object) -> Never:
    raise AgentStopped(number)


def run_until_stop(body: Callable[[], object]) -> int:
    """Run `body` until SIGTERM or SIGINT; the status is the shell's for that signal."""
    # The container's stub init sends HUP right after TERM, which would interrupt the shutdown:
    # https://github.com/systemd/systemd/blob/v252/src/nspawn/nspawn-stub-pid1.c
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        # Inside of `try`: a signal may come as soon as the first handler is set.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _raise_stop_request)
        body()
    except AgentStopped as stop:
        return 0 if stop.args[0] == signal.SIGTERM else 128 + int(stop.args[0])
    return 0


def run_serve(path: str, work: ServedCommand) -> int:
    start_beside(path)
    with Link(path, answer=POLL) as link:
        return run_until_stop(MessageLoop(link, work, threading.Event().wait).forever)


def run_hold() -> int:
    """Do nothing, so that the container keeps running and mail waits."""
    return run_until_stop(threading.Event().wait)
