"""How what is kept lies on the disk: numbered, and brought up to date before any of it is opened.

`layout` in the daemon's home says how far it is. Every step may be done twice, and the number is
written after it, so a daemon that was killed in between goes on. A number that is not known yet is
a newer daemon's: nothing is touched then.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from hive_core.errors import Internal, StorageFull
from hive_core.host.git import create, gitfolder
from hive_core.host.git.file_writer import put
from hive_core.host.git.permissions import make_private
from hive_core.host.storage.disk import FULL
from hive_core.ledger.core.connection import TooNew
from hive_core.model.config.settings import Paths

log = logging.getLogger(__name__)
STORAGE, LEDGER = "storage", "ledger"
_MOST: Final = 1000  # bytes of the marker


def _create_first(paths: Paths) -> None:
    """Tree, meta repository, ledger: each is made by whoever owns it."""


def _make_work_private(paths: Paths) -> None:
    """What hived and its jobs hand each other, and the secrets, are nobody else's to look at."""
    for folder in (paths.work, paths.secrets):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)


def _make_repositories_private(paths: Paths) -> None:
    """Nobody else's git enters the repositories any more, and their settings are ours."""
    for folder, repositories, config in (
        (paths.meta, [paths.meta / ".git"], create.CONFIG),
        (paths.applied, [*paths.applied.glob("**/*.git")], gitfolder.CONFIG),
    ):
        if folder.is_dir():
            make_private(folder)
        for repository in repositories:
            if repository.is_dir() and not repository.is_symlink():
                put(repository / "config", config)
                shutil.rmtree(repository / "hooks", ignore_errors=True)


# Forward only: a step that was released is never changed, and new ones go to the end.
STEPS: Final[tuple[tuple[str, Callable[[Paths], None]], ...]] = (
    ("tree, meta repository and ledger", _create_first),
    ("folders for jobs and for secrets", _make_work_private),
    ("repositories that only hived may enter", _make_repositories_private),
)


def no_step(step: str) -> None:
    """Where a test may end the process; here it goes on."""


def read(marker: Path) -> dict[str, int]:
    """What the marker says; nothing where there is none, as before there were any."""
    try:
        with marker.open(encoding="utf-8") as file:
            lines = [line.split() for line in file.read(_MOST).splitlines()]
        return {word: int(number) for word, number in lines}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise Internal(f"cannot read {marker}: {error}") from error


def migrate(paths: Paths, step: Callable[[str], None] = no_step) -> None:
    """Bring the storage up to date; TooNew when it is ahead of us."""
    said = read(paths.layout)
    at = said.get(STORAGE, 0)
    if at > len(STEPS):
        reason = f"the storage has layout {at} and this hived knows {len(STEPS)}"
        raise TooNew(f"{reason}: install the newer one again")
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
    """Write down the schema of the ledger beside, for people; it is the ledger that decides."""
    said = read(paths.layout)
    if said.get(LEDGER) != ledger:
        try:
            _write(paths.layout, {**said, LEDGER: ledger}, no_step)
        except OSError as error:
            raise _refusal(error, paths.layout.name) from error


def _write(marker: Path, said: Mapping[str, int], step: Callable[[str], None]) -> None:
    """As a whole: a reader, and who comes after a crash, finds the old numbers or the new ones."""
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
