"""`[subagents]` of agent.toml, as the session reads it. hive.toml and the daemon bound it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hive_core.agent.session.settings_table import (
    Reader,
    number,
    read_agent_table,
    read_switch,
    read_values,
    word,
)
from hive_core.errors import NotAllowed

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
        return cls.of(read_agent_table(file, TABLE))

    @classmethod
    def of(cls, table: Mapping[str, object]) -> ForkSettings:
        """The settings in a parsed table."""
        return cls(**read_values(TABLE, table, _READERS))  # type: ignore[arg-type]  # readers know the types

    @property
    def disabled(self) -> frozenset[str]:
        """The tools that a clone may not call."""
        return frozenset(name.removeprefix(HIDE) for name in self.clone_disable_tools)

    @property
    def hidden(self) -> frozenset[str]:
        """The disabled tools that are also hidden from a clone."""
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


_READERS: Final[Mapping[str, Reader]] = {
    "enabled": read_switch, "agents_dir": _folder,
    "max_depth": number(1, _DEPTH_MOST), "ipc_mode": _mode,
    "default_model": word(_ALIAS, "the alias of a model"),
    "timeout_seconds": number(1, _SECONDS_MOST), "cleanup_temp_files": read_switch,
    "allow_clones": read_switch, "max_clone_fork_depth": number(0, _DEPTH_MOST),
    "clone_sysprompt_followup": _text, "clone_userprompt_prefix": _text,
    "clone_disable_tools": _bans,
}  # fmt: skip
