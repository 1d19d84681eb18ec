"""The daemon's repositories of agents: each with its proposals, outcomes and deployed commit.

`AppliedRepo` is the repository of one agent. A job delivers everything that the agent wrote, as a
pack and as a NAR. The daemon trusts only their hashes and reads them with its own code. The daemon
writes all refs and tags:

    refs/hive/proposals/ID      the commit that was proposed
    refs/tags/KIND/ID           approved, building, deployed, failed, denied; the message says why
    refs/heads/main             the deployed commit
    hive/COMMIT.nar             the files of a commit
    hive/ID.json, ID.diff       the review of a proposal; `hive/ID.pack` names its pack

Each pack holds the whole history of its proposal, so deleting a pack never removes objects of
another proposal.

`AppliedRepositories` has those of all agents: `UUID.git`, and `NAME` as a symlink to it. The
repositories of destroyed agents are in `.archive` until the agent is restored or deleted for good.
Each pass compares the repositories with the hive and repairs every difference, so a pass that was
interrupted by a crash is completed by the next one.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from hive_core.errors import Conflict, HiveError, Internal, NotFound
from hive_core.host.git import gitfolder
from hive_core.host.git.file_writer import FOLDER_MODE, guard_repository, put, put_ref
from hive_core.host.git.object_writer import tree_bytes
from hive_core.host.git.pack_format import build_pack, object_name, pack_fault
from hive_core.host.git.seed import seed
from hive_core.host.git.store import FILES, FOLDER, ObjectStore, TreeEntry
from hive_core.model.agents.hive import Hive
from hive_core.model.config.approval import Binding
from hive_core.model.config.seed import SEEDS, template_name
from hive_core.model.names import is_uuid
from hive_core.plan import nar

PROPOSALS: Final = "refs/hive/proposals"
TAGS: Final = "refs/tags"
MAIN: Final = "refs/heads/main"
ARCHIVE: Final = ".archive"
_SUFFIX: Final = ".git"
KINDS: Final = ("approved", "building", "deployed", "failed", "denied")
_ID: Final = re.compile(r"[0-9a-f]{12}")
_OID: Final = re.compile(r"[0-9a-f]{40}")
_TAGGER: Final = "hive <hive@localhost>"
_MESSAGE_MOST: Final = 4000


@dataclass(frozen=True, slots=True)
class ReviewFiles:
    """The files that a review job hands over."""

    pack: bytes
    table: bytes
    archive: bytes
    review: bytes
    diff: bytes


@dataclass(frozen=True, slots=True)
class ProposalTag:
    """The outcome of a proposal. `text` is untrusted: it is escaped and bounded."""

    kind: str
    approval: str
    commit: str
    text: str
    at: float


class AppliedRepo:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = ObjectStore(path)
        self._hive = path / "hive"

    @property
    def exists(self) -> bool:
        return (self.path / "HEAD").is_file()

    def create(self, kind: str) -> None:
        """Create a repository that holds the seed.

        It is not synced, because it can be created again.
        """
        if self.exists:
            return
        with guard_repository(self.path):
            spare = gitfolder.create_bare_repository(self.path.with_name(f".{self.path.name}.new"))
            pack, table, archive = _seed_pack(kind)
            self._put_pack(spare, pack, table, durable=False)
            put(spare / "hive" / f"{seed(kind).commit}.nar", archive, durable=False)
            put_ref(spare / MAIN, seed(kind).commit, durable=False)
            spare.rename(self.path)

    def promote(self, approval: str, binding: Binding, parts: ReviewFiles) -> None:
        """Store the files of a review, after checking that they belong together."""
        fault = pack_fault(parts.pack, parts.table)
        if not fault and nar.digest(parts.archive) != binding.nar:
            fault = "the archive has another hash"
        if fault:
            raise Conflict(f"cannot accept commit {binding.commit[:12]}: {fault}")
        with guard_repository(self.path):
            name = self._put_pack(self.path, parts.pack, parts.table)
            put(self._hive / f"{binding.commit}.nar", parts.archive)
            put(self._review_file(approval, "json"), parts.review)
            put(self._review_file(approval, "diff"), parts.diff)
            put(self._review_file(approval, "pack"), name.encode())
        if fault := self.fault(binding):
            raise Conflict(f"cannot accept commit {binding.commit[:12]}: {fault}")
        with guard_repository(self.path):
            put_ref(
                self.path / PROPOSALS / _check_name(_ID, approval),
                _check_name(_OID, binding.commit),
            )

    def fault(self, binding: Binding) -> str:
        """Compare the stored files with `binding`; return the first difference, empty if none.

        All hashes are computed again. The commit is read by its hash and names the tree; the files
        of the archive must make that tree.
        """
        try:
            data = self.nar(binding.commit, binding.nar)
            files = nar.unpack(data)
            tree = self.store.commit(binding.commit).tree
        except (HiveError, ValueError) as error:
            return str(error)
        if tree != binding.tree:
            return f"commit {binding.commit[:12]} has the tree {tree[:12]}"
        return "" if tree_of(files) == tree else "the stored files are not the files of the commit"

    def nar(self, commit: str, expected: str) -> bytes:
        """The files of a commit, checked by their hash. A damaged archive is packed again."""
        path = self._hive / f"{_check_name(_OID, commit)}.nar"
        data = path.read_bytes() if path.is_file() else b""
        if nar.digest(data) == expected:
            return data
        try:
            data = nar.pack(dict(self._files(commit)))
        except ValueError as error:
            raise Internal(f"cannot read the files of {commit[:12]}: {error}") from error
        if nar.digest(data) != expected:
            raise Internal(f"the files of commit {commit[:12]} are not the approved files")
        with guard_repository(self.path):
            put(path, data)
        return data

    def _files(self, commit: str) -> Iterable[tuple[str, tuple[bool, bytes]]]:
        for path, entry in self.store.walk(self.store.commit(commit).tree):
            if entry.mode in FILES:
                yield path, (entry.mode == FILES[1], self.store.blob(entry.oid, path))

    def _review_file(self, approval: str, suffix: str) -> Path:
        return self._hive / f"{_check_name(_ID, approval)}.{suffix}"

    def tag(self, tag: ProposalTag) -> None:
        """Record the outcome of a proposal as a tag; a tag that exists is never changed."""
        if tag.kind not in KINDS:
            raise ValueError(f"unknown kind of tag: {tag.kind}")
        name = f"{tag.kind}/{_check_name(_ID, tag.approval)}"
        path = self.path / TAGS / name
        if path.exists():
            return
        head = f"object {_check_name(_OID, tag.commit)}\ntype commit\ntag {name}\n"
        tagger = f"tagger {_TAGGER} {int(tag.at)} +0000\n\n"
        data = f"{head}{tagger}{escape_message(tag.text)}\n".encode()
        with guard_repository(self.path):
            gitfolder.write_loose_object(self.path, "tag", data)
            put_ref(path, object_name("tag", data))

    def set_deployed(self, commit: str) -> None:
        """Move `main` to the commit that is deployed."""
        if self.ref(MAIN) != commit:
            with guard_repository(self.path):
                put_ref(self.path / MAIN, _check_name(_OID, commit))

    def propose(self, approval: str, commit: str) -> None:
        """Propose a commit that is in the repository already: an earlier generation."""
        with guard_repository(self.path):
            # an earlier generation came with an older pack
            put(self._review_file(approval, "pack"), b"")
            put_ref(self.path / PROPOSALS / _check_name(_ID, approval), _check_name(_OID, commit))

    def has_proposal(self, approval: str) -> bool:
        """Whether the repository has the commit of this proposal."""
        return (self.path / PROPOSALS / _check_name(_ID, approval)).exists()

    def ref(self, name: str) -> str:
        """The object that a ref names; empty if there is no such ref."""
        return self.refs().get(name, "")

    def refs(self) -> dict[str, str]:
        return gitfolder.read_refs(self.path)

    def prune(self, approvals: Iterable[str], commits: Iterable[str]) -> None:
        """Delete all proposals that are not in `approvals`, with their refs, objects and archives.

        Objects that the listed commits need stay, even if they came with a deleted proposal.
        """
        try:
            with guard_repository(self.path):
                gitfolder.prune_proposals(self.path, set(approvals), set(commits))
        except ValueError as error:
            raise Internal(f"repository {self.path.name} is damaged: {error}") from error

    def rewrite_seed_pack(self, kind: str) -> None:
        """Write the pack of the seed again. Other packs stay, because they cannot be made again.

        The files of the deployed commit do not depend on any pack.
        """
        with guard_repository(self.path):
            self._put_pack(self.path, *_seed_pack(kind)[:2])

    @staticmethod
    def _put_pack(path: Path, pack: bytes, table: bytes, *, durable: bool = True) -> str:
        return gitfolder.write_pack(path / "objects/pack", pack, table, durable=durable)


@cache
def _seed_pack(kind: str) -> tuple[bytes, bytes, bytes]:
    """Pack, pack index and archive of a seed, which are the same for every agent of the kind."""
    return (*build_pack(seed(kind).objects), nar.pack(seed(kind).files))


def tree_of(files: nar.Files) -> str:
    """The name of the git tree that holds these files."""
    folders: dict[str, dict[str, tuple[bool, bytes]]] = {}
    entries: dict[str, TreeEntry] = {}
    for path, file in files.items():
        top, slash, rest = path.partition("/")
        if slash:
            folders.setdefault(top, {})[rest] = file
        else:
            entries[top] = TreeEntry(FILES[file[0]], object_name("blob", file[1]))
    for name, below in folders.items():
        entries[name] = TreeEntry(FOLDER, tree_of(below))
    return object_name("tree", tree_bytes(entries))


def escape_message(text: str) -> str:
    """The text as printable ASCII lines, cut to the allowed length."""
    lines = (_plain(line) for line in text.splitlines())
    return "\n".join(lines)[:_MESSAGE_MOST] or "(no message)"


def _plain(line: str) -> str:
    return "".join(char if " " <= char <= "~" else f"<U+{ord(char):04X}>" for char in line)


def _check_name(rule: re.Pattern[str], text: str) -> str:
    if not rule.fullmatch(text):
        raise ValueError(f"{text!r} is not a valid object name or approval id")
    return text


class AppliedRepositories:
    """Knows where the repositories are, and keeps them in line with the hive."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._there: set[str] = set()
        self._shelved: set[str] = set()
        self._links: dict[str, str] = {}
        self._seen: Mapping[str, str] | None = None

    def open(self) -> None:
        """Read which repositories and links exist; create the folders if they are missing."""
        with guard_repository(self.folder):
            for folder in (self.folder, self.folder / ARCHIVE):
                folder.mkdir(exist_ok=True)
                folder.chmod(FOLDER_MODE)
            self._there = set(_uuids(self.folder))
            self._shelved = set(_uuids(self.folder / ARCHIVE))
            links = (path for path in self.folder.iterdir() if path.is_symlink())
            self._links = {link.name: str(link.readlink()) for link in links}

    def repo(self, uuid: str) -> AppliedRepo:
        """The repository of one agent, living or archived."""
        if not is_uuid(uuid):
            raise NotFound(f"no repository of {uuid!r}")
        room = self.folder / ARCHIVE if uuid in self._shelved else self.folder
        return AppliedRepo(room / f"{uuid}{_SUFFIX}")

    def nar(self, uuid: str, commit: str, expected: str) -> bytes:
        """The files of a deployed commit.

        The commit of a seed template is served without a repository.
        """
        for kind, start in SEEDS.items():
            if (commit, expected) == start:
                return nar.pack(seed(kind).files)
        return self.repo(uuid).nar(commit, expected)

    async def follow(
        self, hive: Hive, archived: Collection[str], dead: Callable[[str], bool]
    ) -> None:
        """Create, archive and delete repositories so that they match the hive.

        `dead` returns whether a destroyed agent can no longer be restored.
        """
        living = hive.names
        if living is self._seen and self._shelved <= set(archived):
            return  # no agent was created or destroyed
        with guard_repository(self.folder):
            for uuid in living.keys() - self._there:
                # In a thread: each repository is a dozen files, and the disk may be slow.
                await asyncio.to_thread(
                    self._restore_or_create, uuid, hive.specs[living[uuid]].image
                )
                self._there.add(uuid)
            for uuid in self._there - living.keys():
                self._archive(uuid)
            for uuid in self._shelved - set(archived) - living.keys():
                if dead(uuid):
                    shutil.rmtree(self._archive_path(uuid))
                    self._shelved.discard(uuid)
            self._update_links({name: f"{uuid}{_SUFFIX}" for uuid, name in living.items()})
        self._seen = living

    def _restore_or_create(self, uuid: str, image: str) -> None:
        if uuid in self._shelved:
            self._archive_path(uuid).rename(self.folder / f"{uuid}{_SUFFIX}")
            self._shelved.discard(uuid)
        else:
            AppliedRepo(self.folder / f"{uuid}{_SUFFIX}").create(template_name(image))

    def _archive(self, uuid: str) -> None:
        (self.folder / f"{uuid}{_SUFFIX}").rename(self._archive_path(uuid))
        self._there.discard(uuid)
        self._shelved.add(uuid)

    def _archive_path(self, uuid: str) -> Path:
        return self.folder / ARCHIVE / f"{uuid}{_SUFFIX}"

    def _update_links(self, wanted: Mapping[str, str]) -> None:
        """Replace the symlinks that differ. Each link is valid at every moment."""
        for name in self._links.keys() - wanted.keys():
            (self.folder / name).unlink(missing_ok=True)
        for name, target in wanted.items() - self._links.items():
            spare = self.folder / ".new"
            spare.unlink(missing_ok=True)
            spare.symlink_to(target)
            spare.rename(self.folder / name)
        self._links = dict(wanted)


def _uuids(folder: Path) -> list[str]:
    names = (path.name.removesuffix(_SUFFIX) for path in folder.glob(f"*{_SUFFIX}"))
    return [name for name in names if is_uuid(name)]
