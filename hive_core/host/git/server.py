"""The daemon's repositories as served to operators' clones. There is no other access."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from hive_core.errors import InvalidArgument, NotFound
from hive_core.host.git.applied_repositories import KINDS, PROPOSALS, AppliedRepo
from hive_core.host.git.faults import DamagedRepo
from hive_core.host.git.pack_exports import PackExports
from hive_core.host.git.pushes import Pushes
from hive_core.host.git.recovery import ancestors
from hive_core.host.git.repo import MetaRepo
from hive_core.host.git.store import ObjectStore
from hive_core.model.config.push import MAIN, META, MetaCommit, PackChunk, Push, PushProgress

SHOWN: Final = "refs/heads/proposals"
REFUSED: Final = "refs/heads/refused"
_OID: Final = re.compile(r"[0-9a-f]{40}")
_TAG: Final = re.compile(rf"refs/tags/(?:{'|'.join((*KINDS, 'approve'))})/[0-9a-f]{{12}}")
_SEARCHED: Final = 20_000  # commits


@dataclass
class MetaGitServer:
    """Serves refs, packs and diffs. `repo` returns the repository of an agent.

    `pushes` is created at its first use.
    """

    meta: MetaRepo
    repo: Callable[[str], AppliedRepo]
    exports: PackExports
    pushes: Callable[[], Pushes]

    async def refs(self, repo: str) -> Mapping[str, str]:
        """The refs to serve.

        Proposed and refused commits are branches, so that every clone fetches them.
        """
        if repo == META:
            head = self.meta.head()
            commits = await asyncio.to_thread(self.meta.readable_parked_commits)
            refused = {f"{REFUSED}/{oid[:12]}": oid for oid in commits}
            return {**({MAIN: head} if head else {}), **refused}
        shown = {}
        for name, oid in (await asyncio.to_thread(self.repo(repo).refs)).items():
            place, _, leaf = name.rpartition("/")
            if _OID.fullmatch(oid) and (name == MAIN or _TAG.fullmatch(name)):
                shown[name] = oid
            elif _OID.fullmatch(oid) and place == PROPOSALS:
                shown[f"{SHOWN}/{leaf}"] = oid
        return shown

    async def pack(
        self, repo: str, wants: Sequence[str], haves: Sequence[str], after: str | None
    ) -> tuple[bytes, str | None]:
        return await self.exports.pack(self._folder(repo), wants, haves, after)

    async def log(self, start: str, limit: int) -> Sequence[MetaCommit]:
        return await asyncio.to_thread(self._log, start, limit)

    async def changes(self, old: str, new: str, at: int) -> tuple[bytes, bool]:
        return await self.exports.changes(self._folder(META), old, new, at)

    async def push(self, push: Push, part: PackChunk) -> PushProgress:
        return await self.pushes().push(push, part)

    def _folder(self, repo: str) -> Path:
        return self.meta.folder if repo == META else self.repo(repo).path

    def _log(self, start: str, limit: int) -> list[MetaCommit]:
        """Reads with an object store of its own, because it runs in a thread."""
        store = ObjectStore(self.meta.folder)
        if not start:
            return []
        oid = start if _OID.fullmatch(start) else self._find_commit(store, start)
        try:
            store.commit(oid)
        except DamagedRepo as error:
            raise NotFound(f"no commit {oid} in the meta repository") from error
        return [_commit(store, ancestor) for ancestor in islice(ancestors(store, oid), limit)]

    def _find_commit(self, store: ObjectStore, digits: str) -> str:
        """The commit whose name starts with `digits`: in the history of the head, or refused."""
        known = [
            *islice(ancestors(store, self.meta.head()), _SEARCHED),
            *self.meta.readable_parked_commits(),
        ]
        matches = {candidate for candidate in known if candidate.startswith(digits)}
        if len(matches) > 1:
            raise InvalidArgument(f"{len(matches)} commits begin with {digits}", field="commit")
        if not matches:
            raise NotFound(f"no commit {digits} in the meta repository")
        return matches.pop()


def _commit(store: ObjectStore, oid: str) -> MetaCommit:
    commit = store.commit(oid)
    return MetaCommit(oid, commit.parents, commit.author, commit.time, commit.message)
