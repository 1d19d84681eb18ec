"""`/etc/hive/prompts`: the operator's own prompts, read once, when hived starts.

They are in the place of the shipped files of the same name. A folder with a fault has no effect,
and the operator gets an alarm; a reload with a fault is refused.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hive_core.errors import InvalidArgument
from hive_core.model.config.prompts import check_prompt_file

log = logging.getLogger(__name__)
PROMPTS: Final = "prompts"
FILES_MOST: Final = 64
BYTES_MOST: Final = 128 << 10


@dataclass(frozen=True, slots=True)
class LoadedPrompts:
    """The texts by file name, such as `roles/worker.md`. With a `fault` there are none."""

    texts: Mapping[str, str] = field(default_factory=dict)
    fault: str = ""

    def faults(self) -> list[str]:
        """What the operator has to mend."""
        return [f"the prompts of hive are used without yours: {self.fault}"] if self.fault else []


def load_prompts(folder: Path) -> LoadedPrompts:
    """The prompts in the folder; none if it does not exist."""
    try:
        return LoadedPrompts(_read_folder(folder))
    except InvalidArgument as error:
        log.critical("Cannot use the prompts: %s", error)
        return LoadedPrompts(fault=str(error))


def prompts_faults(folder: Path) -> list[str]:
    """Why the folder cannot be used; empty if it can."""
    try:
        _read_folder(folder)
    except InvalidArgument as error:
        return [str(error)]
    return []


def _read_folder(folder: Path) -> dict[str, str]:
    texts: dict[str, str] = {}
    left = BYTES_MOST
    for path in _files_of(folder):
        name = path.relative_to(folder).as_posix()
        text = _read_file(path)
        check_prompt_file(name, text)
        left -= len(text.encode())
        if left < 0:
            raise InvalidArgument(f"{folder}: has more than {BYTES_MOST} bytes of prompts")
        texts[name] = text
    return texts


def _files_of(folder: Path) -> list[Path]:
    """The files of the folder, by name."""
    try:
        paths = sorted(path for path in folder.rglob("*") if not path.is_dir())
    except OSError as error:
        raise InvalidArgument(f"{folder}: cannot read the folder: {error.strerror}") from error
    if len(paths) > FILES_MOST:
        raise InvalidArgument(f"{folder}: has more than {FILES_MOST} files")
    return paths


def _read_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(BYTES_MOST + 1).decode()
    except OSError as error:
        raise InvalidArgument(f"{path}: cannot read the file: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"{path}: not UTF-8 at byte {error.start}") from error
