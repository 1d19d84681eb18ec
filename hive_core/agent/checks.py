"""The operator's checks: each run is a child of the maid, and the end of the child is the result.

No function here waits. The maid creates a child, checks it when mail comes or its time is over, and
destroys it once its end is collected. She saves its name before she creates it, so that a restarted
maid adopts her own children and no others.
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

from hive_core.agent.check_alerts import CheckAlerts, CheckState, Health
from hive_core.agent.reconnect import Link
from hive_core.errors import Busy, HiveError, NotFound, TimedOut, Unreachable

AT_ONCE: Final = 4
LIMITS: Final = {"memory_max": 128 << 20, "tasks_max": 64, "cpu_quota": 100}
_OWN: Final = re.compile(r"check-(.+)-[0-9a-f]{4}", re.ASCII)
_STARTS: Final = 1.0  # seconds between two looks at a child that starts
_SAID_MOST: Final = 240
_HOW_MOST: Final = 300
_KNOWN_ENDS: Final = 64
_FAULT: Final = 5.0  # seconds until a refused call is tried again
# A retry may succeed; such an error says nothing about the check.
_PASSES: Final = (Unreachable, TimedOut, Busy)


@dataclass(frozen=True)
class CheckSpec:
    """One check, from a row of `survey`."""

    name: str
    command: list[str]
    every: float
    seconds: float

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> CheckSpec:
        """Read a row of `survey`; ignore additional fields of a newer daemon."""
        return cls(row["name"], row["command"], row["every"], row["seconds"])


@dataclass
class CheckRun:
    """A child that runs a check.

    `since`: when it was seen running; an adopted child has no `job`.
    """

    check: str
    agent: str
    uuid: str
    job: str
    since: float | None = None
    trouble: str = ""


@dataclass
class Checks:
    """All checks of a maid.

    `keep` saves the state: before a child is created and after an alert. `news`: a check changed
    its state since the last look. `recovered`: checks that are good again. `earlier_runs`: children
    that may exist without a run, by name, with their identity if known.
    """

    link: Link
    keep: Callable[[], None]
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    say: Callable[[str], None] = lambda _: None
    specs: dict[str, CheckSpec] = field(default_factory=dict)
    states: dict[str, CheckState] = field(default_factory=dict)
    running: dict[str, CheckRun] = field(default_factory=dict)
    recovered: list[str] = field(default_factory=list)
    earlier_runs: dict[str, str] = field(default_factory=dict)
    news: bool = False
    _fresh: bool = True
    _ended: list[str] = field(default_factory=list)
    _me: str = ""
    _later: float = -inf

    def set_checks(self, rows: list[dict[str, Any]]) -> None:
        """Set the operator's checks; forget the state of removed checks."""
        self.specs = {row["name"]: CheckSpec.of(row) for row in rows}
        for name in [name for name in self.states if name not in self.specs]:
            self._alerts.withdraw(self.states[name], f"the operator removed the check {name}")
            del self.states[name]
        if self._fresh:
            self._alerts.resume(self.states, self.specs)
            self._fresh = False

    def without_checkers(self, rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """The rows without the children that run checks of this maid."""
        for row in rows:
            own = _OWN.fullmatch(row["name"])
            if own is None or row["parent"] != self._own_name() or not self._adopt(own[1], row):
                yield row

    def step(self) -> bool:
        """Advance each check; return whether one changed its state.

        A refused call is tried again, and delays neither the other checks nor the round.
        """
        for act in self._due_actions() if self.clock() >= self._later else ():
            try:
                act()
            except (Unreachable, TimedOut):
                raise
            except HiveError as error:
                self.say(f"cannot continue a check: {error.reason}")
                self._later = self.clock() + _FAULT
        return self.news

    def _due_actions(self) -> Iterator[Callable[[], None]]:
        for run in list(self.running.values()):
            yield partial(self._follow_run, run)
        for wanted in sorted(self._due_checks(), key=self._last_run)[
            : max(0, AT_ONCE - len(self.running))
        ]:
            yield partial(self._start_run, wanted)
        for name in list(self.states):
            yield partial(self._update_alert, name)

    def pause(self) -> float:
        """Seconds until the next step, if no mail comes before."""
        times = [
            _STARTS if run.since is None else self._seconds_left(run)
            for run in self.running.values()
        ]
        if len(self.running) < AT_ONCE:
            idle = (spec for spec in self.specs.values() if spec.name not in self.running)
            times += [self._last_run(spec) + spec.every - self.now() for spec in idle]
        return max(0.05, self._later - self.clock(), min(times, default=inf))

    def problems(self) -> Iterator[tuple[str, str, str]]:
        """Kind, name and text of each check that is not good."""
        for name, known in self.states.items():
            if known.state == "bad":
                yield "check", name, f"{name} is bad: {known.how}"
            elif known.state == "unknown":
                yield "unchecked", name, f"{name} could not be checked: {known.how}"

    def report_lines(self) -> Iterator[str]:
        """All checks, for the report.

        Their output is quoted, so that it cannot look like the report.
        """
        if self.specs:
            yield "checks:"
        for name in sorted(self.specs):
            known = self.states.get(name)
            yield f"- {name}: " + (f"{known.state}: {known.how}" if known else "not checked yet")
            yield from (f"  > {line}" for line in (known.said if known else "").splitlines())

    def saved_states(self, *, said: bool = True) -> dict[str, Any]:
        """The states for the next start, with the output of the checks only if `said`."""
        less = {} if said else {"said": ""}
        return {name: {**asdict(known), **less} for name, known in self.states.items()}

    def saved_runs(self) -> dict[str, str]:
        """The children that may exist, for the next start."""
        return {**self.earlier_runs, **{run.agent: run.uuid for run in self.running.values()}}

    def restore(self, states: Mapping[str, Any], runs: Mapping[str, str]) -> None:
        self.states = {name: CheckState(**state) for name, state in states.items()}
        self.earlier_runs = dict(runs)

    @property
    def _alerts(self) -> CheckAlerts:
        return CheckAlerts(self.link, self.keep)

    def _own_name(self) -> str:
        self._me = self._me or str(self.link.ask("whoami")["name"])
        return self._me

    def _last_run(self, wanted: CheckSpec) -> float:
        """When a check ran last; a clock that was set back does not delay a check."""
        known = self.states.get(wanted.name)
        return known.at if known is not None and known.at <= self.now() else -inf

    def _due_checks(self) -> Iterator[CheckSpec]:
        for spec in self.specs.values():
            if spec.name not in self.running and self._last_run(spec) + spec.every <= self.now():
                yield spec

    def _seconds_left(self, run: CheckRun) -> float:
        wanted = self.specs.get(run.check)
        if wanted is None or run.since is None:
            return 0.0
        return run.since + wanted.seconds - self.clock()

    def _start_run(self, wanted: CheckSpec) -> None:
        """Create a child for a check, with a command and limits, without rights."""
        agent = f"check-{wanted.name}-{os.urandom(2).hex()}"
        self.earlier_runs[agent] = ""
        try:
            self.keep()
            made = self.link.change(
                "spawn", name=agent, role="task", title=f"check {wanted.name}",
                command=wanted.command, capabilities=[], tools=[], limits=LIMITS, max_children=0,
            )  # fmt: skip
        except _PASSES:
            raise
        except HiveError as error:
            self._set_state(wanted.name, "unknown", error.reason)
        else:
            self.running[wanted.name] = CheckRun(
                wanted.name, agent, str(made["uuid"]), str(made["job"])
            )
        del self.earlier_runs[agent]

    def _follow_run(self, run: CheckRun) -> None:
        """Follow a run to its end or its time limit; the time begins when the child runs."""
        if run.since is None and not self._has_started(run):
            return
        try:
            end = self.link.change("wait_child", agent=run.agent, wait=0)["child"]
        except NotFound as error:
            self._give_up(run, error.reason)
            return
        if isinstance(end, dict):
            self._judge_end(run, end)
        elif self._seconds_left(run) <= 0:
            self._time_out(run)

    def _time_out(self, run: CheckRun) -> None:
        """End a run that took too long; a child that did not start in time has no result."""
        self._dismiss(run.agent)
        wanted = self.specs.get(run.check)
        late = f"took longer than {wanted.seconds:g} s" if wanted else ""
        self._finish_run(run, "unknown" if run.trouble else "bad", run.trouble or late)

    def _has_started(self, run: CheckRun) -> bool:
        with suppress(NotFound):
            job = self.link.ask("get_job", id=run.job)
            if job["state"] == "running":
                return False
            run.trouble = str(job["error"])
        run.since = self.clock()
        return True

    def _judge_end(self, run: CheckRun, end: dict[str, Any]) -> None:
        """Judge a check by the end of its child; a stop or the end of the host gives none."""
        verdict: Health = "good" if end["clean"] else "bad"
        known = end["code"] is not None and not end["asked"]
        said = str(end["output"])[-_SAID_MOST:]
        self._finish_run(run, verdict if known else "unknown", str(end["reason"]), said)

    def _give_up(self, run: CheckRun, reason: str) -> None:
        """Give up a child that never ran, or whose end is unknown."""
        self._dismiss(run.agent)
        if run.job:
            self._finish_run(run, "unknown", run.trouble or reason)
        else:
            self._forget_run(run)

    def _finish_run(self, run: CheckRun, state: Health, how: str, said: str = "") -> None:
        self._forget_run(run)
        if run.check in self.specs:
            self._set_state(run.check, state, how, said)

    def _forget_run(self, run: CheckRun) -> None:
        """Forget a run; its child still exists for a moment."""
        self._ended = [*self._ended, run.uuid][-_KNOWN_ENDS:]
        del self.running[run.check]

    def _set_state(self, name: str, state: Health, how: str, said: str = "") -> None:
        old = self.states.get(name)
        bad, question = (old.bad, old.question) if old is not None else (False, "")
        if bad and state == "good":
            self.recovered.append(name)
        now_bad = bad if state == "unknown" else state == "bad"
        self.states[name] = CheckState(state, how[:_HOW_MOST], said, self.now(), now_bad, question)
        self.news |= old is None or old.state != state

    def _adopt(self, check: str, row: Mapping[str, Any]) -> bool:
        """Adopt a child of an earlier maid, or destroy it when its check was removed.

        Return False when another agent created an agent of this name.
        """
        uuid, agent = str(row["uuid"]), str(row["name"])
        if uuid in self._ended or uuid in {run.uuid for run in self.running.values()}:
            return True
        if self.earlier_runs.get(agent) not in ("", uuid):
            return False
        if check in self.specs and check not in self.running:
            self.running[check] = CheckRun(check, agent, uuid, "", self.clock())
        else:
            self._dismiss(agent)
            self._ended.append(uuid)
        del self.earlier_runs[agent]
        return True

    def _dismiss(self, agent: str) -> None:
        with suppress(NotFound):
            self.link.change("destroy", agent=agent)

    def _update_alert(self, name: str) -> None:
        """Raise one alert while a check is bad, and withdraw it when the check is good again."""
        known = self.states[name]
        if not known.bad:
            self._alerts.withdraw(known, f"{name} is good again")
        elif not known.question:
            self._alerts.raise_alert(name, known)
