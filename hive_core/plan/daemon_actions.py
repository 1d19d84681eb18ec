"""Actions of the change path that hived does itself: sockets, identity, view, configuration, and
two ledger rows.

`plan/actions.py` has the actions that hived asks the root helper for.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Listen:
    """Open the agent's socket in its socket directory; it accepts peers of its uid range only."""

    uuid: str
    base: int


@dataclass(frozen=True, slots=True)
class StopListening:
    """Close the agent's socket and its connections."""

    uuid: str


@dataclass(frozen=True, slots=True)
class ShowIdentity:
    """Replace `identity.json` in the agent's socket directory."""

    uuid: str
    document: dict[str, object]
    mark: int


@dataclass(frozen=True, slots=True)
class ShowView:
    """Make the symlinks in the agent's `/agents` exactly these."""

    uuid: str
    links: tuple[tuple[str, str], ...]
    mark: int


@dataclass(frozen=True, slots=True)
class ShowConfig:
    """Point `/run/hive/config` at the files of this commit, which must have the hash `nar`."""

    uuid: str
    commit: str
    nar: str


@dataclass(frozen=True, slots=True)
class RequestRestart:
    """Request a restart of an agent that lost access to a repository and may still hold it."""

    uuid: str


@dataclass(frozen=True, slots=True)
class Forget:
    """Delete the last rows of a destroyed agent; its uid range may be used again."""

    uuid: str


DaemonAction = (
    Listen | StopListening | ShowIdentity | ShowView | ShowConfig | RequestRestart | Forget
)
