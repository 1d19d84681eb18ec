"""One change of a hive of 1,000 agents as a durable commit, against git's own plumbing.

Both on disk (/var/tmp) with fsync. git gets the same files by `update-index`, `write-tree`,
`commit-tree` and `update-ref`.
"""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from uuid import UUID

from hive_core.host.git import files
from hive_core.host.git.repo import MetaRepo
from hive_core.model.agents.agent import AgentSpec
from hive_core.model.agents.hive import Hive

AGENTS = 1000
ROUNDS = 100
WHO = {
    f"GIT_{who}_{field}": "bench@host"
    for who in ("AUTHOR", "COMMITTER")
    for field in ("NAME", "EMAIL")
}


def run() -> list[dict[str, object]]:
    with TemporaryDirectory(dir="/var/tmp") as folder:
        repo = MetaRepo.open(Path(folder) / "meta")
        hive = _move(repo, _hive(), Hive())
        writes, moves, shows = _change(repo, hive)
        peer = _plumbing(Path(folder) / "meta", hive)
    rows = (("write", writes), ("lock and move the branch", moves), ("show the work tree", shows))
    return [
        {
            "name": f"{name}, p50 at {AGENTS} agents", "value": value * 1e3, "unit": "ms",
            "peer": "git plumbing, all steps", "peer_value": peer * 1e3, "ratio": value / peer,
        }
        for name, value in rows
    ]  # fmt: skip


def _spec(number: int) -> AgentSpec:
    return AgentSpec(uuid=UUID(int=number << 96 | 1))


def _hive() -> Hive:
    parents: dict[str, str | None] = {"root": None}
    parents.update({f"a{number}": "root" for number in range(1, AGENTS)})
    specs = {name: _spec(number) for number, name in enumerate(parents, 1)}
    hive = Hive(specs=specs)
    return Hive(topology=type(hive.topology).forest(parents), specs=specs).validate()


def _move(repo: MetaRepo, hive: Hive, before: Hive) -> Hive:
    oid = repo.write(hive, before, "change", {"Hive-Caller": "operator"})
    with repo.hold(before.commit) as move:
        move(oid)
    return hive.at_commit(oid)


def _change(repo: MetaRepo, hive: Hive) -> tuple[float, float, float]:
    """Medians of the three parts, each round a new agent or a move."""
    spent: list[tuple[float, float, float]] = []
    waiting: list[Callable[[], None]] = []
    repo.schedule = waiting.append
    for number in range(ROUNDS):
        if number % 2:
            after = hive.with_parent(f"a{number}", f"a{number + 1}")
        else:
            after = hive.with_agent(f"b{number}", "root", _spec(AGENTS + 1 + number))
        start = time.perf_counter()
        oid = repo.write(after, hive, f"change {number}", {"Hive-Caller": "operator"})
        written = time.perf_counter()
        with repo.hold(hive.commit) as move:
            move(oid)
        moved = time.perf_counter()
        waiting.pop()()
        spent.append((written - start, moved - written, time.perf_counter() - moved))
        hive = after.at_commit(oid)
    write, move_, show = zip(*spent, strict=True)
    return median(write), median(move_), median(show)


def _plumbing(path: Path, hive: Hive) -> float:
    """Median of one changed agent and topology by git alone."""
    head, spent = _git(path, "rev-parse", "main"), []
    for number in range(20):
        top = files.topology_bytes(hive.topology.parents) + b" " * number
        agent = files.spec_bytes(_spec(number + 5000))
        start = time.perf_counter()
        for name, data in (("topology.json", top), ("agents/a1.json", agent)):
            oid = _git(path, "hash-object", "-w", "--stdin", data=data)
            _git(path, "update-index", "--cacheinfo", f"100644,{oid},{name}")
        tree = _git(path, "write-tree")
        commit = _git(path, "commit-tree", tree, "-p", head, "-m", f"change {number}")
        _git(path, "update-ref", "refs/heads/peer", commit)
        spent.append(time.perf_counter() - start)
        head = commit
    return median(spent)


def _git(path: Path, *words: str, data: bytes = b"") -> str:
    done = subprocess.run(
        ["git", "-c", "core.fsync=all", *words], cwd=path, env={**os.environ, **WHO}, input=data,
        check=True, capture_output=True,
    )  # fmt: skip
    return done.stdout.decode().strip()
