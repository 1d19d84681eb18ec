"""`hive top` on a terminal: keys and the selected line."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import threading
import time
import tty
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from hive_core.agent.layout import cut
from hive_core.agent.output import plain
from hive_core.cli.agents import top_screen as look
from hive_core.cli.agents.top_rows import ORDERS, TopLine, TopMirror, TopView, summary
from hive_core.cli.core.row_words import Row, entries
from hive_core.errors import HiveError
from hive_core.varlink import Message

if TYPE_CHECKING:
    from hive_core.cli.agents.agent_follower import AgentFollower
    from hive_core.cli.core.session import Session

# The first rows are shown as they come, and after so many seconds all that came since.
_FIRST: Final = 0.2
_IDLE: Final = 1.0
_READ: Final = 1024
_ABOVE: Final = 2  # lines above the agents
_AROUND: Final = 3  # with the line below them
_WIDTH_LEAST, _HEIGHT_LEAST = 20, 5
_KEYS: Final = {
    "\x1b[A": "up", "\x1b[B": "down", "\x1b[5~": "page up", "\x1b[6~": "page down",
    "\x1b[H": "first", "\x1b[F": "last", "\x1bOA": "up", "\x1bOB": "down",
}  # fmt: skip
_MOVES: Final = {"k": -1, "up": -1, "j": 1, "down": 1}
_ENTER, _ESCAPE, _ERASE = ("\r", "\n"), "\x1b", ("\x7f", "\b")


class TopTerminal:
    """The screen and its keys. `follower` is started; it is stopped at the end.

    `chosen` leaves out agents that were not asked for.

    Only keys that ask hived for something else open a session: it takes longer to load than the
    first screen.
    """

    def __init__(
        self, follower: AgentFollower, open_session: Callable[[], Session],
        chosen: Callable[[Iterable[Row]], list[Row]],
    ) -> None:  # fmt: skip
        self.follower, self.open, self.chosen = follower, open_session, chosen
        self.mirror, self.view = TopMirror(), TopView()
        self.selected = ""
        self.first = 0  # the first line that is shown
        self.prompt: str | None = None  # a filter that is being typed
        self.question: tuple[str, Callable[[], object]] | None = None
        self.message = ""
        self._lines: list[TopLine] = []
        self._is_over = self._is_drawn = False

    def run(self) -> None:
        """Show the agents until `q`, Ctrl-C or the end of the input."""
        size = _terminal_size()
        self._screen = look.Screen(size.columns, size.lines)
        with _raw_terminal(self.follower.note):
            try:
                self._turn_until_over()
            except KeyboardInterrupt:
                pass
            finally:
                self.follower.stop()

    def _turn_until_over(self) -> None:
        first_at = time.monotonic() + _FIRST
        while not self._is_over:
            wait = _IDLE if self.mirror.synced else 0.05
            readable, _, _ = select.select([sys.stdin, self.follower.wake], [], [], wait)
            if sys.stdin in readable:
                self._take_input()
            if self.follower.wake in readable:
                self._take_pages(self.follower.take())
            is_first = bool(self._lines) and not self._is_drawn
            if is_first or self.mirror.synced or self.message or time.monotonic() >= first_at:
                self._draw()

    # What comes

    def _take_pages(self, pages: Sequence[Message | str]) -> None:
        for page in pages:
            if isinstance(page, str):
                self.message = page
            else:
                self.mirror.take(page)
                self.message = ""
        self._order()

    def _take_input(self) -> None:
        data = os.read(sys.stdin.fileno(), _READ)
        if not data:
            self._is_over = True
        for key in split_keys(data.decode(errors="ignore")):
            self._press(key)

    def _order(self) -> None:
        self._lines = self.view.lines(self.chosen(self.mirror.rows.values()))
        names = [str(line.row.get("name")) for line in self._lines]
        if names and self.selected not in names:
            self.selected = names[min(self.first, len(names) - 1)]

    # Keys

    def _press(self, key: str) -> None:
        if self.question is not None:
            self._answer(key)
        elif self.prompt is not None:
            self._type(key)
        elif key in ORDERS:
            self.view.order = key
            self._order()
        elif key in ("q", "\x03", "\x04"):
            self._is_over = True
        elif key in _MOVES or key in ("page up", "page down", "first", "last", "g", "G"):
            self._move(key)
        else:
            self._act(key)

    def _act(self, key: str) -> None:
        name = self.selected
        if key == "/":
            self.prompt = self.view.pattern
        elif key == "f" and name:
            self.view.folded ^= {name}
            self._order()
        elif key == "w":
            self._beside(self._show_todo)
        elif key == "l" and name:
            self._beside(lambda: self._show_logs(name))
        elif key in _ENTER and name:
            self._beside(lambda: self._watch(name))
        elif key == "S" and name:
            self.question = (f"stop {name}?", lambda: self.open().change("stop", agent=name))
        elif key == "R" and name:
            self.question = (f"resume {name}?", lambda: self.open().change("resume", agent=name))

    def _answer(self, key: str) -> None:
        """Only `y` does what was asked."""
        question, self.question = self.question, None
        if key != "y" or question is None:
            return
        try:
            question[1]()
            self.message = f"{question[0].removesuffix('?')}: requested"
        except HiveError as error:
            self.message = plain(str(error))

    def _type(self, key: str) -> None:
        text = self.prompt or ""
        if key in _ENTER:
            self.prompt = None
        elif key == _ESCAPE:
            self.prompt, self.view.pattern = None, ""
        elif key in _ERASE:
            self.prompt = self.view.pattern = text[:-1]
        elif len(key) == 1 and key.isprintable():
            self.prompt = self.view.pattern = text + key
        self._order()

    def _move(self, key: str) -> None:
        names = [str(line.row.get("name")) for line in self._lines]
        if not names:
            return
        at = names.index(self.selected) if self.selected in names else 0
        page = max(1, self._screen.height - _AROUND)
        steps = {**_MOVES, "page up": -page, "page down": page, "first": -at, "g": -at}
        at += steps.get(key, len(names))
        self.selected = names[max(0, min(at, len(names) - 1))]

    # Other things on the terminal

    def _beside(self, show: Callable[[], object]) -> None:
        """Give the terminal to something else until it ends, or Ctrl-C ends it."""
        from hive_core.cli.core.output import echo  # noqa: PLC0415 - loads click

        with _usual_terminal():
            try:
                show()
            except KeyboardInterrupt:
                pass
            except HiveError as error:
                echo(str(error))
        self._screen.forget()

    def _show_todo(self) -> None:
        from hive_core.cli.core.output import echo  # noqa: PLC0415 - loads click
        from hive_core.cli.host.todo import WAITING, with_command  # noqa: PLC0415 - seldom needed

        rows = entries(self.open().ask("todo"), "todo")
        WAITING.show([with_command(row) for row in rows], "table")
        echo("Enter: back")
        sys.stdin.readline()

    def _show_logs(self, name: str) -> None:
        from hive_core.cli.core.output import echo  # noqa: PLC0415 - loads click
        from hive_core.cli.host.records import follow_logs  # noqa: PLC0415 - seldom needed

        for line in follow_logs(self.open(), name):
            echo(line)

    def _watch(self, name: str) -> None:
        from hive_core.cli.agents.watch_agent import print_agent  # noqa: PLC0415 - seldom needed

        print_agent(self.open(), name, "table", with_logs=False)

    # The screen

    def _draw(self) -> None:
        size = _terminal_size()
        width, height = max(size.columns, _WIDTH_LEAST), max(size.lines, _HEIGHT_LEAST)
        out, self._is_drawn = self._screen.resize(width, height), True
        room = height - _AROUND
        names = [str(line.row.get("name")) for line in self._lines]
        at = names.index(self.selected) if self.selected in names else 0
        self.first = max(0, min(self.first, at, len(names) - room), at - room + 1)
        body = [
            look.reverse(look.agent_line(line, width)) if name == self.selected
            else look.agent_line(line, width)
            for name, line in zip(
                names[self.first : self.first + room],
                self._lines[self.first : self.first + room], strict=True,
            )
        ]  # fmt: skip
        body += [""] * (room - len(body))
        head = [cut(f"hive  {summary(self.mirror.rows.values())}", width)]
        lines = [*head, look.bold(look.heading_line(width)), *body, cut(self._foot(), width)]
        sys.stdout.write(out + self._screen.draw(lines))
        sys.stdout.flush()
        self.follower.shown.set()

    def _foot(self) -> str:
        if self.question is not None:
            return f"{plain(self.question[0])} [y/N]"
        if self.prompt is not None:
            return f"filter: {self.prompt}"
        pattern = f"filter {self.view.pattern}  " if self.view.pattern else ""
        return self.message or f"{pattern}{look.HELP}"


def _terminal_size() -> os.terminal_size:
    """The size now; variables such as COLUMNS do not follow a window."""
    try:
        return os.get_terminal_size(sys.stdout.fileno())
    except OSError:
        return os.terminal_size((80, 24))


def split_keys(text: str) -> list[str]:
    """Keys of an input; those that send several characters by their names."""
    keys = []
    while text:
        sequence = next((known for known in _KEYS if text.startswith(known)), None)
        keys.append(_KEYS[sequence] if sequence else text[0])
        text = text[len(sequence) if sequence else 1 :]
    return keys


@contextmanager
def _raw_terminal(resized: Callable[[], None]) -> Iterator[None]:
    """The other screen of the terminal, with keys as they are pressed."""
    before = termios.tcgetattr(sys.stdin)
    handler = _on_resize(resized)
    try:
        _begin()
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
        sys.stdout.write(look.LEAVE)
        sys.stdout.flush()
        if handler is not None:
            signal.signal(signal.SIGWINCH, handler)


def _begin() -> None:
    tty.setcbreak(sys.stdin)
    raw = termios.tcgetattr(sys.stdin)
    raw[6][termios.VSUSP] = b"\0"  # a stopped program would leave the other screen behind
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, raw)
    sys.stdout.write(look.ENTER)
    sys.stdout.flush()


def _on_resize(resized: Callable[[], None]) -> Callable[..., object] | int | None:
    if threading.current_thread() is not threading.main_thread():
        return None  # only there Python takes signals
    return signal.signal(signal.SIGWINCH, lambda *_: resized())


@contextmanager
def _usual_terminal() -> Iterator[None]:
    """The terminal as other programs expect it."""
    sys.stdout.write(look.LEAVE)
    sys.stdout.flush()
    raw = termios.tcgetattr(sys.stdin)
    raw[3] |= termios.ICANON | termios.ECHO
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, raw)
    try:
        yield
    finally:
        _begin()
