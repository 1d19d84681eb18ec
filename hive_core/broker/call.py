"""What a handler sees (one `Call`) and what it may return (one outcome).

No handler commits, blocks or keeps a stream: it returns a value and the broker does the rest.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Generic,
    NamedTuple,
    Protocol,
    TypeVar,
    final,
)

from hive_core.broker.operation import Result
from hive_core.broker.row_versions import RowVersions
from hive_core.errors import Internal
from hive_core.model.agents.hive import Hive
from hive_core.model.agents.machine import Cpu, Machine, State
from hive_core.model.agents.model_catalog import ModelCatalog
from hive_core.model.agents.subagent import SubAgent, address
from hive_core.model.operator.account import Login, LoginSeat
from hive_core.model.wire.record import OPERATOR
from hive_core.model.work.artifact import Content, UploadLimits
from hive_core.ports import Contents, GitServer, Journal, SubAgentSockets, Vault

if TYPE_CHECKING:
    from hive_core.ledger.core.ledger import Ledger
    from hive_core.model.config.settings import Settings
    from hive_core.plan.desired import ReconcilePlan

R_co = TypeVar("R_co", bound=Result, covariant=True)

_NOTHING: Mapping[str, object] = MappingProxyType({})


class StatesView(Protocol):
    """What the change path saw last; reading it starts no new look at the host."""

    def state(self, uuid: str) -> State:
        """State of the agent's machine."""
        ...

    def activity(self, uuid: str) -> str:
        """The activity of the agent: idle, running or blocked."""
        ...

    def machine(self, uuid: str) -> Machine | None:
        """The last look at the agent's machine; None when it was never seen."""
        ...

    def plan(self) -> ReconcilePlan:
        """What the next pass would do, and what it would only report."""
        ...

    def parked_commits(self) -> Sequence[tuple[str, str]]:
        """Manual commits that were refused, each with the reason."""
        ...

    def since(self) -> float:
        """When this daemon was started, in seconds since 1970."""
        ...

    def agent_alarms(self) -> Mapping[str, str]:
        """The alarms about one agent each, by its UUID."""
        ...

    def alarms(self) -> Sequence[str]:
        """Warnings for the operator."""
        ...

    def named_alarms(self) -> Sequence[tuple[str, str]]:
        """The same, each with the name of the agent that it is about; empty: about none."""
        ...


_NO_STORE: Final = "this broker stores no artifacts"


class _NoVault:
    """No vault: a broker that was made without one keeps no secrets."""

    def put(self, uuid: str, key: str, value: bytes) -> None:
        del uuid, value
        raise Internal(f"this broker stores no secrets: {key}")

    async def keep(self, uuid: str, key: str, value: bytes) -> None:
        self.put(uuid, key, value)

    def remove(self, uuid: str, key: str) -> bool:
        del uuid, key
        return False

    def retire(self, uuid: str, key: str) -> None:
        """Nothing is stored."""

    def keys(self, uuid: str) -> tuple[str, ...]:
        del uuid
        return ()

    def holders(self) -> list[str]:
        return []

    def drop(self, uuid: str) -> None:
        """Nothing is stored."""


NO_VAULT: Final[Vault] = _NoVault()


class _NoContents:
    """No store: a broker that was made without one keeps no artifacts."""

    def begin(self, party: str, most: int) -> str:
        del party, most
        raise Internal(_NO_STORE)

    async def append(
        self, party: str, id_: str, offset: int, data: bytes, room: UploadLimits
    ) -> int:
        del party, id_, offset, data, room
        raise Internal(_NO_STORE)

    async def settle(self, party: str, id_: str) -> str:
        del party, id_
        raise Internal(_NO_STORE)

    async def keep(self, party: str, data: bytes, room: UploadLimits) -> str:
        del party, data, room
        raise Internal(_NO_STORE)

    def place(self, party: str, id_: str) -> Content | None:
        del party, id_
        raise Internal(_NO_STORE)

    def size(self, party: str, id_: str) -> int:
        del party, id_
        return 0

    def pending_bytes(self, party: str | None = None) -> int:
        del party
        return 0

    def cancel(self, party: str) -> None:
        """Nothing is stored."""

    async def read(self, content: Content, at: int) -> bytes | str:
        del content, at
        raise Internal(_NO_STORE)

    def report_damage(self, digest: str, why: str) -> Internal:
        return Internal(f"{_NO_STORE}: {digest}, {why}")

    def remove(self, digest: str) -> None:
        """Nothing is stored."""


NO_CONTENTS: Final[Contents] = _NoContents()


@dataclass(slots=True, eq=False)
class Call:
    """One authorized call. With slots its many attributes are read in half the time of a tuple's.

    A call is not changed: `dataclasses.replace` makes another.
    """

    caller: str
    """Name of the caller in `hive`, or `operator`."""
    uuid: str
    """UUID text of the caller, or `operator`."""
    request: str
    now: float
    """Seconds since 1970; one reading for all calls of a batch."""
    hive: Hive
    """The snapshot after all earlier calls of the batch."""
    ledger: Ledger
    """Already inside this call's savepoint."""
    settings: Settings
    states: StatesView
    topics: list[str]
    """Topics touched so far, by the whole batch; add to them with `notify`."""
    more: bool = False
    """The caller asked for a stream; at its end return `Wait`, not an empty page."""
    uid: int = -1
    """The peer's uid on the host: the person for whom the operator acts."""
    vault: Vault = NO_VAULT
    """A store like the ledger but outside of the transaction: what it does is done at once."""
    contents: Contents = NO_CONTENTS
    """The bytes of artifacts, outside of the transaction too."""
    read_result: object = None
    """What a slow read of this call brought, when the handler runs again (`Ready`)."""
    git: GitServer | None = None
    """The repositories as git clients see them; None in a broker made without them."""
    models: ModelCatalog = field(default_factory=ModelCatalog)
    prompts: Mapping[str, str] = field(default_factory=dict)
    """The operator's own prompts, by file name."""
    sub: SubAgent | None = None
    """The sub-agent of the caller whose socket it is; None: the caller itself."""
    rows: RowVersions = field(default_factory=RowVersions)
    """The changes of agents, in memory, for those who watch them."""
    seat: LoginSeat | None = None
    """Of a call on login.sock: the place of its login, empty before one."""
    confirmed: str = ""
    """How the login has confirmed this call: `passkey` or `totp`; empty: it needed no more."""
    link_account: str = ""
    """The account whose notification had the link that makes this call; empty: no link does."""
    skills: Mapping[str, str] = field(default_factory=dict)
    """The operator's skills for all agents: the text of each SKILL.md, by name."""

    @property
    def by_operator(self) -> bool:
        return self.uuid == OPERATOR

    @property
    def login(self) -> Login | None:
        """The login on whose behalf the operator calls; None: the operator's own socket."""
        return self.ledger.logins.get(self.seat.login) if self.seat is not None else None

    @property
    def person(self) -> str:
        """For whom the operator decides: `account:NAME` of a login, else `uid:NUMBER`.

        `link:NAME`: whoever had a link in a notification of that account.
        """
        login = self.login
        if self.link_account:
            return f"link:{self.link_account}"
        return f"uid:{self.uid}" if login is None else f"account:{login.account}"

    @property
    def party(self) -> str:
        """The owner of the caller's inbox: its UUID, or `UUID/ID` of a sub-agent."""
        return self.uuid if self.sub is None else self.sub.party

    @property
    def address(self) -> str:
        """The name of the caller, or `NAME/ID` of a sub-agent."""
        return self.caller if self.sub is None else address(self.caller, self.sub.id)

    def notify(self, *topics: str) -> None:
        """Touch topics such as `inbox:<uuid>`: after COMMIT the calls that wait for one run again.

        All calls that are derived from this one share the topics. A call or a savepoint that is
        rolled back takes its own topics back.
        """
        touched, undo = self.topics, self.ledger.connection.undo
        if undo.marks:  # else only the call or the batch as a whole can be rolled back
            undo.note(_truncate, touched, len(touched))
        touched += topics


def _truncate(topics: list[str], length: int) -> None:
    del topics[length:]


class SlowReadSources(Protocol):
    """What a slow read may use."""

    @property
    def journal(self) -> Journal: ...

    @property
    def subagent_sockets(self) -> SubAgentSockets: ...

    async def fresh_plan(self) -> ReconcilePlan:
        """What the next pass would do, after a look at the whole host."""
        ...

    async def cpu(self, uuids: Iterable[str]) -> Mapping[str, Cpu]:
        """Processor time of those of these machines that run, as the kernel counts it."""
        ...

    async def diff(self, uuid: str, approval: str, at: int) -> tuple[bytes, bool]:
        """Whole lines of the diff of an approval from this byte on, and whether more follow."""
        ...


class EventTarget(NamedTuple):
    """The agent that an event has as its target, where the call was not judged against it.

    So the event of `spawn` names the agent that was created, and not the one above it.
    """

    uuid: str
    name: str


@final
@dataclass(frozen=True, slots=True)
class Change(Generic[R_co]):
    """The next hive; the broker commits it, notifies `tree`, and replies after COMMIT."""

    writes: ClassVar[bool] = True
    changes: ClassVar[bool] = True
    kind: ClassVar[str] = "change"
    audited: ClassVar[bool] = False
    result: R_co
    hive: Hive
    message: str
    fields: Mapping[str, object] = field(default_factory=lambda: _NOTHING)
    trailers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Trailers beside those that every commit has."""
    target: EventTarget | None = None


@final
@dataclass(slots=True)
class Record(Generic[R_co]):
    """Recorded in the ledger. Not frozen, as that makes one four times as expensive to create.

    `audited`: the daemon does this without a call, and has written all of its events already.
    """

    writes: ClassVar[bool] = True
    changes: ClassVar[bool] = False
    result: R_co
    fields: Mapping[str, object]
    audited: bool
    kind: str
    """What sort of event it is in the log."""
    target: EventTarget | None

    def __init__(  # a dataclass calls a function for the default of `fields`
        self, result: R_co, fields: Mapping[str, object] = _NOTHING, *, audited: bool = False,
        kind: str = "record", target: EventTarget | None = None,
    ) -> None:  # fmt: skip
        self.result, self.fields, self.audited, self.kind = result, fields, audited, kind
        self.target = target


@dataclass(frozen=True, slots=True)
class Wait(Generic[R_co]):
    """No result yet: the call runs again when a topic is touched, or at `until` at the latest.

    `until` is in epoch seconds. It may be earlier than the caller's deadline (when a lease ends,
    say): the call is asked again then. At `deadline` the answer is `otherwise`.
    """

    writes: ClassVar[bool] = False
    changes: ClassVar[bool] = False
    topics: frozenset[str]
    deadline: float | None
    otherwise: R_co
    until: float | None = None


class Ready(Result):
    """No answer yet: something slow is done, and the handler runs again with this value.

    `over` is called at the end of the call, also when the handler does not run again; it must not
    fail.
    """

    value: Any
    over: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class Later(Generic[R_co]):
    """Something slow outside the ledger; the call is authorized again before its reply leaves.

    It brings that result, or `Ready` for a handler that has to look or to record once more.
    """

    writes: ClassVar[bool] = False
    changes: ClassVar[bool] = False
    read: Callable[[SlowReadSources], Awaitable[R_co | Ready]]


Outcome = Result | Change[Result] | Record[Result] | Wait[Result] | Later[Result]
