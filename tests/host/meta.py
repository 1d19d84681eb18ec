"""Meta repos for tests, the five steps of a change, and an operator with a git of their own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

from hive_core.host.git import MetaRepo
from hive_core.ledger.core.ledger import Ledger
from hive_core.model.agents.agent import AgentSpec
from hive_core.model.agents.hive import Hive

TRAILERS = {"Hive-Caller": "operator", "Hive-Operation": "spawn", "Hive-Request": "r1"}


def spec(number: int, **more: object) -> AgentSpec:
    return AgentSpec.model_validate({"uuid": UUID(int=number << 96 | 1), **more})


def family(*names: str) -> Hive:
    """`names` under root."""
    hive = Hive().with_agent("root", None, spec(1))
    for number, name in enumerate(names, 2):
        hive = hive.with_agent(name, "root", spec(number))
    return hive


class Meta:
    """A repository, the ledger beside it, and what the broker does with both."""

    def __init__(self, folder: Path, step: Callable[[str], None] = lambda _: None) -> None:
        self.path = folder / "meta"
        self.repo = MetaRepo.open(self.path, step=step)
        self.ledger = Ledger.open(folder / "hive.db", step=step, primed=0)

    @property
    def hive(self) -> Hive:
        return self.repo.read(self.ledger.head) if self.ledger.head else Hive()

    def change(self, hive: Hive, message: str = "change") -> Hive:
        """The five steps, as the broker goes through them."""
        oid = self.repo.write(hive, self.hive, message, TRAILERS)
        with self.repo.hold(self.ledger.head) as move:
            with self.ledger.transaction():
                self.ledger.head = oid
            move(oid)
        return hive.at_commit(oid)

    def git(self, *words: str) -> str:
        """An operator's git in the work tree."""
        return git(self.path, *words)

    def edit(self, file: str, text: str) -> None:
        (self.path / file).write_text(text, encoding="utf-8")

    def by_hand(self, file: str, text: str) -> str:
        """A commit by hand that puts `text` into `file`."""
        self.edit(file, text)
        self.git("add", file)
        self.git("commit", "-q", "-m", f"edit {file}")
        return self.git("rev-parse", "HEAD")

    def object(self, oid: str) -> Path:
        """Where a loose object lies, writable."""
        path = self.path / ".git" / "objects" / oid[:2] / oid[2:]
        path.chmod(0o644)
        return path

    def close(self) -> None:
        self.ledger.close()


def git(path: Path, *words: str) -> str:
    """git with nobody's configuration."""
    names = {f"GIT_{who}_{field}": "op@host" for who in ("AUTHOR", "COMMITTER") for field in
             ("NAME", "EMAIL")}  # fmt: skip
    alone = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, **names}
    done = subprocess.run(
        ["git", *words], cwd=path, env={**os.environ, **alone}, check=True, capture_output=True,
        text=True,
    )  # fmt: skip
    return done.stdout.strip()
