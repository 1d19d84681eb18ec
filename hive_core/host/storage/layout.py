"""Versions of the storage layout, and their migration before any store is opened.

The file `layout` in the daemon's home holds the current version. Each step can be repeated, and the
version is written after it, so a daemon continues where a killed one stopped. An unknown version
belongs to a newer daemon: nothing is changed then.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from hive_core.errors import Internal, StorageFull
from hive_core.host.git import gitfolder
from hive_core.host.git.file_writer import put
from hive_core.host.git.permissions import make_private
from hive_core.host.storage.disk import FULL
from hive_core.ledger.core.connection import TooNew
from hive_core.model.config.settings import Paths

log = logging.getLogger(__name__)
STORAGE, LEDGER = "storage", "ledger"
_MOST: Final = 1000  # bytes of the marker


def _create_first(paths: Paths) -> None:
    """The tree, the meta repository and the ledger are created by their own modules."""


def _make_work_private(paths: Paths) -> None:
    """Make the exchange folder of jobs and the secrets accessible to the daemon only."""
    for folder in (paths.work, paths.secrets):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)


def _make_repositories_private(paths: Paths) -> None:
    """Make the repositories accessible to the daemon only, with settings written by the daemon."""
    for folder, repositories, config in (
        (paths.meta, [paths.meta / ".git"], gitfolder.WORK_CONFIG),
        (paths.applied, [*paths.applied.glob("**/*.git")], gitfolder.BARE_CONFIG),
    ):
        if folder.is_dir():
            make_private(folder)
        for repository in repositories:
            if repository.is_dir() and not repository.is_symlink():
                put(repository / "config", config)
                shutil.rmtree(repository / "hooks", ignore_errors=True)


# Forward only: a released step is never changed; new steps are appended.
STEPS: Final[tuple[tuple[str, Callable[[Paths], None]], ...]] = (
    ("tree, meta repository and ledger", _create_first),
    ("folders for jobs and for secrets", _make_work_private),
    ("repositories that only hived may enter", _make_repositories_private),
)


def no_step(step: str) -> None:
    """The default for `step`: do nothing. Tests end the process there."""


def read(marker: Path) -> dict[str, int]:
    """The versions in the marker file; empty if there is none, as in the first version."""
    try:
        with marker.open(encoding="utf-8") as file:
            lines = [line.split() for line in file.read(_MOST).splitlines()]
        return {word: int(number) for word, number in lines}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise Internal(f"cannot read {marker}: {error}") from error


def migrate(paths: Paths, step: Callable[[str], None] = no_step) -> None:
    """Bring the storage up to date. TooNew if its version is higher than the known ones."""
    said = read(paths.layout)
    at = said.get(STORAGE, 0)
    if at > len(STEPS):
        reason = f"the storage has layout {at}, but this hived knows only {len(STEPS)}"
        raise TooNew(f"{reason}: install the newer version again")
    for number, (step_name, bring) in enumerate(STEPS[at:], at + 1):
        try:
            bring(paths)
            step(f"done {number}")
            _write(paths.layout, {**said, STORAGE: number}, step)
        except OSError as error:
            raise _refusal(error, f"layout {number}") from error
        step(f"written {number}")
        log.info("Storage: %d, %s", number, step_name)


def note(paths: Paths, ledger: int) -> None:
    """Write the ledger's schema version beside, for operators. The ledger itself decides."""
    said = read(paths.layout)
    if said.get(LEDGER) != ledger:
        try:
            _write(paths.layout, {**said, LEDGER: ledger}, no_step)
        except OSError as error:
            raise _refusal(error, paths.layout.name) from error


def _write(marker: Path, said: Mapping[str, int], step: Callable[[str], None]) -> None:
    """Replace the marker in one step, so that readers see the old or the new versions."""
    new = marker.with_name(f".{marker.name}.new")
    with new.open("w", encoding="utf-8") as file:
        file.writelines(f"{word} {number}\n" for word, number in said.items())
        file.flush()
        os.fsync(file.fileno())
    new.chmod(0o644)
    step("beside")
    new.rename(marker)
    folder = os.open(marker.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _refusal(error: OSError, action: str) -> Internal | StorageFull:
    kind = StorageFull if error.errno in FULL else Internal
    return kind(f"cannot write {action}: {error.strerror}")
