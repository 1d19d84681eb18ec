"""A folder of texts that the operator wrote, read whole when hived starts.

A folder with a fault has no effect, and the operator gets an alarm; a reload with a fault is
refused.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hive_core.errors import InvalidArgument

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoadedTexts:
    """The texts by name. With a `fault` there are none, and it has an `effect`."""

    texts: Mapping[str, str] = field(default_factory=dict)
    fault: str = ""
    effect: str = ""

    def faults(self) -> list[str]:
        """What the operator has to mend."""
        return [f"{self.effect}: {self.fault}"] if self.fault else []


@dataclass(frozen=True, slots=True)
class TextFolder:
    """`read` returns the texts of a folder, or says by InvalidArgument what is wrong with one.

    `effect`: what a fault means for the agents.
    """

    name: str
    effect: str
    read: Callable[[Path], Mapping[str, str]]

    def load(self, folder: Path) -> LoadedTexts:
        """The texts in the folder; none if it does not exist."""
        try:
            return LoadedTexts(self.read(folder))
        except InvalidArgument as error:
            log.critical("Cannot use the %s: %s", self.name, error)
            return LoadedTexts(fault=str(error), effect=self.effect)

    def faults(self, folder: Path) -> list[str]:
        """Why the folder cannot be used; empty if it can."""
        try:
            self.read(folder)
        except InvalidArgument as error:
            return [str(error)]
        return []


def read_text(path: Path, most: int) -> str:
    """The text of a regular file, which may have so many bytes. It never waits for a writer."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:  # noqa: PTH123 - of a descriptor
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InvalidArgument(f"{path}: is not a regular file")
            data = file.read(most + 1)
        text = data.decode()
    except OSError as error:
        raise InvalidArgument(f"{path}: cannot read the file: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"{path}: not UTF-8 at byte {error.start}") from error
    if len(data) > most:
        raise InvalidArgument(f"{path}: larger than {most} bytes")
    return text
