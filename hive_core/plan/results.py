"""Encodes actions for the root helper, and decodes its results."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from hive_core.plan.actions import Action, ObserveStorage, ObserveUnit
from hive_core.plan.fields import build


@dataclass(frozen=True, slots=True)
class Done:
    """The requested state is reached; `changed`: it was not before."""

    changed: bool


@dataclass(frozen=True, slots=True)
class UnitFacts:
    """What root sees of a running agent.

    `ours`: the main process is in the unit's cgroup. `mapped`: its container's user namespace is
    exactly the range. `payload`: it may execute, because its limits are set. `tree`: `/tree` in the
    container is the agent's node. If these four hold and systemd calls the unit active, the agent
    runs. `leader` is the container's first process, 0 while there is none.
    """

    ours: bool
    mapped: bool
    payload: bool
    tree: bool
    leader: int


@dataclass(frozen=True, slots=True)
class StorageFacts:
    """What exists: lineages of nodes; UUIDs of agents and jobs for everything else."""

    nodes: tuple[tuple[str, ...], ...]
    archives: tuple[str, ...]
    roots: tuple[str, ...]
    mounts: tuple[str, ...]
    socket_directories: tuple[str, ...]


Result = Done | UnitFacts | StorageFacts
_OTHERS: Final[dict[type[Any], type[Any]]] = {
    ObserveUnit: UnitFacts,
    ObserveStorage: StorageFacts,
}


def encode(action: Action) -> dict[str, object]:
    """Turn an action into its JSON object on the wire."""
    return {"kind": type(action).__name__, **asdict(action)}


def read(action: Action, reply: object) -> Result:
    """Turn the reply to `action` into its result, or raise `Malformed`."""
    result: Result = build(_OTHERS.get(type(action), Done), reply)
    return result
