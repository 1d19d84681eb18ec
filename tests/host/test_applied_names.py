"""The applied repositories of all agents: made, named, put aside with them, brought back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import UUID

import pytest

from hive_core.errors import HiveError
from hive_core.host.git.applied_repositories import AppliedRepositories
from hive_core.host.git.seed import seed
from hive_core.model.agents.agent import AgentSpec
from hive_core.model.agents.hive import Hive
from hive_core.plan import nar

NAMES = {"root": 1, "ann": 2, "inputs": 3}


def hive(**names: int) -> Hive:
    snapshot = Hive()
    for name, number in names.items():
        snapshot = snapshot.with_agent(name, None, AgentSpec(uuid=UUID(int=number << 96 | 1)))
    return snapshot


def uuid(number: int) -> str:
    return str(UUID(int=number << 96 | 1))


class Store:
    def __init__(self, folder: Path) -> None:
        self.applied = AppliedRepositories(folder / "applied")
        self.applied.open()

    def follow(
        self, hive: Hive, archived: tuple[str, ...] = (), dead: tuple[str, ...] = ()
    ) -> None:
        asyncio.run(self.applied.follow(hive, archived, dead.__contains__))

    def names(self) -> dict[str, str]:
        links = (path for path in self.applied.folder.iterdir() if path.is_symlink())
        return {link.name: str(link.readlink()) for link in links}


def test_each_agent_has_one_under_its_name(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.follow(hive(**NAMES))
    assert store.names() == {name: f"{uuid(number)}.git" for name, number in NAMES.items()}
    for name in NAMES:
        head = tmp_path / "applied" / name / "refs/heads/main"
        assert head.read_text().strip() == seed("host").commit


def test_a_name_that_is_used_again_leads_to_the_new_one(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.follow(hive(root=1, ann=2))
    store.follow(hive(root=1, ann=4), archived=(uuid(2),))
    assert store.names()["ann"] == f"{uuid(4)}.git"


def test_a_destroyed_agent_takes_it_along_and_brings_it_back(tmp_path: Path) -> None:
    """Also over a restart of the daemon in between."""
    store = Store(tmp_path)
    store.follow(hive(**NAMES))
    mark = store.applied.repo(uuid(2)).path / "hive/mark"
    mark.write_text("mine")
    store.follow(hive(root=1), archived=(uuid(2), uuid(3)))
    assert store.names() == {"root": f"{uuid(1)}.git"}
    store = Store(tmp_path)
    assert (store.applied.repo(uuid(2)).path / "hive/mark").read_text() == "mine"
    store.follow(hive(root=1, ann=2), archived=(uuid(3),))
    assert mark.read_text() == "mine"


def test_only_unreachable_data_is_deleted(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.follow(hive(**NAMES))
    store.follow(hive(root=1), archived=(uuid(2), uuid(3)))
    store.follow(hive(root=1), archived=(uuid(2),))  # the ledger does not say that it is dead
    assert store.applied.repo(uuid(3)).exists
    store.follow(hive(root=1), archived=(uuid(2),), dead=(uuid(3),))
    assert not store.applied.repo(uuid(3)).exists
    assert store.applied.repo(uuid(2)).exists


def test_half_made_ones_of_a_daemon_that_was_killed_are_made_anew(tmp_path: Path) -> None:
    store = Store(tmp_path)
    half = tmp_path / f"applied/.{uuid(1)}.git.new/objects"
    half.mkdir(parents=True)
    (half / "junk").write_text("x")
    store.follow(hive(root=1))
    assert store.applied.repo(uuid(1)).exists
    assert not half.exists()


def test_the_seed_needs_no_repository_and_a_name_leads_nowhere_else(tmp_path: Path) -> None:
    store = Store(tmp_path)
    archive_bytes = store.applied.nar(uuid(9), seed("host").commit, seed("host").nar)
    assert nar.unpack(archive_bytes) == seed("host").files
    with pytest.raises(HiveError):
        store.applied.nar(uuid(9), "0" * 40, seed("host").nar)
    with pytest.raises(HiveError):
        store.applied.repo("../../etc")
