"""What an exit means: intended, ended, or a failure with a pause before the next try. Pure.

Who is started again after a failure: agents whose role says so (`daemon`) and the root agent.
Everybody else stays `failed` until an ancestor or the operator starts it; its parent is told in any
case. When nspawn itself was killed, from the host, the agent did not fail: every role but the
one-shot ones comes back; the same holds when the host went down and nobody wrote down how it ended.
After `failures` failures within `window` who comes back is parked; the root agent never is. An end
with 0 is the agent's own wish: it counts as stopped, except for the root agent, which comes back.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from hive_core.model.agents.agent import AfterTask
from hive_core.model.agents.exits import HOST_DOWN, ExitEvent
from hive_core.model.agents.machine import DesiredRun, DesiredState, Exit, FailureHistory
from hive_core.model.agents.roles import ROLE_DEFAULTS
from hive_core.model.config.limits import BackOff
from hive_core.model.config.settings import Settings
from hive_core.plan.placement import Place
from hive_core.plan.state import Trouble, trouble

REPEATED = 2  # failures in a row
KEPT = 16  # failures remembered; the pause has long reached its longest by then


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one exit means. `crash`: the parent is told. `ended`: the wish becomes stopped."""

    starts: FailureHistory
    crash: bool = False
    ended: bool = False
    parked: bool = False


def is_root(place: Place, settings: Settings) -> bool:
    return place.parent is None and place.name == settings.root.name


def restarts(place: Place, settings: Settings) -> bool:
    return ROLE_DEFAULTS[place.spec.role].restarts or is_root(place, settings)


def comes_back(place: Place, settings: Settings, end: Exit) -> bool:
    """Whether the machine is started again after this end, when its pause is over."""
    stays = ROLE_DEFAULTS[place.spec.role].after_task is AfterTask.STAYS
    return restarts(place, settings) or end.reboot or (end.from_outside and stays)


def pause(back_off: BackOff, uuid: str, count: int) -> float:
    """Seconds before try number `count`; chance comes from the agent, so it can be repeated."""
    drawn = sha256(f"{uuid}:{count}".encode()).digest()
    chance = int.from_bytes(drawn[:4], "big") / 2**32
    times = count if back_off.growth == "add" else 1 << min(count - 1, 32)
    return min(back_off.most, back_off.first * times * (1 + back_off.jitter * chance))


def alarm_without_parent(
    place: Place,
    run: DesiredRun | None,
    starts: FailureHistory | None,
    settings: Settings,
    now: float,
) -> str:
    """What the operator is told of failures of an agent that has no parent to be told.

    Empty where there is nothing to tell: also after one failure from which it comes back, and once
    it has been up for so long that failures are forgotten. `status` says of its own what is parked.
    """
    if place.parent is not None or run is None or starts is None:
        return ""
    failed = run.wanted is DesiredState.RUNNING and trouble(run, starts) is Trouble.FAILED
    if failed and not starts.returns:
        return f"{place.name} failed and stays down, and has no parent to start it: {starts.why}"
    count, up = len(starts.failures), now - starts.next_at
    times = f"{KEPT} times or more" if count == KEPT else f"{count} times"
    told = f"{place.name} failed {times} in a row, and has no parent to be told: {starts.why}"
    return told if failed and count >= REPEATED and up < settings.back_off.healthy else ""


@dataclass(frozen=True, slots=True)
class Case:
    """One agent with its wish and its failures so far."""

    place: Place
    run: DesiredRun
    starts: FailureHistory
    settings: Settings

    def judge(self, end: Exit, now: float) -> Verdict:
        """Count one exit. Nothing changes when it was counted before, or when it was intended.

        An intended one needs no note: it never matters to a later run, which has another nonce.
        """
        parked = trouble(self.run, self.starts) is Trouble.PARKED  # it was brought down for that
        seen = end.invocation == self.starts.exit_seen or end.asked or parked
        if seen or self.run.wanted is not DesiredState.RUNNING or end.nonce != self.run.nonce:
            return Verdict(self.starts)
        if end.clean and not is_root(self.place, self.settings):
            nonce, why = self.run.nonce, end.machine_text
            return Verdict(
                FailureHistory(exit_seen=end.invocation, nonce=nonce, why=why), ended=True
            )
        return self._failed(end, now)

    def weigh(self, over: ExitEvent, now: float) -> Verdict:
        """The same for an end of which there may be no record."""
        if over.exit is not None:
            return self.judge(over.exit, now)
        wanted = self.run.wanted is DesiredState.RUNNING and over.nonce == self.run.nonce
        if not wanted or self.is_kept:
            return Verdict(self.starts)
        starts = FailureHistory((now,), now, False, over.invocation, over.nonce, HOST_DOWN)  # noqa: FBT003
        return Verdict(starts, crash=True)

    @property
    def is_kept(self) -> bool:
        """Whether it comes back after an end that was not its own."""
        stays = ROLE_DEFAULTS[self.place.spec.role].after_task is AfterTask.STAYS
        return stays or restarts(self.place, self.settings)

    def is_asked(self, over: ExitEvent) -> bool:
        """Whether somebody wanted this end: by a stop, by a fresh start, or by hand."""
        by_hand = over.exit is not None and over.exit.asked
        other = self.run.wanted is not DesiredState.RUNNING or over.nonce != self.run.nonce
        return other or by_hand

    def returns(self, over: ExitEvent, verdict: Verdict) -> bool:
        """Whether it is started again after this end without a word from anybody."""
        if self.run.wanted is not DesiredState.RUNNING or verdict.ended:
            return False
        found = trouble(self.run, verdict.starts)
        tried = found is Trouble.FAILED and verdict.starts.returns
        return over.nonce != self.run.nonce or found is Trouble.NONE or tried

    def _failed(self, end: Exit, now: float) -> Verdict:
        figures = self.settings.back_off
        failures = (*self._earlier(now), now)[-KEPT:]
        recent = [each for each in failures if each > now - figures.window]
        returns = comes_back(self.place, self.settings, end)
        parked = (
            returns and len(recent) >= figures.failures and not is_root(self.place, self.settings)
        )
        starts = FailureHistory(
            failures=failures,
            next_at=now + pause(figures, self.place.uuid, len(failures)),
            parked=parked,
            exit_seen=end.invocation,
            nonce=self.run.nonce,
            why=end.machine_text,
            returns=returns,
        )
        return Verdict(starts, crash=parked or not (end.clean or end.reboot), parked=parked)

    def _earlier(self, now: float) -> tuple[float, ...]:
        """Failures that still count: of this run, and not before a long healthy time."""
        starts = self.starts
        if starts.nonce != self.run.nonce:
            return ()
        up = now - starts.next_at
        return () if up >= self.settings.back_off.healthy else starts.failures
