"""`/etc/hive/hive.toml`, read once."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from hive_core.errors import InvalidArgument
from hive_core.model.settings import Settings

FILE: Final = Path("/etc/hive/hive.toml")


def load(path: Path = FILE) -> Settings:
    """The settings; all defaults when there is no file. InvalidArgument names the wrong key."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Settings()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"cannot read {path}: {error}", field=str(path)) from error
    try:
        return Settings.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise InvalidArgument(f"cannot read {path}: {error}", field=str(path)) from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise InvalidArgument(f"cannot use {path}: {key}: {first['msg']}", field=key) from error
