"""Jobs on plain folders: repositories as agents leave them, and the programs that judge them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha1
from pathlib import Path
from select import select

from hive_core.model.config.review import CommitReview, DiffLine, Verdict
from hive_core.plan import nar
from hive_core.plan.intake_limits import IntakeLimits

ROOT = Path(__file__).resolve().parents[2]
CAPS = IntakeLimits(1 << 26, 20_000, 5 << 20, 64, 15_000, 32 << 20, 4 << 20, 60.0)
# Forks for each job: to start Python anew takes longer than most jobs do.
PROGRAM = """
import json, os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from hive_core.jobs import fetch, review
from hive_core.jobs.main import main
for line in sys.stdin:
    root, words = json.loads(line)
    if not (child := os.fork()):
        code = 120
        try:
            os.dup2(2, 1)
            code = main(words, Path(root))
        finally:
            os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
ENVIRONMENT = {
    "PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@b", "GIT_AUTHOR_DATE": "1700000000 +0000",
    "GIT_COMMITTER_DATE": "1700000000 +0000",
}  # fmt: skip
WHO = b"a <a@b> 1700000000 +0000"
Line = tuple[bytes, bytes, str]  # mode, name and object of a line of a tree


@dataclass
class Repo:
    """A repository of an agent, which its owner fills by hand as it likes."""

    folder: Path

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.git("init", "-q", "-b", "main")

    @property
    def own(self) -> Path:
        return self.folder / ".git"

    def git(self, *words: str, data: bytes = b"") -> str:
        command = ["git", "-C", str(self.folder), *words]
        return subprocess.check_output(command, env=ENVIRONMENT, input=data).decode().strip()

    def write(self, files: dict[str, bytes]) -> str:
        """A commit of these files beside those that are there."""
        for path, data in files.items():
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).write_bytes(data)
        self.git("add", "-A", "-f")
        self.git("commit", "-q", "--allow-empty", "-m", "change")
        return self.git("rev-parse", "HEAD")

    def put(self, kind: str, data: bytes, name: str = "") -> str:
        """An object as it is, checked by nobody; under another name if need be."""
        raw = b"%s %d\0%s" % (kind.encode(), len(data), data)
        oid = name or sha1(raw, usedforsecurity=False).hexdigest()
        path = self.own / "objects" / oid[:2] / oid[2:]
        path.parent.mkdir(exist_ok=True)
        if not path.exists():
            path.write_bytes(zlib.compress(raw, 1))
        return oid

    def blob(self, data: bytes) -> str:
        return self.put("blob", data)

    def tree(self, lines: Iterable[Line]) -> str:
        rows = (mode + b" " + name + b"\0" + bytes.fromhex(oid) for mode, name, oid in lines)
        return self.put("tree", b"".join(rows))

    def commit(self, tree: str, *parents: str, message: bytes = b"change\n") -> str:
        head = [f"tree {tree}".encode(), *(f"parent {parent}".encode() for parent in parents)]
        head += [b"author " + WHO, b"committer " + WHO, b"", message]
        return self.put("commit", b"\n".join(head))

    def of(self, lines: Iterable[Line]) -> str:
        """A commit of one tree."""
        return self.commit(self.tree(lines))

    def file(self, name: bytes, data: bytes = b"x\n", mode: bytes = b"100644") -> str:
        """A commit of one file."""
        return self.of([(mode, name, self.blob(data))])


@dataclass
class Judged:
    """What a review left behind."""

    review: CommitReview
    files: dict[str, tuple[bool, bytes]]
    diff: list[DiffLine]

    def text(self, path: str, signs: str = "+-") -> list[str]:
        return [row.text for row in self.diff if row.path == path and row.sign in signs]


class Jobs:
    """A small process out of which jobs are forked, with nothing of the tests in it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", PROGRAM, str(ROOT)], text=True, process_group=0,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"PATH": ENVIRONMENT["PATH"]},
        )  # fmt: skip

    def run(self, root: Path, words: Sequence[str], seconds: float) -> int:
        """The code with which the job has ended in time."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps([str(root), words]) + "\n")
        process.stdin.flush()
        if not select([process.stdout], [], [], seconds)[0]:
            os.killpg(process.pid, signal.SIGKILL)
            raise AssertionError(f"{words} has not ended after {seconds} s")
        return int(process.stdout.readline())

    def close(self) -> None:
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()


@dataclass
class Bench:
    """Folders of one job, and the job itself in a process of its own."""

    root: Path
    jobs: Jobs
    caps: IntakeLimits = CAPS
    repo: Repo = field(init=False)

    def __post_init__(self) -> None:
        self.repo = Repo(self.root / "agent")
        for place in ("in", "out"):
            (self.root / place).mkdir(exist_ok=True)

    @property
    def out(self) -> Path:
        return self.root / "out"

    def set_limits(self, **caps: float) -> None:
        self.caps = replace(self.caps, **caps)  # type: ignore[arg-type]

    def run(self, *words: str) -> Verdict:
        """One job, killed after twice its time; what it said."""
        (self.out / "said.json").unlink(missing_ok=True)
        code = self.jobs.run(self.root, words, 2 * self.caps.seconds)
        said = Verdict.read((self.out / "said.json").read_bytes())
        assert code == bool(said.fault)
        return said

    def fetch(self, commit: str, repo: str = ".") -> Verdict:
        return self.run("fetch", commit, repo, self.caps.word)

    def review(self, commit: str, base: str = "none") -> Verdict:
        """Of the pack that was fetched."""
        pack = self.out / "pack"
        if pack.exists():
            pack.replace(self.root / "in/pack")
        return self.run("review", commit, base, self.caps.word)

    def put_pack(self, *oids: str) -> None:
        """Hand the review a pack of these objects and nothing else, as a hostile job might."""
        names = "".join(f"{oid}\n" for oid in oids).encode()
        command = ["git", "-C", str(self.repo.folder), "pack-objects", "--stdout", "-q"]
        pack = subprocess.check_output(command, env=ENVIRONMENT, input=names)
        (self.root / "in/pack").write_bytes(pack)

    def whole(self, commit: str) -> None:
        """Hand the review a commit with all that belongs to it, fetched by nobody."""
        rows = self.repo.git("rev-list", "--objects", "--no-object-names", commit)
        self.put_pack(*rows.split())

    def check(self, commit: str, before: dict[str, tuple[bool, bytes]] | None = None) -> Judged:
        """Fetch and review a commit that both accept."""
        if before is not None:
            (self.root / "in/base.nar").write_bytes(nar.pack(before))
        for said in (self.fetch(commit), self.review(commit)):
            assert said.ok, said
        rows = (self.out / "diff.jsonl").read_bytes().splitlines()
        return Judged(
            CommitReview.read((self.out / "review.json").read_bytes()),
            nar.unpack((self.out / "tree.nar").read_bytes()),
            [DiffLine.read(row) for row in rows],
        )


def assert_refused(said: Verdict, rule: str, text: str = "", path: str = "") -> None:
    """It is refused for this, at this place, in one plain line."""
    assert not said.ok
    assert not said.fault, said
    assert said.rule == rule, said
    assert text in said.text, said
    assert said.path == path or not path, said
    assert json.dumps(said.reason).isprintable()
