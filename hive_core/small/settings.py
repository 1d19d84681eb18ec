"""Which file of weights to load, and how: from models.toml.

hived and hive-model validate the whole file; only the provider of kind `gguf` matters here.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CONTEXT: Final = 4096  # tokens; each 1000 of the embedded model take 23 MB
_CONTEXT_MOST: Final = 1 << 20
_THREADS_MOST: Final = 256


class BadSettings(ValueError):
    """A models.toml that names no usable model; the text is the reason."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    path: Path | None = None  # None: the weights that hive installs
    context: int = CONTEXT
    threads: int = 1  # one is as fast as several on a busy machine


def read_settings(file: Path) -> EngineSettings:
    """The settings in this file; those of the embedded model if there is none."""
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return EngineSettings()
    except (OSError, ValueError, RecursionError) as error:
        raise BadSettings(f"cannot read {file}: {error}") from error
    return settings_of(tables)


def settings_of(tables: dict[str, object]) -> EngineSettings:
    """The settings in the tables of the file."""
    if not tables.keys() & {"providers", "models"}:
        return EngineSettings()
    providers = {
        name: entry
        for name, entry in _entries(tables, "providers").items()
        if entry.get("kind") == "gguf"
    }
    if not providers:
        raise BadSettings("models.toml has no provider of kind gguf")
    name, provider = next(iter(providers.items()))
    path = provider.get("path")
    contexts = [
        _number(model, "context", CONTEXT, _CONTEXT_MOST)
        for model in _entries(tables, "models").values()
        if model.get("provider") == name
    ]
    return EngineSettings(
        path=None if path is None else Path(str(path)),
        context=max(contexts, default=CONTEXT),
        threads=_number(provider, "threads", 1, _THREADS_MOST),
    )


def _entries(tables: dict[str, object], name: str) -> dict[str, dict[str, object]]:
    table = tables.get(name)
    entries = table if isinstance(table, dict) else {}
    return {key: entry for key, entry in entries.items() if isinstance(entry, dict)}


def _number(table: dict[str, object], key: str, default: int, most: int) -> int:
    value = table.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise BadSettings(f"models.toml: {key} must be a number from 1 to {most}")
    return value
