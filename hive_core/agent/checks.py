"""Checks that the operator set: each run of one is a child of the maid, whose end says how it is.

Nothing here waits. A child is made, looked at when mail came or its time is over, and gone once its
end is collected. Each is kept by name before it is made, so a maid that was killed takes
up its own again, and nobody else.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from math import inf
from typing import Any, Final

from hive_core.agent.check_alerts import Known, State, Telling
from hive_core.agent.reconnect import Link
from hive_core.errors import Busy, HiveError, NotFound, TimedOut, Unreachable

AT_ONCE: Final = 4
LIMITS: Final = {"memory_max": 128 << 20, "tasks_max": 64, "cpu_quota": 100}
_OWN: Final = re.compile(r"check-(.+)-[0-9a-f]{4}", re.ASCII)
_STARTS: Final = 1.0  # seconds between two looks at one that starts
_SAID_MOST: Final = 240
_HOW_MOST: Final = 300
_KNOWN_ENDS: Final = 64
_FAULT: Final = 5.0  # seconds until what was refused is tried again
# It may be otherwise in a moment, and says nothing about the check.
_PASSES: Final = (Unreachable, TimedOut, Busy)


@dataclass(frozen=True)
class Wanted:
    """One of the checks, as the survey tells it."""

    name: str
    command: list[str]
    every: float
    seconds: float

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Wanted:
        """What a newer daemon says beside that is nothing to this one."""
        return cls(row["name"], row["command"], row["every"], row["seconds"])


@dataclass
class Run:
    """A child that does one. `since`: when it was seen to run; without a `job` it was taken up."""

    check: str
    agent: str
    uuid: str
    job: str
    since: float | None = None
    trouble: str = ""


@dataclass
class Checks:
    """`keep` is called before one is made and when somebody was told.

    `news`: one has turned since somebody looked; `again`: those that are good again. `before`: who
    may be there that is in none of the runs, by name with the identity where that is known.
    """

    link: Link
    keep: Callable[[], None]
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    say: Callable[[str], None] = lambda _: None
    wanted: dict[str, Wanted] = field(default_factory=dict)
    known: dict[str, Known] = field(default_factory=dict)
    running: dict[str, Run] = field(default_factory=dict)
    again: list[str] = field(default_factory=list)
    before: dict[str, str] = field(default_factory=dict)
    news: bool = False
    _fresh: bool = True
    _ended: list[str] = field(default_factory=list)
    _me: str = ""
    _later: float = -inf

    def learn(self, found: list[dict[str, Any]]) -> None:
        """What the operator wants now. What is no check any more is forgotten."""
        self.wanted = {each["name"]: Wanted.of(each) for each in found}
        for name in [name for name in self.known if name not in self.wanted]:
            self._telling.take_back(self.known[name], f"{name} is not checked any more")
            del self.known[name]
        if self._fresh:
            self._telling.resume(self.known, self.wanted)
            self._fresh = False

    def aside(self, rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """All but those who do a check for this maid: how they are is said here."""
        for row in rows:
            own = _OWN.fullmatch(row["name"])
            if own is None or row["parent"] != self._name() or not self._take_up(own[1], row):
                yield row

    def step(self) -> bool:
        """As far as each goes now; whether one has turned.

        What is refused for a while holds up neither the others nor the round, and is tried again.
        """
        for act in self._acts() if self.clock() >= self._later else ():
            try:
                act()
            except (Unreachable, TimedOut):
                raise
            except HiveError as error:
                self.say(f"cannot go on with a check: {error.reason}")
                self._later = self.clock() + _FAULT
        return self.news

    def _acts(self) -> Iterator[Callable[[], None]]:
        for run in list(self.running.values()):
            yield partial(self._follow, run)
        for wanted in sorted(self._due(), key=self._last)[: max(0, AT_ONCE - len(self.running))]:
            yield partial(self._begin, wanted)
        for name in list(self.known):
            yield partial(self._tell, name)

    def pause(self) -> float:
        """Seconds until there is something to do, if no mail comes before."""
        times = [_STARTS if run.since is None else self._left(run) for run in self.running.values()]
        if len(self.running) < AT_ONCE:
            idle = (each for each in self.wanted.values() if each.name not in self.running)
            times += [self._last(each) + each.every - self.now() for each in idle]
        return max(0.05, self._later - self.clock(), min(times, default=inf))

    def troubles(self) -> Iterator[tuple[str, str, str]]:
        """Kind, name and text of each that is not good."""
        for name, known in self.known.items():
            if known.state == "bad":
                yield "check", name, f"{name} is bad: {known.how}"
            elif known.state == "unknown":
                yield "unchecked", name, f"{name} could not be checked: {known.how}"

    def lines(self) -> Iterator[str]:
        """All of them, for the report. What they wrote cannot pass for what we say."""
        if self.wanted:
            yield "checks:"
        for name in sorted(self.wanted):
            known = self.known.get(name)
            yield f"- {name}: " + (f"{known.state}: {known.how}" if known else "not checked yet")
            yield from (f"  > {line}" for line in (known.said if known else "").splitlines())

    def kept(self, *, said: bool = True) -> dict[str, Any]:
        """For the next start; what they wrote is the least of it."""
        less = {} if said else {"said": ""}
        return {name: {**asdict(known), **less} for name, known in self.known.items()}

    def runs(self) -> dict[str, str]:
        """The children that may be there, for the next start too."""
        return {**self.before, **{run.agent: run.uuid for run in self.running.values()}}

    def recall(self, kept: Mapping[str, Any], runs: Mapping[str, str]) -> None:
        self.known = {name: Known(**each) for name, each in kept.items()}
        self.before = dict(runs)

    @property
    def _telling(self) -> Telling:
        return Telling(self.link, self.keep)

    def _name(self) -> str:
        self._me = self._me or str(self.link.ask("whoami")["name"])
        return self._me

    def _last(self, wanted: Wanted) -> float:
        """When it was done last; a clock that was set back makes no check late."""
        known = self.known.get(wanted.name)
        return known.at if known is not None and known.at <= self.now() else -inf

    def _due(self) -> Iterator[Wanted]:
        for each in self.wanted.values():
            if each.name not in self.running and self._last(each) + each.every <= self.now():
                yield each

    def _left(self, run: Run) -> float:
        wanted = self.wanted.get(run.check)
        if wanted is None or run.since is None:
            return 0.0
        return run.since + wanted.seconds - self.clock()

    def _begin(self, wanted: Wanted) -> None:
        """It holds nothing and may make nobody: a command, and room for it."""
        agent = f"check-{wanted.name}-{os.urandom(2).hex()}"
        self.before[agent] = ""
        try:
            self.keep()
            made = self.link.change(
                "spawn", name=agent, role="task", title=f"check {wanted.name}",
                command=wanted.command, capabilities=[], tools=[], limits=LIMITS, max_children=0,
            )  # fmt: skip
        except _PASSES:
            raise
        except HiveError as error:
            self._set(wanted.name, "unknown", error.reason)
        else:
            self.running[wanted.name] = Run(wanted.name, agent, str(made["uuid"]), str(made["job"]))
        del self.before[agent]

    def _follow(self, run: Run) -> None:
        """Its end, or the end of its time, which begins when it runs."""
        if run.since is None and not self._starts(run):
            return
        try:
            end = self.link.change("wait_child", agent=run.agent, wait=0)["child"]
        except NotFound as error:
            self._lost(run, error.reason)
            return
        if isinstance(end, dict):
            self._judge(run, end)
        elif self._left(run) <= 0:
            self._end(run)

    def _end(self, run: Run) -> None:
        """Its time is over. Of one that could not be started in it that says nothing."""
        self._dismiss(run.agent)
        wanted = self.wanted.get(run.check)
        late = f"took longer than {wanted.seconds:g} s" if wanted else ""
        self._over(run, "unknown" if run.trouble else "bad", run.trouble or late)

    def _starts(self, run: Run) -> bool:
        with suppress(NotFound):
            job = self.link.ask("get_job", id=run.job)
            if job["state"] == "running":
                return False
            run.trouble = str(job["error"])
        run.since = self.clock()
        return True

    def _judge(self, run: Run, end: dict[str, Any]) -> None:
        """Who was ended by somebody, or with the host, has not said how it is."""
        verdict: State = "good" if end["clean"] else "bad"
        known = end["code"] is not None and not end["asked"]
        said = str(end["output"])[-_SAID_MOST:]
        self._over(run, verdict if known else "unknown", str(end["reason"]), said)

    def _lost(self, run: Run, reason: str) -> None:
        """It never ran, or nobody knows how it ended."""
        self._dismiss(run.agent)
        if run.job:
            self._over(run, "unknown", run.trouble or reason)
        else:
            self._forget(run)

    def _over(self, run: Run, state: State, how: str, said: str = "") -> None:
        self._forget(run)
        if run.check in self.wanted:
            self._set(run.check, state, how, said)

    def _forget(self, run: Run) -> None:
        """For a moment it is still there."""
        self._ended = [*self._ended, run.uuid][-_KNOWN_ENDS:]
        del self.running[run.check]

    def _set(self, name: str, state: State, how: str, said: str = "") -> None:
        old = self.known.get(name)
        bad, question = (old.bad, old.question) if old is not None else (False, "")
        if bad and state == "good":
            self.again.append(name)
        now_bad = bad if state == "unknown" else state == "bad"
        self.known[name] = Known(state, how[:_HOW_MOST], said, self.now(), now_bad, question)
        self.news |= old is None or old.state != state

    def _take_up(self, check: str, row: Mapping[str, Any]) -> bool:
        """One whose maid was killed goes on; one that nobody wants any more goes.

        False for who only has such a name: it was made by somebody else, whose matter it is.
        """
        uuid, agent = str(row["uuid"]), str(row["name"])
        if uuid in self._ended or uuid in {run.uuid for run in self.running.values()}:
            return True
        if self.before.get(agent) not in ("", uuid):
            return False
        if check in self.wanted and check not in self.running:
            self.running[check] = Run(check, agent, uuid, "", self.clock())
        else:
            self._dismiss(agent)
            self._ended.append(uuid)
        del self.before[agent]
        return True

    def _dismiss(self, agent: str) -> None:
        with suppress(NotFound):
            self.link.change("destroy", agent=agent)

    def _tell(self, name: str) -> None:
        """What is bad, once; that it is over, where it was told."""
        known = self.known[name]
        if not known.bad:
            self._telling.take_back(known, f"{name} is good again")
        elif not known.question:
            self._telling.tell(name, known)
