"""The ports: everything that the core may use outside this process.

`host/` has the real implementations, `testing/` those in memory.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Protocol

from hive_core.errors import Internal
from hive_core.model.agents.machine import Machine, Observed, Reading
from hive_core.model.config.push import MetaCommit, PackChunk, Push, PushProgress
from hive_core.model.wire.record import LogLine, LogQuery
from hive_core.model.work.artifact import Content, UploadLimits
from hive_core.plan.actions import Action, RunJob
from hive_core.plan.daemon_actions import DaemonAction
from hive_core.plan.results import Result


class Machines(Protocol):
    """The containers of this host: observe them, and apply one action at a time."""

    async def observe(self, uuids: Iterable[str] | None = None) -> Observed:
        """Facts about these agents (None: everything on the host, orphans included)."""
        ...

    async def apply(self, action: Action | DaemonAction) -> Result:
        """Apply one action and return its result; raises HiveError on failure."""
        ...

    def subscribe(self, wake: Callable[[str], None]) -> None:
        """Call `wake(uuid)` whenever an agent's unit may have changed; "" means any agent."""
        ...


class FigureReader(Protocol):
    """What the kernel counts for running machines."""

    async def read(self, machines: Sequence[Machine]) -> Mapping[str, Reading]:
        """Processor and memory of these machines by UUID, without those that have ended."""
        ...


class Journal(Protocol):
    """The host's journal, read only."""

    async def read(self, query: LogQuery) -> Sequence[LogLine]:
        """Lines of one agent, oldest first: the newest, or with `after` those that follow it."""
        ...

    def follow(self, query: LogQuery) -> AsyncIterator[LogLine]:
        """Yield lines as they are written; ends after half a minute without one."""
        ...


class SubAgentSockets(Protocol):
    """The sockets of sub-agents, in the socket directories of their agents."""

    async def open(self, agent: str, id_: str, uid: int, *, has_network: bool) -> None:
        """Listen on the sockets of a sub-agent that has this uid in the container of the agent.

        Raises HiveError, and leaves nothing behind, where they cannot be made.
        """
        ...

    def settle(self, agent: str, id_: str) -> None:
        """The call that opened them has ended: close them unless the ledger has the sub-agent.

        Until then they stay open, whichever sub-agents of any agent open or end meanwhile.
        """
        ...


class Clock(Protocol):
    """Time and waiting."""

    def now(self) -> float:
        """Seconds since 1970 in UTC."""
        ...

    def monotonic(self) -> float:
        """Monotonic seconds."""
        ...

    def pending_jump(self) -> float:
        """By how much the wall clock was set; `now` ignores that until `follow` is called."""
        ...

    def follow(self) -> None:
        """Let `now` jump, after all times in the ledger were shifted."""
        ...

    def call_at(self, when: float, callback: Callable[[], None]) -> Callable[[], None]:
        """Run `callback` once when `monotonic()` reaches `when`; return a cancel function."""
        ...


class Vault(Protocol):
    """The secrets of agents, by UUID and key. A change is on disk when the method returns."""

    def put(self, uuid: str, key: str, value: bytes) -> None:
        """Store a secret, replacing an older one."""
        ...

    async def keep(self, uuid: str, key: str, value: bytes) -> None:
        """Store a secret; awaited by the deferred part of a call."""
        ...

    def remove(self, uuid: str, key: str) -> bool:
        """Remove a secret; False if there was none."""
        ...

    def retire(self, uuid: str, key: str) -> None:
        """Remove a secret that an agent made for itself. Logs mask it for a limited time."""
        ...

    def keys(self, uuid: str) -> tuple[str, ...]:
        """The keys of an agent's secrets."""
        ...

    def holders(self) -> list[str]:
        """All agents that have secrets, destroyed ones included."""
        ...

    def drop(self, uuid: str) -> None:
        """Remove all secrets of an agent."""
        ...


class Contents(Protocol):
    """The contents of artifacts, by the digest of their bytes.

    Methods that take time in proportion to the size are awaited, by the deferred part of a call.
    """

    def begin(self, party: str, most: int) -> str:
        """Begin an upload in parts; return its id."""
        ...

    async def append(
        self, party: str, id_: str, offset: int, data: bytes, room: UploadLimits
    ) -> int:
        """Append the next part, or the last one again; return the size so far."""
        ...

    async def settle(self, party: str, id_: str) -> str:
        """Sync an upload to disk, without a name yet; return its id."""
        ...

    async def keep(self, party: str, data: bytes, room: UploadLimits) -> str:
        """Store a small content at once; return the id of the synced upload."""
        ...

    def place(self, party: str, id_: str) -> Content | None:
        """Give a synced upload its name on disk; None if it is not synced yet."""
        ...

    def size(self, party: str, id_: str) -> int:
        """The size of an upload so far."""
        ...

    def pending_bytes(self, party: str | None = None) -> int:
        """Bytes of uploads that have no name yet."""
        ...

    def cancel(self, party: str) -> None:
        """Remove the uploads of a party."""
        ...

    async def read(self, content: Content, at: int) -> bytes | str:
        """The bytes from `at` to the end of their block; if damaged, a text with the reason."""
        ...

    def report_damage(self, digest: str, why: str) -> Internal:
        """Raise the operator's alarm; return the error for the reader."""
        ...

    def remove(self, digest: str) -> None:
        """Remove a content without references."""
        ...


class GitServer(Protocol):
    """The daemon's repositories, as `git clone hive::` sees them: `meta`, or an agent's UUID."""

    async def refs(self, repo: str) -> Mapping[str, str]:
        """Branches and tags by their full names."""
        ...

    async def pack(
        self, repo: str, wants: Sequence[str], haves: Sequence[str], after: str | None
    ) -> tuple[bytes, str | None]:
        """A part of a pack with what `wants` need in addition to `haves`.

        The position of the next.
        """
        ...

    async def log(self, start: str, limit: int) -> Sequence[MetaCommit]:
        """A commit of the meta repository and its ancestors, newest first."""
        ...

    async def changes(self, old: str, new: str, at: int) -> tuple[bytes, bool]:
        """Whole lines of the difference of two commits from a byte on, and whether more follow."""
        ...

    async def push(self, push: Push, part: PackChunk) -> PushProgress:
        """Store a part of a pack; with the last part, check the push."""
        ...


class Jobs(Protocol):
    """Short-lived containers for work on files that agents wrote."""

    def run(self, action: RunJob) -> Awaitable[Result]:
        """Start the job in a free uid range, wait for its end, and clean up."""
        ...
