"""What hived does by itself on the change road: sockets, identity, view, configuration, and two
ledger rows.

Beside `plan/actions.py`, which is what it asks the root helper for.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Listen:
    """Open the agent's socket in its door; only peers inside its uid range are heard."""

    uuid: str
    base: int


@dataclass(frozen=True, slots=True)
class Hush:
    """Close the agent's socket and its connections."""

    uuid: str


@dataclass(frozen=True, slots=True)
class ShowIdentity:
    """Replace `identity.json` in the agent's door."""

    uuid: str
    document: dict[str, object]
    mark: int


@dataclass(frozen=True, slots=True)
class ShowView:
    """Bring the symlinks of the agent's `/agents` up to date: these and no others."""

    uuid: str
    links: tuple[tuple[str, str], ...]
    mark: int


@dataclass(frozen=True, slots=True)
class ShowConfig:
    """Have `/run/hive/config` lead to the files of this commit, which must have the hash `nar`."""

    uuid: str
    commit: str
    nar: str


@dataclass(frozen=True, slots=True)
class Renew:
    """Ask for a fresh start of an agent that is to see a repository no more and may hold it."""

    uuid: str


@dataclass(frozen=True, slots=True)
class Forget:
    """Drop the last rows of a destroyed agent; its uid range may be used again."""

    uuid: str


Local = Listen | Hush | ShowIdentity | ShowView | ShowConfig | Renew | Forget
