"""What an exit means: intended, ended, or a failure with a pause before the next try. Pure.

After a failure, the daemon restarts agents of the role `daemon` and the root agent. Every other
agent stays `failed` until an ancestor or the operator starts it. Its parent gets a message in any
case. When nspawn itself was killed from the host, the agent did not fail: the daemon restarts every
role except the one-shot ones. The same holds when the host went down before the exit was recorded.
An agent that failed `failures` times within `window` is parked, except the root agent. An exit with
status 0 means that the agent stopped itself: it counts as stopped, except for the root agent, which
is restarted.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from hive_core.model.agents.agent import AfterTask
from hive_core.model.agents.exits import HOST_DOWN, ExitEvent
from hive_core.model.agents.machine import DesiredRun, DesiredState, Exit, FailureHistory
from hive_core.model.agents.roles import ROLE_DEFAULTS
from hive_core.model.config.limits import BackOffSettings
from hive_core.model.config.settings import Settings
from hive_core.plan.placement import Placement
from hive_core.plan.state import Trouble, trouble

REPEATED = 2  # failures in a row
KEPT = 16  # failures that are remembered; the pause reaches its maximum before that


@dataclass(frozen=True, slots=True)
class ExitVerdict:
    """What one exit means. `crash`: notify the parent. `ended`: the agent is wanted stopped."""

    starts: FailureHistory
    crash: bool = False
    ended: bool = False
    parked: bool = False


def is_root(place: Placement, settings: Settings) -> bool:
    return place.parent is None and place.name == settings.root.name


def restarts(place: Placement, settings: Settings) -> bool:
    return ROLE_DEFAULTS[place.spec.role].restarts or is_root(place, settings)


def comes_back(place: Placement, settings: Settings, end: Exit) -> bool:
    """Whether the daemon restarts the machine after this exit, when its pause is over."""
    stays = ROLE_DEFAULTS[place.spec.role].after_task is AfterTask.STAYS
    return restarts(place, settings) or end.reboot or (end.from_outside and stays)


def retry_pause(back_off: BackOffSettings, uuid: str, count: int) -> float:
    """Seconds before try number `count`; the jitter is derived from the agent, so it is stable."""
    drawn = sha256(f"{uuid}:{count}".encode()).digest()
    chance = int.from_bytes(drawn[:4], "big") / 2**32
    times = count if back_off.growth == "add" else 1 << min(count - 1, 32)
    return min(back_off.most, back_off.first * times * (1 + back_off.jitter * chance))


def alarm_without_parent(
    place: Placement,
    run: DesiredRun | None,
    starts: FailureHistory | None,
    settings: Settings,
    now: float,
) -> str:
    """The operator's alarm about failures of an agent that has no parent to notify.

    Empty when there is nothing to report. That includes a single failure after which the agent
    restarts, and an agent that has been up for so long that its failures no longer count. `status`
    lists parked agents by itself.
    """
    if place.parent is not None or run is None or starts is None:
        return ""
    failed = run.wanted is DesiredState.RUNNING and trouble(run, starts) is Trouble.FAILED
    if failed and not starts.returns:
        return f"{place.name} failed and stays down, and has no parent to start it: {starts.why}"
    count, up = len(starts.failures), now - starts.next_at
    times = f"{KEPT} times or more" if count == KEPT else f"{count} times"
    text = f"{place.name} failed {times} in a row, and has no parent to notify: {starts.why}"
    return text if failed and count >= REPEATED and up < settings.back_off.healthy else ""


@dataclass(frozen=True, slots=True)
class ExitCase:
    """One agent with its run request and its failures so far, to judge its exits by."""

    place: Placement
    run: DesiredRun
    starts: FailureHistory
    settings: Settings

    def judge(self, end: Exit, now: float) -> ExitVerdict:
        """Count one exit. Nothing changes when it was counted before, or when it was intended.

        An intended exit needs no record: a later run has another nonce, so it never matters there.
        """
        parked = trouble(self.run, self.starts) is Trouble.PARKED  # the daemon stopped it for that
        seen = end.invocation == self.starts.exit_seen or end.asked or parked
        if seen or self.run.wanted is not DesiredState.RUNNING or end.nonce != self.run.nonce:
            return ExitVerdict(self.starts)
        if end.clean and not is_root(self.place, self.settings):
            nonce, why = self.run.nonce, end.machine_text
            return ExitVerdict(
                FailureHistory(exit_seen=end.invocation, nonce=nonce, why=why), ended=True
            )
        return self._count_failure(end, now)

    def judge_end(self, over: ExitEvent, now: float) -> ExitVerdict:
        """The same for an end that may have no exit record."""
        if over.exit is not None:
            return self.judge(over.exit, now)
        wanted = self.run.wanted is DesiredState.RUNNING and over.nonce == self.run.nonce
        if not wanted or self.comes_back_unasked:
            return ExitVerdict(self.starts)
        starts = FailureHistory((now,), now, False, over.invocation, over.nonce, HOST_DOWN)  # noqa: FBT003
        return ExitVerdict(starts, crash=True)

    @property
    def comes_back_unasked(self) -> bool:
        """Whether the daemon restarts it after an end that the agent did not cause."""
        stays = ROLE_DEFAULTS[self.place.spec.role].after_task is AfterTask.STAYS
        return stays or restarts(self.place, self.settings)

    def was_requested(self, over: ExitEvent) -> bool:
        """Whether this end was requested: by a stop, by a restart, or on the host by hand."""
        by_hand = over.exit is not None and over.exit.asked
        other = self.run.wanted is not DesiredState.RUNNING or over.nonce != self.run.nonce
        return other or by_hand

    def returns(self, over: ExitEvent, verdict: ExitVerdict) -> bool:
        """Whether the daemon starts it again after this end without a new request."""
        if self.run.wanted is not DesiredState.RUNNING or verdict.ended:
            return False
        state = trouble(self.run, verdict.starts)
        tried = state is Trouble.FAILED and verdict.starts.returns
        return over.nonce != self.run.nonce or state is Trouble.NONE or tried

    def _count_failure(self, end: Exit, now: float) -> ExitVerdict:
        figures = self.settings.back_off
        failures = (*self._earlier(now), now)[-KEPT:]
        recent = [at for at in failures if at > now - figures.window]
        returns = comes_back(self.place, self.settings, end)
        parked = (
            returns and len(recent) >= figures.failures and not is_root(self.place, self.settings)
        )
        starts = FailureHistory(
            failures=failures,
            next_at=now + retry_pause(figures, self.place.uuid, len(failures)),
            parked=parked,
            exit_seen=end.invocation,
            nonce=self.run.nonce,
            why=end.machine_text,
            returns=returns,
        )
        return ExitVerdict(starts, crash=parked or not (end.clean or end.reboot), parked=parked)

    def _earlier(self, now: float) -> tuple[float, ...]:
        """Failures that still count: those of this run since its last long healthy time."""
        starts = self.starts
        if starts.nonce != self.run.nonce:
            return ()
        up = now - starts.next_at
        return () if up >= self.settings.back_off.healthy else starts.failures
