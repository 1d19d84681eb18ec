"""A registry of a few small operations, one for each kind of outcome."""

from __future__ import annotations

from typing import Final, Literal
from uuid import NAMESPACE_DNS, uuid5

from pydantic import Field

from hive_core.broker.call import Call, Change, Later, Record, SlowReadSources, Wait
from hive_core.broker.operation import Mutation, Operation, Params, Result, Whose, operation
from hive_core.errors import LimitReached, NotAllowed
from hive_core.ledger.mail.letters import NewMessage
from hive_core.model.agents.agent import AgentSpec
from hive_core.model.agents.machine import DesiredState
from hive_core.model.wire.record import DAEMON, LogQuery, Relation
from hive_core.policy.rules import ANCESTOR, ANYONE, OPERATOR, SELF

SMALL: Final[dict[str, Operation]] = {}


class LookParams(Params):
    agent: str | None = Field(None, description="Whom to look at.")
    near: Literal["parent", "self"] = Field("self", description="Where to look.")


class Seen(Result):
    name: str = Field(description="Whom the caller sees.")
    agents: int = Field(description="How many there are.")


@operation(
    action="read", allow=SELF | ANCESTOR | OPERATOR, target="agent", aliases=("gaze",), into=SMALL
)
def look(call: Call, params: LookParams) -> Seen:
    """Look at an agent."""
    return Seen(name=params.agent or call.caller, agents=len(call.hive.topology))


class NoteParams(Mutation):
    agent: str = Field(description="Whom to start.")
    times: int = Field(1, ge=1, le=9, description="How often.")
    then: str = Field("", description="What happens after that.")


class Noted(Result):
    nonce: int = Field(description="How often it was started.")


@operation(action="read", allow=ANCESTOR | OPERATOR, target="agent", urgent=True, into=SMALL)
def note(call: Call, params: NoteParams) -> Record[Noted]:
    """Start an agent afresh, and perhaps fail after that."""
    uuid = call.hive.spec(params.agent).id
    runs = call.ledger.runs
    wanted = [
        runs.want(uuid, DesiredState.RUNNING, call.now, fresh=True) for _ in range(params.times)
    ]
    if params.then == "limit":
        raise LimitReached("enough of that")
    if params.then == "deny":
        raise NotAllowed("cannot note that: not yours", rule="special")
    if params.then == "fault":
        raise RuntimeError("a bug")
    call.notify(f"run:{uuid}")
    return Record(Noted(nonce=wanted[-1].nonce), fields={"more": 1})


class GrowParams(Mutation):
    name: str = Field(description="The new agent.")
    parent: str | None = Field(None, description="Below whom; the caller when absent.")
    then: str = Field("", description="What happens after that.")


class Grown(Result):
    uuid: str = Field(description="Its identity.")


@operation(action="read", allow=SELF | ANCESTOR | OPERATOR, target="parent", into=SMALL)
def grow(call: Call, params: GrowParams) -> Change[Grown]:
    """Add an agent."""
    spec = AgentSpec(uuid=uuid5(NAMESPACE_DNS, params.name))
    parent = params.parent or (None if call.by_operator else call.caller)
    hive = call.hive.with_agent(params.name, parent, spec)
    if params.then == "limit":
        raise LimitReached("enough of that")
    return Change(Grown(uuid=spec.id), hive, f"grow {params.name}")


class TellParams(Params):
    agent: str = Field(description="To whom.")
    text: str = Field(description="What.")


class Told(Result):
    id: str = Field(description="The letter.")


@operation(action="send", allow=ANYONE, target="agent", into=SMALL)
def tell(call: Call, params: TellParams) -> Record[Told]:
    """Write a letter that nobody audits."""
    uuid = call.hive.spec(params.agent).id
    letter = NewMessage(
        sender=DAEMON, sender_name=DAEMON, recipient=uuid, recipient_name=params.agent,
        relation=Relation.DAEMON, body=params.text, kind="text", priority=2,
    )  # fmt: skip
    sent = call.ledger.messages.send(letter, call.now)
    call.notify(f"inbox:{uuid}")
    return Record(Told(id=sent.id))


class HearParams(Params):
    wait: float = Field(0, description="How long.")
    doze: float | None = Field(None, description="Ask again after this.")


class Heard(Result):
    texts: list[str] = Field(description="What was said.")


@operation(action="receive", allow=SELF, streams=True, into=SMALL)
def hear(call: Call, params: HearParams) -> Record[Heard] | Wait[Heard]:
    """Take letters, or wait for them."""
    letters = call.ledger.messages.lease(call.uuid, 2, 60.0, call.now)
    if letters:
        return Record(Heard(texts=[entry.body for entry in letters]))
    deadline = None if call.more else call.now + params.wait
    until = None if params.doze is None else call.now + params.doze
    return Wait(frozenset((f"inbox:{call.uuid}",)), deadline, Heard(texts=[]), until)


class CountParams(Params):
    agent: str | None = Field(None, description="Whose place is counted.")
    after: int = Field(0, description="The last one seen.")
    to: int = Field(3, description="How far.")


class Counted(Result):
    numbers: list[int] = Field(description="Two at most.")
    next: int | None = Field(description="Where it goes on.")


@operation(action="read", allow=SELF | ANCESTOR | OPERATOR, target="agent", into=SMALL)
def count(call: Call, params: CountParams) -> Counted | Wait[Counted]:
    """Count in pages of two; at nine there is something to wait for."""
    numbers = list(range(params.after + 1, min(params.to, params.after + 2) + 1))
    if call.more and params.after == 9:
        return Wait(frozenset(("ten",)), None, Counted(numbers=[], next=None))
    after = numbers[-1] if numbers else params.to
    return Counted(numbers=numbers, next=after if after < params.to else None)


class FetchParams(Params):
    agent: str | None = Field(None, description="Whose lines.")


class Fetched(Result):
    lines: list[str] = Field(description="What the journal has.")


@operation(action="read", allow=SELF | ANCESTOR, target="agent", into=SMALL)
def fetch(call: Call, params: FetchParams) -> Later[Fetched]:
    """Read the journal."""
    uuid = call.hive.spec(params.agent or call.caller).id

    async def read(reads: SlowReadSources) -> Fetched:
        lines = await reads.journal.read(LogQuery(uuid, "unit"))
        return Fetched(lines=[line.text for line in lines])

    return Later(read)


class WorkParams(Mutation):
    wait: float = Field(0, ge=0, le=50, description="Seconds to wait for the end.")


class Begun(Result):
    job: str = Field(description="The job.")
    ended: list[str] = Field([], description="What the job ended.")


@operation(action="work", allow=ANYONE, into=SMALL)
def work(call: Call, _params: WorkParams) -> Record[Begun]:
    """Begin a job."""
    job = call.ledger.jobs.create("work", call.uuid, {call.uuid: "running"}, call.now)
    return Record(Begun(job=job.id))


class MendParams(Mutation):
    thing: str = Field(description="A thing of an agent: its name, and `'s thing`.")


def _whose(call: Call, params: MendParams) -> str | None:
    name = params.thing.removesuffix("'s thing")
    return name if name in call.hive.specs else None


@operation(action="work", allow=ANCESTOR, whose=Whose("thing", "thing", _whose), into=SMALL)
def mend(_call: Call, params: MendParams) -> Record[Told]:
    """Mend a thing of an agent."""
    return Record(Told(id=params.thing))
