"""Both daemons are restarted while tabs show the tree, and the tabs do what a browser does.

A stream that ends is opened again after a second, with the id of its last frame; a `gap` loads the
page again. Tabs that are not decoded load it in any case, as after a restart of hive-web all have
a gap. Where hive-web answers 503, as this hived does not listen while it is restarted, a tab tries
again after a second.
"""

import gzip
import re
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from fuzz.served import HiveDaemon

from benchmarks.load.programs import end_sender, run_load
from benchmarks.load.streams import FIRST_AGENT, PATH, StreamEnded, StreamReader, check_frames
from benchmarks.report.rows import Row
from benchmarks.services.dashboard import Dashboard, DashboardDaemon

RETRY = 1.0  # seconds, as the stream says
LOAD_AGAIN = 1.0  # seconds from a frame that says so to the rows of the tree, as in live.js
EVERY = 0.25  # seconds from one lone send to the next
BEFORE, AFTERWARDS, AT_MOST = 3.0, 10.0, 120.0
_AFTER = re.compile(rb'data-after="([^"]+)"')
_ROW = re.compile(
    rb'id="a-%b"(?:(?!</div>).)*>([0-9]+)</span>\s*</div>' % FIRST_AGENT.encode(), re.DOTALL
)


@dataclass
class Tab:
    """A tab of the tree. `shown`: when how many letters of agent 0 came on its screen."""

    web: Dashboard
    address: int
    cookie: str
    stream: StreamReader
    shown: list[tuple[float, int]] = field(default_factory=list)
    told: list[int] = field(default_factory=list)  # letters that frames brought
    opened: float = 0.0  # when its stream was last opened again
    _is_open: bool = True

    @property
    def is_checked(self) -> bool:
        return self.stream.unpack is not None

    def follow(self, is_over: threading.Event) -> None:
        """Read the stream until all is over, and open it again as often as it ends."""
        while not is_over.is_set():
            try:
                if not self._is_open:
                    self._resume() if self.is_checked else self._load_page()
                self._read()
            except (StreamEnded, ConnectionError):
                self._is_open = False
                self.stream.connection.close()
                time.sleep(RETRY)
        self.stream.connection.close()

    def _read(self) -> None:
        stream = self.stream
        letters, gaps, shapes = len(stream.letters), stream.gaps, stream.shapes
        stream.read()
        self.told += stream.letters[letters:]
        self.shown += [(time.monotonic(), count) for count in stream.letters[letters:]]
        if stream.gaps > gaps:
            self._load_page()
        elif stream.shapes > shapes:
            threading.Timer(LOAD_AGAIN, self._load_rows).start()

    def _resume(self) -> None:
        before = self.stream
        self._open("", before.newest)
        self.stream.numbers = before.numbers

    def _load_page(self) -> None:
        """Load the page and open its stream, as a browser does after a `gap`."""
        self.stream.connection.close()
        self._is_open = False
        page = gzip.decompress(self.web.page("/tree", self.cookie)[0])
        self._show(page)
        after = _AFTER.search(page)
        if after is None:
            raise RuntimeError("a page has no place in the frames")
        self._open(after[1].decode(), "")

    def _load_rows(self) -> None:
        with suppress(ConnectionError, RuntimeError):  # live.js goes on with the rows that it has
            self._show(gzip.decompress(self.web.page("/tree/rows", self.cookie)[0]))

    def _show(self, html: bytes) -> None:
        self.shown.append((time.monotonic(), count_letters(html)))

    def _open(self, after: str, newest: str) -> None:
        connection = self.web.connect(self.address)
        path = f"{PATH}&after={after}"
        connection.sendall(self.web.request("GET", path, cookie=self.cookie, after=newest))
        unpack = zlib.decompressobj(31) if self.is_checked else None
        self.stream, self._is_open = StreamReader(connection, unpack, newest=newest or after), True
        self.opened = time.monotonic()


@dataclass(frozen=True)
class RestartTimes:
    """Moments of the monotonic clock."""

    start: float
    hived: float  # it listens again
    web: float  # its process is started again


def count_letters(html: bytes) -> int:
    """The letters in the inbox of agent 0, as a page shows them."""
    row = _ROW.search(html)
    if row is None:
        raise RuntimeError("a page lacks the row of agent 0")
    return int(row[1])


def measure_restart(hived: HiveDaemon, web: DashboardDaemon, tabs: Sequence[Tab]) -> list[Row]:
    """RuntimeError: a lone send or a frame is missing on a screen, or came twice."""
    checked = [tab for tab in tabs if tab.is_checked]
    before, is_over = _read_settled_letters(checked[0]), threading.Event()
    with ThreadPoolExecutor(len(tabs)) as pool:
        followers = [pool.submit(tab.follow, is_over) for tab in tabs]
        wait = partial(_await, followers)
        try:
            with run_load("patient_sender", hived.folder, EVERY) as lone:
                time.sleep(BEFORE)
                times = _restart_both(hived, web)
                wait(lambda: all(tab.opened > times.start for tab in tabs), "tabs are away")
                time.sleep(AFTERWARDS)
                sends = end_sender(lone)
            last = before + len(sends)
            wait(lambda: all(tab.shown[-1][1] >= last for tab in checked), "sends are missing")
        finally:
            is_over.set()
        for follower in followers:
            follower.result()
    _check_screens(checked, last)
    first = before + 1 + next(at for at, (sent, _) in enumerate(sends) if sent >= times.start)
    return _restart_rows(times, tabs, max(_time_on_screen(tab, first) for tab in checked))


def _read_settled_letters(tab: Tab) -> int:
    """The letters of agent 0 once no send is on its way to the page."""
    counts = [-1]
    while len(counts) < 2 or counts[-1] != counts[-2]:
        counts.append(count_letters(gzip.decompress(tab.web.page("/tree", tab.cookie)[0])))
        time.sleep(1.0)
    return counts[-1]


def _restart_both(hived: HiveDaemon, web: DashboardDaemon) -> RestartTimes:
    start = time.monotonic()
    hived.restart()
    ready = time.monotonic()
    web.restart()
    return RestartTimes(start, ready, time.monotonic())


def _await(followers: Sequence["Future[None]"], holds: Callable[[], bool], text: str) -> None:
    """Wait until something holds, or a tab fails."""
    until = time.monotonic() + AT_MOST
    while not holds():
        for follower in followers:
            if follower.done():
                follower.result()
        if time.monotonic() > until:
            raise RuntimeError(f"{text} {AT_MOST:.0f} s after the restart")
        time.sleep(0.05)


def _check_screens(tabs: Sequence[Tab], last: int) -> None:
    check_frames([tab.stream for tab in tabs])
    for tab in tabs:
        if sorted(set(tab.told)) != tab.told or tab.shown[-1][1] != last:
            raise RuntimeError("a lone send is not shown after the restart, or twice")


def _time_on_screen(tab: Tab, letters: int) -> float:
    return next(at for at, count in tab.shown if count >= letters)


def _restart_rows(times: RestartTimes, tabs: Sequence[Tab], shown: float) -> list[Row]:
    checked = sum(tab.is_checked for tab in tabs)
    return [
        {"name": f"both restarted, until a lone send is on {checked} screens",
         "value": shown - times.start, "unit": "s"},
        {"name": f"both restarted, until {len(tabs)} tabs have a stream again",
         "value": max(tab.opened for tab in tabs) - times.start, "unit": "s"},
        {"name": "both restarted, until hived listens again",
         "value": times.hived - times.start, "unit": "s"},
    ]  # fmt: skip
