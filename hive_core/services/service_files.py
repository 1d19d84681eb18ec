"""Files of a service beside hived: its credentials, its table of hive.toml, its state."""

from __future__ import annotations

import logging
import os
import tomllib
from pathlib import Path
from typing import Generic, Protocol, Self, TypeVar

from hive_core.errors import InvalidArgument

log = logging.getLogger(__name__)


class StoredState(Protocol):
    """What a service keeps from one run to the next; a new one is empty."""

    def __init__(self) -> None: ...

    @classmethod
    def model_validate_json(cls, data: bytes, /) -> Self:
        """The state in JSON; ValueError: it is not one."""
        ...

    def model_dump_json(self) -> str: ...


State = TypeVar("State", bound=StoredState)


class ServiceStateFile(Generic[State]):
    """The state of a service on disk; a write is whole or not there."""

    def __init__(self, path: Path, kind: type[State]) -> None:
        self._path, self._kind = path, kind
        self._has_failed = False

    def load(self) -> State:
        """The stored state; an empty one where none is there or it is damaged."""
        try:
            return self._kind.model_validate_json(self._path.read_bytes())
        except FileNotFoundError:
            return self._kind()
        except (OSError, ValueError) as error:
            log.error("Cannot read %s, begin anew: %s", self._path, error)  # noqa: TRY400 - one line
            return self._kind()

    def save(self, state: State) -> bool:
        """Write the state; return whether it is on disk.

        A full disk ends no service: it goes on, and writes its next state.
        """
        try:
            replace_file(self._path, state.model_dump_json().encode())
        except OSError as error:
            if not self._has_failed:
                log.error("Cannot write %s: %s", self._path, error)  # noqa: TRY400 - one line
            self._has_failed = True
            return False
        self._has_failed = False
        return True


def read_credential(name: str) -> str:
    """A systemd credential; empty where there is none."""
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    if not folder:
        return ""
    try:
        return (Path(folder) / name).read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""


def read_settings(path: Path, table: str) -> dict[str, object]:
    """The settings of this host, for the service of this table; none without a file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"cannot read {path}: {error}", field=table) from error


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file atomically."""
    beside = path.with_suffix(".new")
    with beside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
