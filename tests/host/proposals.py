"""Proposals as a review job would leave them, made by a real git in a clone of the seed."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from host.meta import git

from hive_core.host.git.applied_repository import ReviewFiles, tree_of
from hive_core.model.config.approval import Binding
from hive_core.plan import nar

Files = Mapping[str, str]


@dataclass(frozen=True)
class Proposal:
    binding: Binding
    parts: ReviewFiles
    files: dict[str, tuple[bool, bytes]]


class Author:
    """Somebody with a clone of an agent's configuration."""

    def __init__(self, folder: Path, files: Files | None = None) -> None:
        self.folder = folder
        folder.mkdir()
        git(folder, "init", "--quiet", "--initial-branch=main")
        git(folder, "config", "user.name", "ann")
        git(folder, "config", "user.email", "ann@localhost")
        if files:
            self.commit(files)

    def commit(self, files: Files, message: str = "change") -> str:
        for path, text in files.items():
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).write_text(text)
        git(self.folder, "add", "--all")
        git(self.folder, "commit", "--quiet", "--allow-empty", "--message", message)
        return git(self.folder, "rev-parse", "HEAD").strip()

    def propose(self, commit: str = "HEAD", base: str = "") -> Proposal:
        """What the jobs hand over for this commit."""
        oid = git(self.folder, "rev-parse", commit).strip()
        pack, table = self._pack_history(oid)
        names = git(self.folder, "ls-tree", "-r", "--name-only", oid).split()
        files = {name: (False, self._file(oid, name)) for name in names}
        archive = nar.pack(files)
        binding = Binding(oid, tree_of(files), nar.digest(archive), base)
        return Proposal(binding, ReviewFiles(pack, table, archive, b"{}", b""), files)

    def _file(self, oid: str, name: str) -> bytes:
        command = ["git", "-C", str(self.folder), "cat-file", "blob", f"{oid}:{name}"]
        return subprocess.run(command, check=True, capture_output=True).stdout

    def _pack_history(self, oid: str) -> tuple[bytes, bytes]:
        command = ["git", "-C", str(self.folder), "pack-objects", "--revs", "--quiet", "made"]
        subprocess.run(command, check=True, input=oid.encode(), capture_output=True)
        (pack,) = self.folder.glob("made-*.pack")
        table = pack.with_suffix(".idx")
        pack_and_table = pack.read_bytes(), table.read_bytes()
        for path in self.folder.glob("made-*"):
            path.unlink()
        return pack_and_table
