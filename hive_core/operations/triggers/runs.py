"""Running due triggers. The decision and its effect are one transaction.

All messages of one pass for one agent form one letter (row Q34). An agent has a limited number of
runs a minute; further times wait, and then share one run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from pydantic import Field

from hive_core.broker.call import Call, Change, Record
from hive_core.broker.operation import Result
from hive_core.broker.timers import due
from hive_core.errors import InvalidArgument
from hive_core.ledger.audit.events import AuditEntry
from hive_core.model.wire.record import DAEMON
from hive_core.model.work.trigger import (
    DueRuns,
    ScheduleState,
    Trigger,
    TriggerAction,
    TriggerRun,
    due_runs,
    next_time,
)
from hive_core.operations.triggers.actions import (
    TriggerNotice,
    assign_run_task,
    owner_refusal,
    send_notices,
    spawn_for_run,
)

AT_ONCE: Final = 64  # triggers checked in one transaction
MINUTE: Final = 60.0
KIND: Final = "trigger"


class TriggerRunCount(Result):
    fires: int = Field(description="The number of runs.")


@dataclass
class TriggerPass:
    """One pass over the triggers of one agent, and its results."""

    call: Call
    agent: str
    name: str
    notices: list[TriggerNotice] = field(default_factory=list)
    fires: int = 0

    @cached_property
    def _used(self) -> tuple[int, float]:
        return self.call.ledger.triggers.runs.recent_count(self.agent, self.call.now)

    def room(self) -> tuple[int, float]:
        """The runs that the agent has left in this minute, and when it has more."""
        used, first = self._used
        return self.call.settings.triggers.fires - used - self.fires, first + MINUTE + 0.001

    def check(self, trigger: Trigger) -> DueRuns:
        """The due runs of a trigger; saves the time of the next check.

        A trigger with an invalid rule is disabled, so that it does not stop other triggers.
        """
        try:
            return self._check(trigger)
        except InvalidArgument as error:  # the host no longer has its time zone
            self.call.ledger.triggers.set_enabled(trigger.number, enabled=False, due=None)
            reason = f"switched off: {error}"
            self.record_idle_run(trigger, "refuse", self.call.now, 1, reason)
            return DueRuns()

    def _check(self, trigger: Trigger) -> DueRuns:
        room, more = self.room()
        is_open = trigger.single and trigger.open is not None
        due_now = due_runs(trigger.rule, ScheduleState(
            trigger.missed, trigger.since, self.call.now, single=trigger.single,
            open=is_open, room=room,
        ))  # fmt: skip
        triggers, now = self.call.ledger.triggers, self.call.now
        if room < 1 and due_now.due is not None and due_now.due <= now:
            triggers.put_off(trigger.number, more)
            return DueRuns()
        triggers.save_verdict(trigger.number, due_now)
        skipped = due_now.skipped
        if skipped and not triggers.runs.count_skipped(trigger.number, skipped, now):
            why = "the last run is still open" if is_open else "it came too late"
            self.record_idle_run(trigger, "skip", due_now.since, skipped, why)
        if due_now.waits:
            self.record_idle_run(trigger, "wait", now, 1, "until the last run has ended")
        return due_now

    def record_idle_run(
        self, trigger: Trigger, event: str, at: float, count: int, why: str
    ) -> TriggerRun:
        """Record a run that does nothing."""
        run = self.call.ledger.triggers.runs.start(trigger, self.call.now, at, count)
        return self.end_run(trigger, run, event, why)

    def end_run(
        self, trigger: Trigger, run: TriggerRun, event: str, why: str, ref: str = ""
    ) -> TriggerRun:
        runs = self.call.ledger.triggers.runs
        return self.log_run(trigger, runs.end(run, event, self.call.now, detail=why, ref=ref))

    def log_run(self, trigger: Trigger, run: TriggerRun) -> TriggerRun:
        """Write the event of a run, which has its id."""
        log_trigger_run(self.call, trigger, run)
        self.call.notify("events", f"trigger:{trigger.id}")
        return run

    def run(self, trigger: Trigger, at: float, count: int) -> None:
        """Run a message, a wake or a task once."""
        self.fires += 1
        run = self.call.ledger.triggers.runs.start(trigger, self.call.now, at, count)
        if why := owner_refusal(self.call, trigger):
            self.end_run(trigger, run, "refuse", why)
        elif trigger.act is TriggerAction.TASK:
            self.run_task(trigger, run)
        else:
            self.notices.append(TriggerNotice(trigger, run))

    def run_task(
        self, trigger: Trigger, run: TriggerRun, data: dict[str, object] | None = None
    ) -> None:
        task, why = assign_run_task(self.call, trigger, run, self.name, data)
        if why:
            self.end_run(trigger, run, "refuse", why)
        else:
            self.log_run(trigger, self.call.ledger.triggers.runs.set_work(run, task))

    def deliver_notices(self) -> None:
        """Send all notices in one message, and end their runs."""
        message, why = send_notices(self.call, self.name, self.notices)
        for notice in self.notices:
            event = "refuse" if why else "finish"
            self.end_run(notice.trigger, notice.run, event, why, message)
        self.notices.clear()


def log_trigger_run(call: Call, trigger: Trigger, run: TriggerRun) -> None:
    fields = {
        "fire": run.id, "trigger": trigger.id, "name": trigger.name, "owner": trigger.owner,
        "action": trigger.act.value, "due": run.due, "count": run.count, "state": run.state,
        "ref": run.ref, "spawned": run.spawned,
    }  # fmt: skip
    refused = run.state == "refused"
    call.ledger.events.append(AuditEntry(
        KIND, DAEMON, "fire", trigger.agent, not refused, KIND, run.detail, call.hive.commit,
        call.request, call.now, fields,
    ))  # fmt: skip


@due(at=lambda ledger: ledger.triggers.next_due(spawns=False), topics=frozenset({"trigger"}))
def fire_triggers(call: Call) -> Record[TriggerRunCount]:
    """Run the messages, wakes and tasks that are due."""
    runs, looked = 0, 0
    for agent in call.ledger.triggers.agents_due(call.now, AT_ONCE):
        triggers = call.ledger.triggers.due_of(agent, call.now)
        runs += _run_agent_triggers(call, agent, triggers)
        looked += len(triggers)
        if looked >= AT_ONCE:
            break
    return Record(TriggerRunCount(fires=runs), audited=True)


def _run_agent_triggers(call: Call, agent: str, triggers: list[Trigger]) -> int:
    """Run the due triggers of one agent; return the number of runs."""
    name = call.hive.name(agent)
    pass_ = TriggerPass(call, agent, name or "")
    for trigger in triggers:
        if name is None or trigger.parked:
            settle_orphan(call, trigger, name)
        else:
            for at, count in pass_.check(trigger).runs:
                pass_.run(trigger, at, count)
    if pass_.notices:
        pass_.deliver_notices()
    return pass_.fires


def settle_orphan(call: Call, trigger: Trigger, name: str | None) -> None:
    """Settle a trigger whose agent was destroyed.

    It is kept as long as the archive, comes back with a restored agent, and is removed after that.
    """
    triggers = call.ledger.triggers
    archive = call.ledger.archives.get(trigger.agent)
    if name is not None:
        triggers.unpark(trigger.number, next_time(trigger.rule, trigger.since))
    elif archive is not None and archive.expires > call.now:
        triggers.park(trigger.agent, archive.expires)
    else:
        triggers.remove(trigger)


@due(at=lambda ledger: ledger.triggers.next_due(spawns=True), topics=frozenset({"trigger"}))
def fire_spawns(call: Call) -> Record[TriggerRunCount] | Change[TriggerRunCount]:
    """Create one due agent: each is a commit of its own."""
    nothing = Record(TriggerRunCount(fires=0), audited=True)
    trigger = call.ledger.triggers.spawn_due(call.now)
    if trigger is None:
        return nothing
    name = call.hive.name(trigger.agent)
    if name is None or trigger.parked:
        settle_orphan(call, trigger, name)
        return nothing
    pass_ = TriggerPass(call, trigger.agent, name)
    runs = pass_.check(trigger).runs
    if not runs:
        return nothing
    run = call.ledger.triggers.runs.start(trigger, call.now, *runs[0])
    return run_spawn(pass_, trigger, run)


def run_spawn(
    pass_: TriggerPass, trigger: Trigger, run: TriggerRun, data: dict[str, object] | None = None
) -> Record[TriggerRunCount] | Change[TriggerRunCount]:
    """Create an agent and its task in one run."""
    change, task, uuid = None, "", ""
    if not (why := owner_refusal(pass_.call, trigger)):
        change, task, uuid, why = spawn_for_run(pass_.call, trigger, run, data)
    if change is None:
        pass_.end_run(trigger, run, "refuse", why)
        return Record(TriggerRunCount(fires=1), audited=True)
    pass_.log_run(trigger, pass_.call.ledger.triggers.runs.set_work(run, task, uuid))
    fields = {**change.fields, "fires": 1}
    message = f"{change.message} by trigger {trigger.id}"
    return Change(TriggerRunCount(fires=1), change.hive, message, fields=fields)
