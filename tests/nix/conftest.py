"""A store of its own for each module, and the programs of the jobs as they are run there.

The store is one below a folder, so no daemon is needed and nothing comes into the machine's own.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from hive_core.jobs import nix_build, nix_evaluate, nix_lock
from hive_core.jobs.nix import CONFIG, JobFolders
from hive_core.model.config.settings import NixSettings
from hive_core.plan import nar
from hive_core.plan.flake import Pin, render
from nix import inputs

UUID = "11111111-1111-4111-8111-111111111111"
# What the daemon has in its own configuration; here there is none.
OFFLINE = CONFIG + "substituters =\nsandbox = true\nsandbox-fallback = false\nbuild-users-group =\n"
PLAIN = "{ ... }: { }"
Said = dict[str, Any]


@dataclass
class NixJobRunner:
    """Runs jobs one after another, each in a new directory."""

    folder: Path
    inputs: Mapping[str, str]
    lock: bytes = b""
    _number: Iterator[int] = field(default_factory=count)

    @property
    def nix(self) -> NixSettings:
        return NixSettings(inputs=dict(self.inputs))

    @property
    def store(self) -> Path:
        return self.folder / "store"

    def fresh(self) -> Path:
        """A folder that every Nix sees: another one has a /tmp and nothing else of the machine."""
        return self.folder / f"run-{next(self._number)}"

    def room(self, **files: bytes) -> JobFolders:
        place = self.folder / str(next(self._number))
        for name in ("in", "out", "scratch"):
            (place / name).mkdir(parents=True)
        for name, data in files.items():
            (place / "in" / name.replace("_", ".")).write_bytes(data)
        return JobFolders(place / "in", place / "out", place / "scratch", str(self.store), OFFLINE)

    def relock(self, *inputs: str) -> Said:
        room = self.room(flake_nix=render(self.nix, []), flake_lock=self.lock)
        if not self.lock:
            (room.inside / "flake.lock").unlink()
        said = self._run_job(room, lambda: nix_lock.main([str(room.out), *inputs], room))
        if said["ok"]:
            self.lock = (room.out / "flake.lock").read_bytes()
        return said

    def evaluate(
        self,
        agent: str | Mapping[str, str],
        parent: str | None = "alice",
        name: str = "bob",
        seconds: int = 60,
    ) -> Said:
        files = {"agent.nix": agent} if isinstance(agent, str) else agent
        archive = nar.pack({path: (False, text.encode()) for path, text in files.items()})
        place = str(self.fresh())
        pin = Pin(name, UUID, parent, ("spawn",), "c" * 40, nar.digest(archive), place)
        flake = render(self.nix, [pin])
        room = self.room(flake_nix=flake, flake_lock=self.lock, tree_nar=archive)
        return self._run_job(room, lambda: nix_evaluate.main([name, pin.path, str(seconds)], room))

    def build(self, made: Said, before: str = "none", fetches: str = "no") -> Said:
        room = self.room()
        link = str(room.out / "result")
        words = [made["drv"], made["out"], link, before, fetches, "60"]
        return self._run_job(room, lambda: nix_build.main(words, room))

    def build_agent(self, agent: str, before: str = "none") -> Said:
        """Evaluate and build what must be right."""
        evaluated = self.evaluate(agent)
        assert evaluated["ok"], evaluated
        return self.build(evaluated, before)

    def real(self, path: str) -> Path:
        return Path(f"{self.store}{path}")

    def _run_job(self, room: JobFolders, act: Callable[[], None]) -> Said:
        act()
        said: Said = json.loads((room.out / "said.json").read_text())
        return said


@pytest.fixture(scope="session")
def runner() -> Iterator[NixJobRunner]:
    # Outside /dev/shm, whose mounts a sandbox does not take; files of a store are read-only.
    folder = Path(tempfile.mkdtemp(prefix="hive-nix-"))
    try:
        workshop = NixJobRunner(folder, inputs.make(folder))
        said = workshop.relock("missing")
        assert said["ok"], said
        yield workshop
    finally:
        shutil.rmtree(folder, onerror=_writable)


def _writable(act: Callable[[str], None], path: str, _: object) -> None:
    Path(path).parent.chmod(0o755)
    act(path)
