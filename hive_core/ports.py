"""What the core may ask of the world outside this process; nothing else gets a port.

`host/` holds the real ones, `testing.py` the in-memory twins.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Protocol

from hive_core.errors import Internal
from hive_core.model.agents.machine import Observed
from hive_core.model.config.push import MetaCommit, PackChunk, Push, PushProgress
from hive_core.model.wire.record import LogLine, LogQuery
from hive_core.model.work.artifact import Content, UploadLimits
from hive_core.plan.actions import Action, RunJob
from hive_core.plan.daemon_actions import DaemonAction
from hive_core.plan.results import Result


class Machines(Protocol):
    """The containers of this host: what is there, and one change at a time."""

    async def observe(self, uuids: Iterable[str] | None = None) -> Observed:
        """Facts about these agents (None: everything on the host, strays included)."""
        ...

    async def apply(self, action: Action | DaemonAction) -> Result:
        """Do one action; returns what it reports, raises HiveError when it could not."""
        ...

    def subscribe(self, wake: Callable[[str], None]) -> None:
        """Call `wake(uuid or "")` whenever a unit of ours may have changed."""
        ...


class Journal(Protocol):
    """The host's journal, read only."""

    async def read(self, query: LogQuery) -> Sequence[LogLine]:
        """Lines of one agent, oldest first: the newest, or with `after` the first behind it."""
        ...

    def follow(self, query: LogQuery) -> AsyncIterator[LogLine]:
        """Lines as they are written; ends after half a minute without one."""
        ...


class Clock(Protocol):
    """Time and waiting."""

    def now(self) -> float:
        """Seconds since 1970 in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never jump."""
        ...

    def pending_jump(self) -> float:
        """By how much somebody set the clock; `now` goes on as before until `follow` is called."""
        ...

    def follow(self) -> None:
        """Whatever was meant for a time has been moved along: `now` may jump."""
        ...

    def call_at(self, when: float, callback: Callable[[], None]) -> Callable[[], None]:
        """Run `callback` once when `monotonic()` reaches `when`; returns a cancel function."""
        ...


class Vault(Protocol):
    """The secrets of agents, by UUID and key. On the disk when a method returns."""

    def put(self, uuid: str, key: str, value: bytes) -> None:
        """Keep one, in place of an older one."""
        ...

    async def keep(self, uuid: str, key: str, value: bytes) -> None:
        """The same, for what a call comes to later."""
        ...

    def remove(self, uuid: str, key: str) -> bool:
        """Forget one; False when there was none."""
        ...

    def retire(self, uuid: str, key: str) -> None:
        """Forget one that somebody made for itself: the logs hide it for a while, not for good."""
        ...

    def keys(self, uuid: str) -> tuple[str, ...]:
        """Those that an agent has."""
        ...

    def holders(self) -> list[str]:
        """Everybody who has any, living or not."""
        ...

    def drop(self, uuid: str) -> None:
        """Forget all of somebody."""
        ...


class Contents(Protocol):
    """The contents of artifacts, by what they are.

    What takes as long as there are bytes is awaited, by what a call comes to later.
    """

    def begin(self, party: str, most: int) -> str:
        """Somebody will send one in parts; the id of the upload."""
        ...

    async def append(
        self, party: str, id_: str, offset: int, data: bytes, room: UploadLimits
    ) -> int:
        """Take the next part, or the last one again; how many bytes there are."""
        ...

    async def settle(self, party: str, id_: str) -> str:
        """All of an upload is on the disk, under no name yet; its id."""
        ...

    async def keep(self, party: str, data: bytes, room: UploadLimits) -> str:
        """Something small, in one go: the id of an upload that is settled."""
        ...

    def place(self, party: str, id_: str) -> Content | None:
        """A settled upload has its name, on the disk, when this returns; None: settle it first."""
        ...

    def size(self, party: str, id_: str) -> int:
        """How many bytes of an upload there are."""
        ...

    def held(self, party: str | None = None) -> int:
        """Bytes of uploads that were not stored yet."""
        ...

    def cancel(self, party: str) -> None:
        """Forget what somebody was sending."""
        ...

    async def read(self, content: Content, at: int) -> bytes | str:
        """From this byte to the end of its block; a text says why it is not what was stored."""
        ...

    def damaged(self, digest: str, why: str) -> Internal:
        """The operator knows; who wanted to read it is told this."""
        ...

    def remove(self, digest: str) -> None:
        """Nothing refers to it any more."""
        ...


class GitServer(Protocol):
    """The daemon's repositories as people's git sees them: by `meta`, or the UUID of an agent."""

    def refs(self, repo: str) -> Mapping[str, str]:
        """Branches and tags by their full names."""
        ...

    async def pack(
        self, repo: str, wants: Sequence[str], haves: Sequence[str], after: str | None
    ) -> tuple[bytes, str | None]:
        """Some bytes of a pack with what `wants` need beside `haves`, and where more begin."""
        ...

    async def log(self, start: str, limit: int) -> Sequence[MetaCommit]:
        """A commit of the meta repository and those before it, nearest first; by its digits."""
        ...

    async def changes(self, old: str, new: str, at: int) -> tuple[bytes, bool]:
        """Some whole lines of what differs between two commits, from this byte on; more behind?"""
        ...

    async def push(self, push: Push, part: PackChunk) -> PushProgress:
        """Take a part of a pack; with the last one, judge what was pushed."""
        ...


class Jobs(Protocol):
    """Small throw-away containers for work on bytes that agents wrote."""

    def run(self, action: RunJob) -> Awaitable[Result]:
        """Start the job in a uid range that is free, wait for its end, clean up after it."""
        ...
