"""The log output of an agent."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from hive_core.broker.call import Call, Later, SlowReadSources
from hive_core.broker.operation import Params, Result, operation
from hive_core.model.names import agent_unit
from hive_core.model.wire.record import LogLine, LogQuery
from hive_core.operations.fields import Agent
from hive_core.operations.pages import Page, reply_bytes, take_fitting
from hive_core.policy.rules import ANCESTOR, OPERATOR, SELF

TEXT_MOST = 16 * 1024


class GetLogsParams(Params):
    agent: Agent | None = Field(None, description="The agent; absent: the caller itself.")
    lines: int = Field(
        100, ge=0, le=1000, description="Maximum number of lines; without `after` the newest."
    )
    since: float | None = Field(
        None, ge=0, description="Only lines after this time, in seconds since 1970."
    )
    grep: str = Field("", max_length=200, description="Only lines that contain this text.")
    after: str | None = Field(
        None, max_length=1000, description="`next` of the previous answer: the lines after it."
    )


class LogRow(Result):
    time: float = Field(description="Time, in seconds since 1970.")
    unit: str = Field(
        description="The agent's unit, or the unit inside a booted container as the container"
        " claims it."
    )
    text: str = Field(description="The line; untrusted text.")


class LogPage(Page):
    lines: list[LogRow] = Field(description="The lines, the oldest first.")


@operation(action="read", allow=SELF | ANCESTOR | OPERATOR, target="agent", preposition="of")
def get_logs(call: Call, params: GetLogsParams) -> Later[LogPage]:
    """Show the log output of an agent, of units inside a booted container too.

    Called with `more`, lines follow as they are written. Lines are selected by trusted fields of
    the journal, never by their text.
    """
    name = params.agent or call.caller
    spec = call.hive.spec(name)
    query = LogQuery(
        uuid=spec.id, unit=agent_unit(name), lines=params.lines, since=params.since,
        grep=params.grep, after=params.after or "", boot=spec.boots,
    )  # fmt: skip

    async def read(reads: SlowReadSources) -> LogPage:
        lines = await reads.journal.read(query) if params.lines else ()
        if call.more and not lines:
            lines = await _next_line(reads, query)
        return _page(lines, params)

    return Later(read)


async def _next_line(reads: SlowReadSources, query: LogQuery) -> Sequence[LogLine]:
    """The next line; None after a timeout, so that no read stays open forever."""
    async for line in reads.journal.follow(query):
        return (line,)
    return ()


def _page(lines: Sequence[LogLine], params: GetLogsParams) -> LogPage:
    """As many lines as fit: those after the cursor, or else the newest."""
    cut = [_log_row(entry) for entry in lines]
    if params.after is None:
        cut = list(take_fitting(reversed(cut), lambda line: reply_bytes(line.text)))[::-1]
        last = lines[-1].cursor if lines else ""
    else:
        cut = list(take_fitting(cut, lambda line: reply_bytes(line.text)))
        last = lines[len(cut) - 1].cursor if cut else ""
    # A stream continues at lines that are not written yet, so `next` is never null.
    return LogPage(lines=cut, next=last or params.after or "")


def _log_row(line: LogLine) -> LogRow:
    return LogRow(time=line.time, unit=line.unit, text=line.text[:TEXT_MOST])
