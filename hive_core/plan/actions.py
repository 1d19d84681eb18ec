"""What hived may ask of the root helper: a closed union of typed actions.

An action names agents, short ids and images; it never carries a path, a flag or a program of the
host. `parse` is the only way from the wire to an action and refuses every unknown key, kind and
type with the name of the field; hived uses `encode`, privd uses `parse`. Each docstring says what
the action does, what privd checks again on the machine, and which value of `plan/results.py` comes
back. Every action is idempotent, so a pass that died half way is simply repeated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass
from enum import StrEnum
from types import UnionType
from typing import Annotated, Any, Final, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from hive_core.model.names import is_short, is_uuid, name_fault, short

# https://systemd.io/UIDS-GIDS: container ranges, and the foreign range that owns agent files.
RANGE: Final = 65536
STORAGE_BASE: Final = 2147352576
AGENT_BASES: Final = range(524288, 1874853888, RANGE)
JOB_BASES: Final = range(1874853888, 1879048192, RANGE)  # 64 throw-away ranges
DEPTH_MAX: Final = 64
COMMAND_MAX: Final = 65536


class Malformed(ValueError):
    """A value that is no action: `field` says where, `reason` why."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field, self.reason = field, reason


class JobKind(StrEnum):
    """What a job container does; later kinds fetch, evaluate and build."""

    PURGE_ARCHIVE = "purge_archive"  # delete the bytes of an archived node
    PURGE_ROOT = "purge_root"  # delete the bytes of a copied root
    COPY_TREE = "copy_tree"  # copy a prepared tree, into a root named like the job


_Check = Callable[[Any], str | None]


def _matcher(pattern: str, reason: str) -> _Check:
    compiled = re.compile(pattern, re.ASCII)
    return lambda value: None if compiled.fullmatch(value) else reason


def _between(low: int, high: int) -> _Check:
    return lambda value: None if low <= value <= high else f"must be {low} to {high}"


def _base(bases: range) -> _Check:
    return lambda value: None if value in bases else "is not the start of a range for this use"


def _path(least: int) -> _Check:
    def fault(value: tuple[str, ...]) -> str | None:
        if not least <= len(value) <= DEPTH_MAX or len(set(value)) != len(value):
            return f"must hold {least} to {DEPTH_MAX} different short ids"
        return None if all(map(is_short, value)) else "must hold short ids of 8 hex digits"

    return fault


def _command(value: tuple[str, ...]) -> str | None:
    if re.search("[\0\ud800-\udfff]", "".join(value)) or (value and not value[0]):
        return "must start with a program and hold neither NUL nor half characters"
    return None if sum(map(len, value)) <= COMMAND_MAX else f"must be within {COMMAND_MAX} letters"


Uuid = Annotated[str, lambda value: None if is_uuid(value) else "is not a UUID"]
Name = Annotated[str, name_fault]
Label = Annotated[str, _matcher(r"[0-9a-z]{1,64}", "must be 1 to 64 of 0-9 and a-z")]
Nonce = Annotated[int, _between(0, 2**63)]
Image = Annotated[str, _matcher(r"[a-z][a-z0-9.-]{0,62}", "is not the name of an image")]
Lineage = Annotated[tuple[str, ...], _path(1)]  # short ids, root first, own id last
SlicePath = Annotated[tuple[str, ...], _path(0)]
AgentBase = Annotated[int, _base(AGENT_BASES)]
JobBase = Annotated[int, _base(JOB_BASES)]
Pid = Annotated[int, _between(2, 2**22)]
Bytes = Annotated[int, _between(2**20, 2**50)]
Weight = Annotated[int, _between(1, 10000)]
Command = Annotated[tuple[str, ...], _command]


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one unit or slice; None leaves the default of the unit, or none for a slice."""

    memory_max: Bytes | None = None
    memory_high: Bytes | None = None
    tasks_max: Annotated[int, _between(4, 2**22)] | None = None
    cpu_weight: Weight | None = None
    cpu_quota: Annotated[int, _between(1, 100_000)] | None = None  # percent of one processor
    io_weight: Weight | None = None


@dataclass(frozen=True, slots=True)
class MakeNode:
    """Make the node directory of an agent, with `state/`, `config/` and `kids/`. -> `Done`

    privd walks from the held descriptor of the tree, follows no symlink, and refuses when the
    parent's node is missing.
    """

    lineage: Lineage


@dataclass(frozen=True, slots=True)
class MoveNode:
    """Rename a node to its new place; running containers see it at once. -> `Done`

    privd checks that the own id stays the same, that nothing is in the way and that no step is
    anything but a real directory. Source gone and target there is success: it was moved before.
    """

    source: Lineage
    target: Lineage


@dataclass(frozen=True, slots=True)
class ArchiveNode:
    """Take the node of a destroyed agent out of the tree, keeping its bytes. -> `Done`

    privd checks that `kids/` is empty and that the UUID belongs to the last short id.
    """

    lineage: Lineage
    uuid: Uuid


@dataclass(frozen=True, slots=True)
class RestoreNode:
    """Put an archived node back into the tree. -> `Done`

    privd checks that nothing is in the way and that the UUID belongs to the last short id.
    """

    uuid: Uuid
    lineage: Lineage


@dataclass(frozen=True, slots=True)
class DropArchive:
    """Remove the empty shell of an archive whose bytes a `purge_archive` job has deleted. -> `Done`

    privd only ever removes empty directories; anything left in them is a refusal.
    """

    uuid: Uuid


@dataclass(frozen=True, slots=True)
class OpenDoor:
    """Make `/run/hive/agents/UUID/{run,view}`, which hived fills and the container sees. -> `Done`

    What is there already stays as it is: a container bound to it would never see a new one.
    """

    uuid: Uuid


@dataclass(frozen=True, slots=True)
class CloseDoor:
    """Remove the door of an agent, with what hived put into it, and its exit record. -> `Done`

    Also takes the UUID of a job, which has only the latter. privd walks by descriptors.
    """

    uuid: Uuid


@dataclass(frozen=True, slots=True)
class AdoptRoot:
    """Give the finished copy of a prepared tree to an agent, as its root. -> `Done`

    `source` is the job that made the copy. privd refuses when the agent has a root already.
    """

    source: Uuid
    uuid: Uuid


@dataclass(frozen=True, slots=True)
class DropRoot:
    """Remove the shell of a copied root that a `purge_root` job has emptied. -> `Done`"""

    uuid: Uuid


@dataclass(frozen=True, slots=True)
class Mount:
    """Mount root and node of an agent, mapped into its range, `nosuid,nodev`. -> `Done`

    The root of the `host` image is made anew in memory; any other image needs the agent's own
    copy (`RunJob` and `AdoptRoot`). What is mounted and right stays, so `Unmount` comes before a
    start. privd opens both by descriptor without following symlinks and refuses a range that
    another agent's mounts use.
    """

    uuid: Uuid
    lineage: Lineage
    base: AgentBase
    image: Image


@dataclass(frozen=True, slots=True)
class Unmount:
    """Detach root and node of an agent, or what a job had mounted, on the host's side. -> `Done`

    A running container keeps what it has. The root of the `host` image is gone with it.
    """

    uuid: Uuid


@dataclass(frozen=True, slots=True)
class StartUnit:
    """Have systemd start the container of an agent; it does not run yet then. -> `Done`

    privd checks that root and node are mounted with exactly this range and that no unit of this
    name is loaded, writes the command to a file of its own, and renders every flag itself. A unit
    that ended is unloaded, however it ended; `/run/hive/exits/UUID` tells. An empty command
    holds. HIVE_NAME, HIVE_PARENT and HIVE_SOCKET are set; the network is private, with only
    loopback.
    """

    uuid: Uuid
    name: Name
    nonce: Nonce
    spec: Label
    base: AgentBase
    slice: SlicePath
    limits: Limits
    image: Image
    boot: bool
    parent: Name | None
    command: Command


@dataclass(frozen=True, slots=True)
class StopUnit:
    """Begin a graceful stop. -> `Done`; privd checks that the unit is this UUID's."""

    uuid: Uuid
    name: Name


@dataclass(frozen=True, slots=True)
class KillUnit:
    """Kill every process of the unit at once. -> `Done`; privd checks that it is this UUID's."""

    uuid: Uuid
    name: Name


@dataclass(frozen=True, slots=True)
class SetSlice:
    """Set the limits of a subtree's slice until the next boot. -> `Done`

    The empty path is the slice of all agents. Limits not named are lifted.
    """

    path: SlicePath
    limits: Limits


@dataclass(frozen=True, slots=True)
class EndHolders:
    """End the processes of an agent that still hold what was moved out of its sight. -> `Ended`

    For agents that cannot mount. privd looks only at processes in the cgroup of this UUID's unit
    and ends those with a descriptor, directory, program or mapping that lies outside of what
    their container shows, until two passes find none.
    """

    uuid: Uuid
    name: Name


@dataclass(frozen=True, slots=True)
class ObserveUnit:
    """Say what only root can see of a running agent. -> `UnitFacts`

    `pid` is the main process as the bus tells it; privd believes it only when its cgroup is that
    of the unit.
    """

    uuid: Uuid
    name: Name
    lineage: Lineage
    base: AgentBase
    pid: Pid


@dataclass(frozen=True, slots=True)
class ObserveStorage:
    """List what is on disk and mounted, whoever it belongs to. -> `StorageFacts`"""


@dataclass(frozen=True, slots=True)
class RunJob:
    """Run one job in a small container: throw-away range, no network, bounded. -> `Done`

    The end is told by `/run/hive/exits/JOB` and the end of `hive-job@JOB.service`; `Unmount(JOB)`
    follows it. `uuid` names the archive or root to purge, `image` the tree to copy. privd refuses
    a root that is mounted, opens everything by descriptor, and takes the path of a prepared tree
    from its own table.
    """

    job: Uuid
    work: JobKind
    base: JobBase
    uuid: Uuid | None = None
    image: Image | None = None


Action = (
    MakeNode | MoveNode | ArchiveNode | RestoreNode | DropArchive | OpenDoor | CloseDoor
    | AdoptRoot | DropRoot | Mount | Unmount | StartUnit | StopUnit | KillUnit | SetSlice
    | EndHolders | ObserveUnit | ObserveStorage | RunJob
)  # fmt: skip


KINDS: Final[dict[str, type[Any]]] = {kind.__name__: kind for kind in get_args(Action)}
T = TypeVar("T")


def parse(value: object) -> Action:
    """Turn decoded JSON into an action, or raise `Malformed`."""
    if not isinstance(value, Mapping) or value.get("kind") not in tuple(KINDS):
        raise Malformed("kind", "is unknown")
    rest = {key: item for key, item in value.items() if key != "kind"}
    action: Action = build(KINDS[value["kind"]], rest)
    match action:
        case ArchiveNode() | RestoreNode() | Mount() | ObserveUnit():
            if action.lineage[-1] != short(action.uuid):
                raise Malformed("lineage", "does not end with the short id of the agent")
        case MoveNode(source=source, target=target):
            if source[-1] != target[-1]:
                raise Malformed("target", "does not keep the agent's own id")
        case RunJob(work=work):
            copies = work is JobKind.COPY_TREE
            if (action.image is not None, action.uuid is not None) != (copies, not copies):
                raise Malformed("work", "a copy takes an image, a purge a UUID")
        case _:
            pass
    return action


def encode(action: Action) -> dict[str, object]:
    """Turn an action into what goes over the wire as JSON."""
    return {"kind": type(action).__name__, **asdict(action)}


def build(kind: type[T], value: object, where: str = "") -> T:
    """Build one dataclass from a decoded object; every field strictly, none unknown or missing."""
    if not isinstance(value, Mapping):
        raise Malformed(where, "must be an object")
    hints, prefix = get_type_hints(kind, include_extras=True), f"{where}." if where else ""
    needed = {field.name for field in fields(kind) if field.default is MISSING}  # type: ignore[arg-type]
    if unknown := value.keys() - hints.keys():
        raise Malformed(f"{prefix}{min(unknown)}", "is unknown")
    if missing := needed - value.keys():
        raise Malformed(f"{prefix}{min(missing)}", "is missing")
    return kind(**{key: _value(hints[key], item, f"{prefix}{key}") for key, item in value.items()})


def _value(hint: Any, value: object, where: str) -> object:  # noqa: ANN401 - an annotation
    """Turn one decoded JSON value into what the annotation asks for."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        built = _value(inner[0], value, where)
        if (reason := inner[1](built)) is not None:
            raise Malformed(where, reason)
        return built
    if origin in (UnionType, Union):  # only `X | None`
        return None if value is None else _value(inner[0], value, where)
    if origin is tuple:
        if not isinstance(value, list | tuple) or len(value) != (
            len(value) if inner[-1] is ... else len(inner)
        ):
            raise Malformed(where, "must be a list of the right length")
        return tuple(_value(inner[0], item, where) for item in value)
    return (build if is_dataclass(hint) else _scalar)(hint, value, where)


def _scalar(kind: type[T], value: object, where: str) -> T:
    if issubclass(kind, StrEnum) and value in tuple(kind):
        return kind(cast("str", value))
    if type(value) is not kind:  # exact: True is no int
        raise Malformed(where, f"must be of type {kind.__name__}")
    return value
