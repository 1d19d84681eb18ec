"""Files of a service beside hived: its credentials, its table of hive.toml, its state."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

from hive_core.errors import InvalidArgument


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
