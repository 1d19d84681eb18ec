"""What an agent has written to its log."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from hive_core.broker.call import Call, Later, SlowReadSources
from hive_core.broker.operation import Params, Result, operation
from hive_core.model.names import agent_unit
from hive_core.model.wire.record import LogLine, LogQuery
from hive_core.operations.fields import Agent
from hive_core.operations.pages import Page, fitting, written
from hive_core.policy.rules import ANCESTOR, OPERATOR, SELF

TEXT_MOST = 16 * 1024


class GetLogsParams(Params):
    agent: Agent | None = Field(None, description="Whose; the caller's own when absent.")
    lines: int = Field(100, ge=0, le=1000, description="Lines at most; without `after` the newest.")
    since: float | None = Field(None, ge=0, description="Only lines after this second since 1970.")
    grep: str = Field("", max_length=200, description="Only lines that hold this text.")
    after: str | None = Field(
        None, max_length=1000, description="`next` of the answer before: the lines behind it."
    )


class LogRow(Result):
    time: float = Field(description="Seconds since 1970.")
    unit: str = Field(
        description="The agent's unit, or the unit inside a booted container as it says itself."
    )
    text: str = Field(description="What was written; not to be believed.")


class LogPage(Page):
    lines: list[LogRow] = Field(description="The oldest first.")


@operation(action="read", allow=SELF | ANCESTOR | OPERATOR, target="agent", preposition="of")
def get_logs(call: Call, params: GetLogsParams) -> Later[LogPage]:
    """Read what an agent wrote to its log, from units inside a booted container too.

    Called with `more`, lines follow as they are written. Lines are found by what the journal
    itself vouches for, never by their text.
    """
    name = params.agent or call.caller
    spec = call.hive.spec(name)
    query = LogQuery(
        uuid=spec.id, unit=agent_unit(name), lines=params.lines, since=params.since,
        grep=params.grep, after=params.after or "", boot=spec.boots,
    )  # fmt: skip

    async def read(reads: SlowReadSources) -> LogPage:
        found = await reads.journal.read(query) if params.lines else ()
        if call.more and not found:
            found = await _next_line(reads, query)
        return _page(found, params)

    return Later(read)


async def _next_line(reads: SlowReadSources, query: LogQuery) -> Sequence[LogLine]:
    """The next line that is written; none after a while, so that no read is open for ever."""
    async for line in reads.journal.follow(query):
        return (line,)
    return ()


def _page(found: Sequence[LogLine], params: GetLogsParams) -> LogPage:
    """As many as fit: those behind the mark, or else the newest."""
    cut = [_log_row(each) for each in found]
    if params.after is None:
        cut = list(fitting(reversed(cut), lambda line: written(line.text)))[::-1]
        last = found[-1].cursor if found else ""
    else:
        cut = list(fitting(cut, lambda line: written(line.text)))
        last = found[len(cut) - 1].cursor if cut else ""
    # A stream goes on where nothing was written yet, so its mark is never null.
    return LogPage(lines=cut, next=last or params.after or "")


def _log_row(line: LogLine) -> LogRow:
    return LogRow(time=line.time, unit=line.unit, text=line.text[:TEXT_MOST])
