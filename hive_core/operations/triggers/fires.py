"""Firing due triggers. The decision and its effect are one transaction.

All messages of one pass for one agent form one letter (row Q34). An agent has a limited number of
fires a minute; further times wait, and then share one fire.
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
    DueFires,
    ScheduleState,
    Trigger,
    TriggerAction,
    TriggerFire,
    due_fires,
    next_time,
)
from hive_core.operations.triggers.actions import (
    TriggerNotice,
    assign_fire_task,
    owner_refusal,
    send_notices,
    spawn_for_fire,
)

AT_ONCE: Final = 64  # triggers checked in one transaction
MINUTE: Final = 60.0
KIND: Final = "trigger"


class TriggerFireCount(Result):
    fires: int = Field(description="The number of fires.")


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
        return self.call.ledger.triggers.fires.recent_count(self.agent, self.call.now)

    def room(self) -> tuple[int, float]:
        """The fires that the agent has left in this minute, and when it has more."""
        used, first = self._used
        return self.call.settings.triggers.fires - used - self.fires, first + MINUTE + 0.001

    def check(self, trigger: Trigger) -> DueFires:
        """The due fires of a trigger; saves the time of the next check.

        A trigger with an invalid rule is disabled, so that it does not stop other triggers.
        """
        try:
            return self._check(trigger)
        except InvalidArgument as error:  # the host no longer has its time zone
            self.call.ledger.triggers.set_enabled(trigger.number, enabled=False, due=None)
            reason = f"switched off: {error}"
            self.record_idle_fire(trigger, "refuse", self.call.now, 1, reason)
            return DueFires()

    def _check(self, trigger: Trigger) -> DueFires:
        room, more = self.room()
        is_open = trigger.single and trigger.open is not None
        due_now = due_fires(trigger.rule, ScheduleState(
            trigger.missed, trigger.since, self.call.now, single=trigger.single,
            open=is_open, room=room,
        ))  # fmt: skip
        triggers, now = self.call.ledger.triggers, self.call.now
        if room < 1 and due_now.due is not None and due_now.due <= now:
            triggers.put_off(trigger.number, more)
            return DueFires()
        triggers.save_verdict(trigger.number, due_now)
        skipped = due_now.skipped
        if skipped and not triggers.fires.count_skipped_fire(trigger.number, skipped, now):
            why = "the last fire is still open" if is_open else "it came too late"
            self.record_idle_fire(trigger, "skip", due_now.since, skipped, why)
        if due_now.waits:
            self.record_idle_fire(trigger, "wait", now, 1, "until the last fire has ended")
        return due_now

    def record_idle_fire(
        self, trigger: Trigger, event: str, at: float, count: int, why: str
    ) -> TriggerFire:
        """Record a fire that does nothing."""
        fire = self.call.ledger.triggers.fires.start(trigger, self.call.now, at, count)
        return self.end_fire(trigger, fire, event, why)

    def end_fire(
        self, trigger: Trigger, fire: TriggerFire, event: str, why: str, ref: str = ""
    ) -> TriggerFire:
        fires = self.call.ledger.triggers.fires
        return self.log_fire(trigger, fires.end(fire, event, self.call.now, detail=why, ref=ref))

    def log_fire(self, trigger: Trigger, fire: TriggerFire) -> TriggerFire:
        """Write the event of a fire, which has its id."""
        log_trigger_fire(self.call, trigger, fire)
        self.call.notify("events", f"trigger:{trigger.id}")
        return fire

    def fire(self, trigger: Trigger, at: float, count: int) -> None:
        """Fire a trigger once: a message, a wake or a task."""
        self.fires += 1
        fire = self.call.ledger.triggers.fires.start(trigger, self.call.now, at, count)
        if why := owner_refusal(self.call, trigger):
            self.end_fire(trigger, fire, "refuse", why)
        elif trigger.act is TriggerAction.TASK:
            self.assign_task(trigger, fire)
        else:
            self.notices.append(TriggerNotice(trigger, fire))

    def assign_task(
        self, trigger: Trigger, fire: TriggerFire, data: dict[str, object] | None = None
    ) -> None:
        task, why = assign_fire_task(self.call, trigger, fire, self.name, data)
        if why:
            self.end_fire(trigger, fire, "refuse", why)
        else:
            self.log_fire(trigger, self.call.ledger.triggers.fires.set_work(fire, task))

    def deliver_notices(self) -> None:
        """Send all notices in one message, and end their fires."""
        message, why = send_notices(self.call, self.name, self.notices)
        for notice in self.notices:
            event = "refuse" if why else "finish"
            self.end_fire(notice.trigger, notice.fire, event, why, message)
        self.notices.clear()


def log_trigger_fire(call: Call, trigger: Trigger, fire: TriggerFire) -> None:
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
def fire_triggers(call: Call) -> Record[TriggerFireCount]:
    """Fire the due triggers that send a message, wake an agent or assign a task."""
    fires, looked = 0, 0
    for agent in call.ledger.triggers.agents_due(call.now, AT_ONCE):
        triggers = call.ledger.triggers.due_of(agent, call.now)
        fires += _fire_agent_triggers(call, agent, triggers)
        looked += len(triggers)
        if looked >= AT_ONCE:
            break
    return Record(TriggerFireCount(fires=fires), audited=True)


def _fire_agent_triggers(call: Call, agent: str, triggers: list[Trigger]) -> int:
    """Fire the due triggers of one agent; return the number of fires."""
    name = call.hive.name(agent)
    pass_ = TriggerPass(call, agent, name or "")
    for trigger in triggers:
        if name is None or trigger.parked:
            settle_orphan(call, trigger, name)
        else:
            for at, count in pass_.check(trigger).fires:
                pass_.fire(trigger, at, count)
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
def fire_spawns(call: Call) -> Record[TriggerFireCount] | Change[TriggerFireCount]:
    """Create one due agent: each is a commit of its own."""
    nothing = Record(TriggerFireCount(fires=0), audited=True)
    trigger = call.ledger.triggers.spawn_due(call.now)
    if trigger is None:
        return nothing
    name = call.hive.name(trigger.agent)
    if name is None or trigger.parked:
        settle_orphan(call, trigger, name)
        return nothing
    pass_ = TriggerPass(call, trigger.agent, name)
    fires = pass_.check(trigger).fires
    if not fires:
        return nothing
    fire = call.ledger.triggers.fires.start(trigger, call.now, *fires[0])
    return spawn_agent(pass_, trigger, fire)


def spawn_agent(
    pass_: TriggerPass, trigger: Trigger, fire: TriggerFire, data: dict[str, object] | None = None
) -> Record[TriggerFireCount] | Change[TriggerFireCount]:
    """Create an agent and its task in one fire."""
    change, task, uuid = None, "", ""
    if not (why := owner_refusal(pass_.call, trigger)):
        change, task, uuid, why = spawn_for_fire(pass_.call, trigger, fire, data)
    if change is None:
        pass_.end_fire(trigger, fire, "refuse", why)
        return Record(TriggerFireCount(fires=1), audited=True)
    pass_.log_fire(trigger, pass_.call.ledger.triggers.fires.set_work(fire, task, uuid))
    fields = {**change.fields, "fires": 1}
    message = f"{change.message} by trigger {trigger.id}"
    made = TriggerFireCount(fires=1)
    return Change(made, change.hive, message, fields=fields, target=change.target)
