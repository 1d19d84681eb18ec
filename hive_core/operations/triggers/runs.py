"""What triggers do when their time has come. The decision and its effect are one transaction.

All that fires for one agent at once is one message to it (row Q34). An agent has so many fires a
minute; what is more waits, and is then one.
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

AT_ONCE: Final = 64  # triggers looked at in one transaction
MINUTE: Final = 60.0
KIND: Final = "trigger"


class TriggerRunCount(Result):
    fires: int = Field(description="How many.")


@dataclass
class TriggerPass:
    """What comes of one look at the triggers of one agent."""

    call: Call
    agent: str
    name: str
    notices: list[TriggerNotice] = field(default_factory=list)
    topics: set[str] = field(default_factory=set)
    fires: int = 0

    @cached_property
    def _used(self) -> tuple[int, float]:
        return self.call.ledger.triggers.runs.recent_count(self.agent, self.call.now)

    def room(self) -> tuple[int, float]:
        """How many fires it has left in this minute, and when it has more."""
        used, first = self._used
        return self.call.settings.triggers.fires - used - self.fires, first + MINUTE + 0.001

    def check(self, trigger: Trigger) -> DueRuns:
        """Look at one, and write down when to look again. One that is broken stops no other."""
        try:
            return self._check(trigger)
        except InvalidArgument as error:  # the machine does not know its zone any more
            self.call.ledger.triggers.set_enabled(trigger.number, enabled=False, due=None)
            self.record_idle_run(trigger, "refuse", self.call.now, 1, f"switched off: {error}")
            return DueRuns()

    def _check(self, trigger: Trigger) -> DueRuns:
        room, more = self.room()
        open_ = trigger.single and trigger.open is not None
        found = due_runs(trigger.rule, ScheduleState(
            trigger.missed, trigger.since, self.call.now, single=trigger.single,
            open=open_, room=room,
        ))  # fmt: skip
        triggers = self.call.ledger.triggers
        if room < 1 and found.due is not None and found.due <= self.call.now:
            triggers.put_off(trigger.number, more)
            return DueRuns()
        triggers.save_verdict(trigger.number, found)
        if found.skipped and not triggers.runs.count_skipped(
            trigger.number, found.skipped, self.call.now
        ):
            why = "the last fire is still open" if open_ else "it came too late"
            self.record_idle_run(trigger, "skip", found.since, found.skipped, why)
        if found.waits:
            self.record_idle_run(trigger, "wait", self.call.now, 1, "until the last fire has ended")
        return found

    def record_idle_run(
        self, trigger: Trigger, event: str, at: float, count: int, why: str
    ) -> TriggerRun:
        """A fire that does nothing."""
        fires = self.call.ledger.triggers.runs
        fire = fires.start(trigger, self.call.now, at, count)
        return self.end_run(trigger, fire, event, why)

    def end_run(
        self, trigger: Trigger, fire: TriggerRun, event: str, why: str, ref: str = ""
    ) -> TriggerRun:
        fires = self.call.ledger.triggers.runs
        found = fires.end(fire, event, self.call.now, detail=why, ref=ref)
        return self.log_run(trigger, found)

    def log_run(self, trigger: Trigger, fire: TriggerRun) -> TriggerRun:
        """Each fire is an event with its id."""
        log_trigger_run(self.call, trigger, fire)
        self.topics |= {"events", f"trigger:{trigger.id}"}
        return fire

    def run(self, trigger: Trigger, at: float, count: int) -> None:
        """One fire of a message, a wake or a task."""
        self.fires += 1
        fire = self.call.ledger.triggers.runs.start(trigger, self.call.now, at, count)
        if why := owner_refusal(self.call, trigger):
            self.end_run(trigger, fire, "refuse", why)
        elif trigger.act is TriggerAction.TASK:
            self.run_task(trigger, fire)
        else:
            self.notices.append(TriggerNotice(trigger, fire))

    def run_task(
        self, trigger: Trigger, fire: TriggerRun, data: dict[str, object] | None = None
    ) -> None:
        task, topics, why = assign_run_task(self.call, trigger, fire, self.name, data)
        self.topics |= topics
        if why:
            self.end_run(trigger, fire, "refuse", why)
        else:
            self.log_run(trigger, self.call.ledger.triggers.runs.set_work(fire, task))

    def deliver_notices(self) -> None:
        """All that is to be said, in one message."""
        message, topics, why = send_notices(self.call, self.name, self.notices)
        self.topics |= topics
        for each in self.notices:
            self.end_run(each.trigger, each.run, "refuse" if why else "finish", why, message)
        self.notices.clear()


def log_trigger_run(call: Call, trigger: Trigger, fire: TriggerRun) -> None:
    fields = {
        "fire": fire.id, "trigger": trigger.id, "name": trigger.name, "owner": trigger.owner,
        "action": trigger.act.value, "due": fire.due, "count": fire.count, "state": fire.state,
        "ref": fire.ref, "spawned": fire.spawned,
    }  # fmt: skip
    refused = fire.state == "refused"
    call.ledger.events.append(AuditEntry(
        KIND, DAEMON, "fire", trigger.agent, not refused, KIND, fire.detail, call.hive.commit,
        call.request, call.now, fields,
    ))  # fmt: skip


@due(at=lambda ledger: ledger.triggers.next_due(spawns=False), topics=frozenset({"trigger"}))
def fire_triggers(call: Call) -> Record[TriggerRunCount]:
    """Messages, wakes and tasks that are due."""
    topics, fires, looked = set[str](), 0, 0
    for agent in call.ledger.triggers.agents_due(call.now, AT_ONCE):
        found = call.ledger.triggers.due_of(agent, call.now)
        done = _run_agent_triggers(call, agent, found)
        topics |= done.topics
        fires, looked = fires + done.fires, looked + len(found)
        if looked >= AT_ONCE:
            break
    return Record(TriggerRunCount(fires=fires), frozenset(topics), audited=True)


def _run_agent_triggers(call: Call, agent: str, found: list[Trigger]) -> TriggerPass:
    name = call.hive.name(agent)
    done = TriggerPass(call, agent, name or "")
    for trigger in found:
        if name is None or trigger.parked:
            settle_orphan(call, trigger, name)
        else:
            for at, count in done.check(trigger).runs:
                done.run(trigger, at, count)
    if done.notices:
        done.deliver_notices()
    return done


def settle_orphan(call: Call, trigger: Trigger, name: str | None) -> None:
    """Its agent was destroyed: it comes back with the agent, and goes when that cannot come."""
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
    """One new agent: each is a commit."""
    nothing = Record(TriggerRunCount(fires=0), audited=True)
    trigger = call.ledger.triggers.spawn_due(call.now)
    if trigger is None:
        return nothing
    name = call.hive.name(trigger.agent)
    if name is None or trigger.parked:
        settle_orphan(call, trigger, name)
        return nothing
    done = TriggerPass(call, trigger.agent, name)
    found = done.check(trigger).runs
    if not found:
        return Record(TriggerRunCount(fires=0), frozenset(done.topics), audited=True)
    fire = call.ledger.triggers.runs.start(trigger, call.now, *found[0])
    return run_spawn(done, trigger, fire)


def run_spawn(
    done: TriggerPass, trigger: Trigger, fire: TriggerRun, data: dict[str, object] | None = None
) -> Record[TriggerRunCount] | Change[TriggerRunCount]:
    """A new agent, and its task, by one fire."""
    why = owner_refusal(done.call, trigger)
    change, task, uuid, why = spawn_for_run(done.call, trigger, fire, data) if not why else (
        None, "", "", why
    )  # fmt: skip
    if change is None:
        done.end_run(trigger, fire, "refuse", why)
        return Record(TriggerRunCount(fires=1), frozenset(done.topics), audited=True)
    done.log_run(trigger, done.call.ledger.triggers.runs.set_work(fire, task, uuid))
    wakes = change.wakes | done.topics
    fields = {**change.fields, "fires": 1}
    message = f"{change.message} by trigger {trigger.id}"
    return Change(TriggerRunCount(fires=1), change.hive, message, wakes, fields)
