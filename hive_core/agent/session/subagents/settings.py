"""`[subagents]` of agent.toml, as the session reads it. hive.toml and the daemon bound it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hive_core.errors import InvalidArgument, NotAllowed

TABLE: Final = "subagents"
HIDE: Final = "hide:"
_TEXT_MOST: Final = 16_384
_DEPTH_MOST: Final = 16
_SECONDS_MOST: Final = 86_400
_BANS_MOST: Final = 128
_ALIAS: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}|", re.ASCII)
_FOLDER: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/-]{0,199}", re.ASCII)
_BAN: Final = re.compile(r"(hide:)?[a-z][a-z0-9_]{0,63}", re.ASCII)


@dataclass(frozen=True, slots=True)
class ForkSettings:
    """The settings; a text that is absent is empty."""

    enabled: bool = True
    agents_dir: str = "agents"
    max_depth: int = 3
    ipc_mode: str = "artifact"
    default_model: str = ""
    timeout_seconds: int = 300
    cleanup_temp_files: bool = True
    allow_clones: bool = True
    max_clone_fork_depth: int = 1
    clone_sysprompt_followup: str = ""
    clone_userprompt_prefix: str = ""
    clone_disable_tools: tuple[str, ...] = ()

    @classmethod
    def read(cls, file: Path) -> ForkSettings:
        """The settings in the deployed configuration; InvalidArgument names a wrong key."""
        try:
            table = tomllib.loads(file.read_text()).get(TABLE, {})
        except FileNotFoundError:
            return cls()
        except (OSError, ValueError) as error:
            raise InvalidArgument(f"cannot read {file}: {error}", field=TABLE) from None
        return cls.of(table)

    @classmethod
    def of(cls, table: object) -> ForkSettings:
        """The settings in a parsed table."""
        if not isinstance(table, dict):
            raise InvalidArgument(f"[{TABLE}] is not a table", field=TABLE)
        values = {key: _read_value(key, value) for key, value in table.items()}
        return cls(**values)  # type: ignore[arg-type]  # _read_value knows the types

    @property
    def disabled(self) -> frozenset[str]:
        """The tools that a clone may not call."""
        return frozenset(name.removeprefix(HIDE) for name in self.clone_disable_tools)

    @property
    def hidden(self) -> frozenset[str]:
        """Those of them that a clone does not see either."""
        return frozenset(
            name.removeprefix(HIDE) for name in self.clone_disable_tools if name.startswith(HIDE)
        )

    def check_fork(self, *, is_clone: bool, depth: int, clone_depth: int) -> None:
        """Raise NotAllowed, which names the key, where no sub-agent may be forked.

        `depth` and `clone_depth` are those of the caller, as the daemon wrote them.
        """
        if not self.enabled:
            raise _refusal("enabled", "the configuration says enabled = false")
        if is_clone and not self.allow_clones:
            raise _refusal("allow_clones", "the configuration says allow_clones = false")
        if is_clone and clone_depth >= self.max_clone_fork_depth:
            raise _refusal(
                "max_clone_fork_depth",
                f"your clone depth is {clone_depth}, and max_clone_fork_depth is"
                f" {self.max_clone_fork_depth}",
            )
        if depth >= self.max_depth:
            raise _refusal("max_depth", f"your depth is {depth}, and max_depth is {self.max_depth}")


def _refusal(key: str, why: str) -> NotAllowed:
    return NotAllowed(f"cannot fork a sub-agent: {why}", rule=f"{TABLE}.{key}")


def _read_value(key: str, value: object) -> object:
    reader = _READERS.get(key)
    if reader is None:
        raise InvalidArgument(
            f"[{TABLE}] has no setting {str(key)[:64]!r}; it has {', '.join(_READERS)}",
            field=str(key)[:64],
        )
    try:
        return reader(value)
    except ValueError as error:
        raise InvalidArgument(f"[{TABLE}] {key} {error}", field=key) from None


def _is_true(value: object) -> bool:
    if value is not True and value is not False:
        raise ValueError("must be true or false")
    return value


def _number(low: int, high: int) -> Callable[[object], int]:
    def read(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise ValueError(f"must be a number from {low} to {high}")
        return value

    return read


def _word(pattern: re.Pattern[str], meaning: str) -> Callable[[object], str]:
    def read(value: object) -> str:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise ValueError(f"must be {meaning}")
        return value

    return read


def _folder(value: object) -> str:
    if not isinstance(value, str) or not _FOLDER.fullmatch(value) or ".." in value.split("/"):
        raise ValueError("must be a folder of the configuration")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= _TEXT_MOST:
        raise ValueError(f"must be a text of 1 to {_TEXT_MOST} characters")
    return value


def _mode(value: object) -> str:
    if value != "artifact":
        raise ValueError('must be "artifact"')
    return "artifact"


def _bans(value: object) -> tuple[str, ...]:
    rows = value if isinstance(value, list) else [None]
    if len(rows) > _BANS_MOST or not all(isinstance(it, str) and _BAN.fullmatch(it) for it in rows):
        raise ValueError(f"must be a list of at most {_BANS_MOST} tools, as NAME or {HIDE}NAME")
    return tuple(rows)


_READERS: Final[Mapping[str, Callable[[object], object]]] = {
    "enabled": _is_true, "agents_dir": _folder,
    "max_depth": _number(1, _DEPTH_MOST), "ipc_mode": _mode,
    "default_model": _word(_ALIAS, "the alias of a model"),
    "timeout_seconds": _number(1, _SECONDS_MOST), "cleanup_temp_files": _is_true,
    "allow_clones": _is_true, "max_clone_fork_depth": _number(0, _DEPTH_MOST),
    "clone_sysprompt_followup": _text, "clone_userprompt_prefix": _text,
    "clone_disable_tools": _bans,
}  # fmt: skip
