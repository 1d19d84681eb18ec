"""Records one exit, with a message to the parent if it was a crash (rows H23, K5, K10)."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hive_core.broker.call import Call
from hive_core.broker.hooks import AgentEnded, AgentStarted, emit
from hive_core.broker.operation import Result
from hive_core.errors import HiveError
from hive_core.ledger.audit.events import AuditEntry
from hive_core.model.agents.agent import AfterTask
from hive_core.model.agents.exits import HOST_DOWN, ExitEvent, StartEvent
from hive_core.model.agents.machine import DesiredRun, DesiredState
from hive_core.model.agents.roles import after_task
from hive_core.model.names import agent_unit
from hive_core.model.wire.record import DAEMON, LogLine, LogQuery
from hive_core.operations.notices import send_notice
from hive_core.plan.failure import ExitCase, ExitVerdict
from hive_core.ports import Journal
from hive_core.reconcile.jobs.goals import ENDED

log = logging.getLogger(__name__)
Lines = Sequence[LogLine]
WATCH: Final = "watch"
CRASH = "container_crash"
BODY_MOST = 16_384
OUTPUT_MOST: Final = 8192
# https://github.com/systemd/systemd/blob/v252/src/nspawn/nspawn.c: messages on a signal, and at the
# end.
_FRAME: Final = re.compile(
    r"Trying to halt container( by sending |\. Send SIGTERM again)"
    r"|Container \S+ (has been shut down|terminated by signal|failed with error code|is being )"
)


class WatchResult(Result):
    """The number of agents with new records."""

    agents: int


@dataclass(frozen=True, slots=True)
class CountedExit:
    """One exit with its interpretation, ready to be recorded."""

    case: ExitCase
    over: ExitEvent
    verdict: ExitVerdict

    @property
    def how(self) -> str:
        """For example `killed with KILL`."""
        return self.over.exit.machine_text if self.over.exit is not None else HOST_DOWN

    @property
    def why(self) -> str:
        """For example `bob crashed: killed with KILL; next try in 2 s`."""
        return self.why_with(None)

    def why_with(self, run: DesiredRun | None) -> str:
        """The text of `why` with the run request after all consequences of this exit."""
        place, starts = self.case.place, self.verdict.starts
        wanted = run is not None and run.wanted is DesiredState.RUNNING
        if run is not None and wanted and run.nonce != self.case.run.nonce:
            then = "restarted for another try of a task"
        elif self.verdict.parked:
            then = f"parked after {len(starts.failures)} failures"
        elif starts.returns:
            then = f"next try in {starts.next_at - starts.failures[-1]:.0f} s"
        else:
            then = "stays down until a start is requested"
        end = self.over.exit
        text = self.how if end is not None and end.start_timed_out else f"crashed: {self.how}"
        return f"{place.name} {text}; {then}"

    @property
    def returns(self) -> bool:
        return self.case.returns(self.over, self.verdict)

    @property
    def was_requested(self) -> bool:
        return self.case.was_requested(self.over)

    @property
    def needs_last_lines(self) -> bool:
        """Whether its last lines are recorded: it exited by itself, or was a one-task agent."""
        once = after_task(self.case.place.spec) is AfterTask.EXITS
        stays = self.case.run.wanted is not DesiredState.SLEEPING and not self.returns
        return self.verdict.crash or self.verdict.ended or (once and stays)

    @property
    def reason(self) -> str:
        """The reason of the request that caused the exit, or else how the machine exited."""
        run = self.case.run
        return (run.reason or run.wanted.value) if self.was_requested else self.how


async def last_lines(journal: Journal, counted: CountedExit) -> Sequence[LogLine]:
    """The agent's last lines.

    Empty if the journal does not answer, so that the exit is recorded.
    """
    place, settings = counted.case.place, counted.case.settings
    query = LogQuery(
        uuid=place.uuid, unit=agent_unit(place.name), lines=settings.grace.crash_lines,
        boot=place.spec.boots, invocation=counted.over.invocation,
    )  # fmt: skip
    try:
        return await journal.read(query) if query.lines else ()
    except (HiveError, TimeoutError) as error:
        log.warning("Cannot read the last lines of %s: %s", place.name, error)
        return ()


def record_start(call: Call, uuid: str, began: StartEvent) -> None:
    """Record one start and its consequences. Call inside a transaction."""
    name = call.hive.names[uuid]
    call.ledger.lives.mark_running(uuid, began.invocation, began.nonce)
    fields = {"invocation": began.invocation, "nonce": began.nonce}
    _append_event(call, "start", (uuid, name), f"{name} runs", fields)
    call.notify("events")
    emit(call, AgentStarted(uuid, name, began.nonce))


def record_exit(call: Call, counted: CountedExit, lines: Lines) -> None:
    """Record one exit and its consequences. Call inside a transaction."""
    case, over, verdict = counted.case, counted.over, counted.verdict
    place, ledger = case.place, call.ledger
    if verdict.starts is not case.starts:
        ledger.starts.put(place.uuid, verdict.starts)
    ledger.lives.mark_ended(place.uuid, over.invocation, recorded=over.exit is not None)
    call.notify("events")
    if verdict.ended:
        reason = f"{ENDED}: {counted.how}"
        ledger.runs.want(place.uuid, DesiredState.STOPPED, call.now, reason=reason)
    kind = "crash" if verdict.crash else "exit"
    text = counted.why if verdict.crash else f"{place.name} {_description(counted)}"
    _append_event(call, kind, (place.uuid, place.name), text, _fields(counted))
    # The output is recorded, so secrets are masked. Only the recorded part is searched.
    output, masks = "\n".join(agent_lines(lines)), ledger.events.masks
    parent = call.hive.topology.parent(call.hive.names[place.uuid])
    # A task may have another try, which restarts the agent; the parent's message must say that.
    emit(call, _ended_notice(counted, masks.hide_end(output, OUTPUT_MOST)))
    if verdict.crash and parent is not None:
        head, why = masks.hide(output, BODY_MOST), counted.why_with(ledger.runs.get(place.uuid))
        body = f"{why}\n\nlast lines:\n{head}" if head else why
        send_notice(call, call.hive, parent, CRASH, body[:BODY_MOST])


def agent_lines(lines: Lines) -> list[str]:
    """The agent's own lines, without those of systemd-nspawn."""
    texts = [line.text for line in lines]
    while texts and _FRAME.match(texts[-1]):
        texts.pop()
    return texts


def _description(counted: CountedExit) -> str:
    return f"{counted.how} ({counted.reason})" if counted.was_requested else counted.how


def _fields(counted: CountedExit) -> dict[str, object]:
    end, over = counted.over.exit, counted.over
    return {
        "invocation": over.invocation, "result": end.result if end else "",
        "status": end.status if end else "", "parked": counted.verdict.parked,
        "asked": counted.was_requested, "returns": counted.returns,
    }  # fmt: skip


def _ended_notice(counted: CountedExit, output: str) -> AgentEnded:
    case, over = counted.case, counted.over
    end, ended = over.exit, counted.verdict.ended
    return AgentEnded(
        case.place.uuid, case.place.name, end.number if end else None, counted.reason,
        clean=end is not None and end.clean, asked=counted.was_requested,
        wanted=(DesiredState.STOPPED if ended else case.run.wanted).value, returns=counted.returns,
        fields={
            "invocation": over.invocation, "nonce": over.nonce, "output": output,
            "cpu": end.cpu if end else None,
        },
    )  # fmt: skip


def _append_event(
    call: Call, kind: str, agent: tuple[str, str], reason: str, fields: dict[str, object]
) -> None:
    uuid, name = agent
    call.ledger.events.append(AuditEntry(
        kind=kind, caller=DAEMON, operation=WATCH, target=uuid, allowed=None, rule="",
        reason=reason, commit=call.hive.commit, request=call.request, now=call.now,
        fields={"target_name": name, **fields},
    ))  # fmt: skip
