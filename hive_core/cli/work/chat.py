"""`hive chat`: a conversation of the operator with one agent."""

from __future__ import annotations

import sys
import threading
from collections.abc import Set
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Final

import click

from hive_core.agent import crash_report
from hive_core.agent.output import plain
from hive_core.cli.core.output import Row, block, echo, say
from hive_core.cli.core.parameters import DURATION
from hive_core.cli.core.session import Session, complete_agent, entries
from hive_core.cli.work.live_text import LiveLines, follow_turns
from hive_core.errors import HiveError, NotRunning, TimedOut, Unreachable
from hive_core.varlink import Message

ROOT: Final = "root"
_DOWN: Final = (
    "stopped",
    "parked",
    "failed",
    "absent",
)  # the agent does not receive mail in these states
# It receives mail once its machine runs; the message is kept until then.
_LATER: Final = ("sleeping", "starting", "stopping", "deploying")
_PATIENCE: Final = 3.0  # seconds in which an agent that asks for its mail has taken a message
_PAUSES: Final = (0.2, 0.5, 1.0, 2.0, 4.0, 4.0, 0.0)


@dataclass
class Conversation:
    """A conversation: one thread sends, another prints the answers, a third says what waits."""

    socket: str
    name: str
    patience: float = _PATIENCE
    thread: str = ""
    lost: HiveError | None = None
    open: set[str] = field(default_factory=set)
    answered: set[str] = field(default_factory=set)
    looked_up: set[str] = field(default_factory=set)
    live: LiveLines = field(default_factory=LiveLines)
    # The last text that was shown while the agent wrote it, and whether its line is not complete.
    shown: str = ""
    in_line: bool = False
    printing: threading.Lock = field(default_factory=threading.Lock)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def listen(self) -> None:
        """Print the agent's messages as they arrive, and acknowledge them."""
        lost: HiveError | None = None
        with closing(Session(self.socket)) as session:
            for pause in _PAUSES:
                try:
                    self._listen(session)
                except Unreachable as error:
                    lost = error
                    # The daemon restarts; all printed messages were acknowledged.
                    threading.Event().wait(pause)
                except HiveError as error:
                    lost = error
                    break
        with self.changed:
            self.lost = lost
            self.changed.notify_all()

    def _listen(self, session: Session) -> None:
        for row in session.follow("list_messages", "messages"):
            if row.get("from") == self.name:
                self._receive(session, row)
        raise Unreachable("the daemon ended the conversation")

    def _receive(self, session: Session, row: Message) -> None:
        body = str(row.get("body"))
        with self.printing:
            self._end_line()
            if body.strip() != self.shown.strip():
                echo(f"{self.name}> {block(body)}" if sys.stdout.isatty() else plain(body))
            self.shown = ""
        session.ask("ack", ids=[row.get("id")])
        with self.changed:
            self.answered.add(str(row.get("reply_to")))
            self.changed.notify_all()

    def watch(self) -> None:
        """Print what the agent writes in its turns, as it comes."""
        with closing(Session(self.socket)) as session:
            for part in follow_turns(session, self.name):
                self._show(part)

    def _show(self, part: Row) -> None:
        text = self.live.new_text(part)
        with self.printing:
            if text and not self.in_line:
                self.shown = ""
                click.echo(f"{self.name}~ ", nl=False)
            if text:
                self.in_line, self.shown = True, self.shown + text
                click.echo(block(text), nl=False)
                sys.stdout.flush()
            if part.get("ended"):
                self._end_line()

    def _end_line(self) -> None:
        if self.in_line:
            click.echo()
        self.in_line = False

    def watch_untaken(self) -> None:
        """Say of messages that the agent has not taken in time that they wait."""
        while not self.lost:
            if waiting := self._collect_unanswered_messages():
                with suppress(HiveError), closing(Session(self.socket)) as session:
                    self._tell_untaken(session, waiting)

    def _collect_unanswered_messages(self) -> set[str]:
        """The new messages that the agent has not answered after some seconds."""
        with self.changed:
            self.changed.wait_for(lambda: self.lost or self.open - self.looked_up)
            fresh = self.open - self.looked_up
            self.changed.wait_for(lambda: self.lost or fresh <= self.answered, self.patience)
            self.looked_up |= fresh
            return fresh - self.answered

    def _tell_untaken(self, session: Session, waiting: Set[str]) -> None:
        inbox = session.rows("list_messages", "messages", agent=self.name)
        is_untaken = any(row.get("id") in waiting and not row.get("attempt") for row in inbox)
        if is_untaken and _state(session, self.name) not in _LATER:  # else it was said at the start
            with self.printing:
                self._end_line()
                say(
                    f"your message waits: {self.name} has not asked for its mail; `hive agent show"
                    f" {self.name}` shows what it runs"
                )

    def send(self, session: Session, text: str) -> None:
        thread = self.thread or None
        reply = session.change("send", to=self.name, body=text, thread=thread)
        self.thread = self.thread or str(reply.get("thread") or reply.get("id"))
        with self.changed:
            self.open.add(str(reply.get("id")))
            self.changed.notify_all()

    def wait(self, seconds: float) -> bool:
        """Whether all answers came in time."""
        with self.changed:
            self.changed.wait_for(lambda: self.lost or self.open <= self.answered, seconds)
            if self.lost and not self.open <= self.answered:
                raise self.lost
            return self.open <= self.answered


@click.command
@click.argument("name", default=ROOT, shell_complete=complete_agent)
@click.option(
    "--wait",
    "seconds",
    type=DURATION,
    default=30.0,
    help="Time to wait for answers after the end of the input.  [default: 30s]",
)
@click.option(
    "--live/--no-live",
    default=None,
    help="Show what NAME writes while it works, not only its answers.  [default: on a terminal]",
)
@click.pass_obj
def chat(session: Session, name: str, seconds: float, *, live: bool | None) -> None:
    """Talk to NAME: send each line as a message, print answers as they arrive.

    With --live, text that the session of NAME writes in a turn appears as it comes, after `NAME~`.
    An answer with the same text is not printed again. A message that NAME has not taken after some
    seconds waits; the command says so.

    At the end of the input the command waits for missing answers. An agent that sleeps or starts
    gets the messages when it runs; the command says so at once. The exit status is 124 when an
    answer is missing, and 3 when NAME is stopped, parked or failed.
    """
    talk = Conversation(session.socket, name)
    _check_runs(session, name)
    crash_report.report_threads("hive")
    threading.Thread(target=talk.listen, daemon=True).start()
    threading.Thread(target=talk.watch_untaken, daemon=True).start()
    if sys.stdout.isatty() if live is None else live:
        threading.Thread(target=talk.watch, daemon=True).start()
    if sys.stdin.isatty():
        say(f"talking to {name}; Ctrl-D ends")
    for line in sys.stdin:
        if line.strip():
            talk.send(session, line.rstrip("\n"))
    if not sys.stdin.isatty() and not talk.wait(seconds):
        state = _state(session, name)
        raise TimedOut(f"no answer from {name} within {seconds:g}s; it is {state}")


def _state(session: Session, name: str) -> str:
    rows = entries(session.ask("list_agents", root=name, limit=1), "agents")
    return str(rows[0].get("state")) if rows else "absent"


def _check_runs(session: Session, name: str) -> None:
    """Refuse a chat with an agent that does not run; say what one does that will run later."""
    state = _state(session, name)
    if state in _DOWN:
        raise NotRunning(
            f"cannot chat with {name}: it is {state}; `hive start {name}` starts it, `hive send"
            f" {name} TEXT` leaves a message"
        )
    if state in _LATER:
        say(f"{name} does not run: it is {state}; {_next_start(session, name, state)}."
            " It reads your messages when it runs")  # fmt: skip


def _next_start(session: Session, name: str, state: str) -> str:
    """What starts an agent in this state."""
    if state == "sleeping" and session.ask("get_agent", agent=name).get("wakes"):
        return "a message wakes it"
    if state in ("starting", "deploying"):
        return "`hive todo` says what keeps it from starting, if anything does"
    return f"`hive start {name}` starts it"
