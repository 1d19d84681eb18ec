"""What hived may ask of the root helper: a closed union of typed actions, and what comes back.

An action names agents, short ids and images; it never carries a path, a flag or a program of the
host. `parse` is the only way from the wire to an action and refuses every unknown key, kind and
type with the name of the field; hived uses `encode`, privd uses `parse`. Each docstring says what
the action does and what privd checks again on the machine. Every action is idempotent, so a pass
that died half way is simply repeated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

from hive_core.model.names import is_short, is_uuid, name_fault, short

# https://systemd.io/UIDS-GIDS: container ranges, and the foreign range that owns agent files.
RANGE: Final = 65536
STORAGE_BASE: Final = 2147352576
AGENT_BASES: Final = range(524288, 1874853888, RANGE)
JOB_BASES: Final = range(1874853888, 1879048192, RANGE)  # 64 throw-away ranges
DEPTH_MAX: Final = 64


class Malformed(ValueError):
    """A value that is no action: `field` says where, `reason` why."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


class Network(StrEnum):
    """How an agent reaches the network."""

    NONE = "none"  # a private namespace with only loopback


class JobKind(StrEnum):
    """What a job container does; later kinds fetch, evaluate and build."""

    PURGE_ARCHIVE = "purge_archive"  # delete the bytes of an archived node
    COPY_TREE = "copy_tree"  # copy a prepared tree into the agent's root


def _matcher(pattern: str, reason: str) -> Callable[[Any], str | None]:
    compiled = re.compile(pattern, re.ASCII)
    return lambda value: None if compiled.fullmatch(value) else reason


def _between(low: int, high: int) -> Callable[[Any], str | None]:
    return lambda value: None if low <= value <= high else f"must be {low} to {high}"


def _base(bases: range) -> Callable[[Any], str | None]:
    return lambda value: None if value in bases else "is not the start of a range for this use"


def _path(least: int) -> Callable[[Any], str | None]:
    def fault(value: Any) -> str | None:
        if not least <= len(value) <= DEPTH_MAX:
            return f"must hold {least} to {DEPTH_MAX} short ids"
        if not all(is_short(part) for part in value) or len(set(value)) != len(value):
            return "must be different short ids of 8 hex digits"
        return None

    return fault


def _command(value: Any) -> str | None:
    if any("\0" in word for word in value):
        return "must not contain NUL"
    if value and not value[0]:
        return "must start with a program"
    return None if sum(map(len, value)) <= 65536 else "is longer than 65536 characters"


def _environment(value: Any) -> str | None:
    if len(dict(value)) != len(value):
        return "names a variable twice"
    for key, text in value:
        if not re.fullmatch(r"HIVE_[A-Z0-9_]{1,40}", key, re.ASCII):
            return "may only set HIVE_* variables"
        if not text.isprintable() or len(text) > 4096:
            return "must be printable and at most 4096 characters"
    return None


Uuid = Annotated[str, lambda value: None if is_uuid(value) else "is not a UUID"]
Name = Annotated[str, name_fault]
Label = Annotated[str, _matcher(r"[0-9a-z]{1,64}", "must be 1 to 64 of 0-9 and a-z")]
Image = Annotated[str, _matcher(r"[a-z][a-z0-9.-]{0,62}", "is not the name of an image")]
Lineage = Annotated[tuple[str, ...], _path(1)]  # short ids, root first, own id last
SlicePath = Annotated[tuple[str, ...], _path(0)]
AgentBase = Annotated[int, _base(AGENT_BASES)]
JobBase = Annotated[int, _base(JOB_BASES)]
Pid = Annotated[int, _between(2, 2**22)]
Bytes = Annotated[int, _between(2**20, 2**50)]
Weight = Annotated[int, _between(1, 10000)]
Command = Annotated[tuple[str, ...], _command]
Environment = Annotated[tuple[tuple[str, str], ...], _environment]


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
    """Make the node directory of an agent, with `state/`, `config/` and `kids/`. -> Done

    privd walks from the held descriptor of the tree, follows no symlink, and refuses when the
    parent's node is missing.
    """

    lineage: Lineage


@dataclass(frozen=True, slots=True)
class MoveNode:
    """Rename a node to its new place; running containers see it at once. -> Done

    privd checks that the own id stays the same, that the target does not lie below the source,
    that nothing is in the way (rename without replacement), and that both are real directories.
    Source gone and target there is success: it was moved before.
    """

    source: Lineage
    target: Lineage


@dataclass(frozen=True, slots=True)
class ArchiveNode:
    """Take the node of a destroyed agent out of the tree, keeping its bytes. -> Done

    privd checks that `kids/` is empty and that the UUID belongs to the last short id.
    """

    lineage: Lineage
    uuid: Uuid


@dataclass(frozen=True, slots=True)
class RestoreNode:
    """Put an archived node back into the tree. -> Done

    privd checks that nothing is in the way and that the UUID belongs to the last short id.
    """

    uuid: Uuid
    lineage: Lineage


@dataclass(frozen=True, slots=True)
class DropArchive:
    """Remove the empty shell of an archive whose bytes a `purge_archive` job has deleted. -> Done

    privd only ever removes empty directories; anything left in them is a refusal.
    """

    uuid: Uuid


@dataclass(frozen=True, slots=True)
class OpenDoor:
    """Make `/run/hive/agents/UUID/{run,view}`, which hived fills and the container sees. -> Done

    What is there already stays as it is: a container bound to it would never see a new one.
    """

    uuid: Uuid


@dataclass(frozen=True, slots=True)
class CloseDoor:
    """Remove the door of an agent and what hived put into it. -> Done

    privd removes plain entries one level deep by descriptor, and refuses while the agent's root
    is mounted (the agent may still run).
    """

    uuid: Uuid


@dataclass(frozen=True, slots=True)
class MakeRoot:
    """Make the root directory of an agent. -> Done

    The `host` image is generated anew each time. A prepared tree is copied by a job once: privd
    looks its path up in its own table, never in the message, and refuses while no copy exists.
    Refused while the agent's root is mounted.
    """

    uuid: Uuid
    image: Image
    boot: bool


@dataclass(frozen=True, slots=True)
class DropRoot:
    """Remove the generated root of an agent, or the shell of an emptied copy. -> Done"""

    uuid: Uuid


@dataclass(frozen=True, slots=True)
class Mount:
    """Mount root and node of an agent, mapped into its range, `nosuid,nodev`. -> Done

    privd opens both by descriptor without following symlinks, checks that the node belongs to
    the UUID, and replaces mounts that show another directory or another range.
    """

    uuid: Uuid
    lineage: Lineage
    base: AgentBase


@dataclass(frozen=True, slots=True)
class Unmount:
    """Detach root and node of an agent on the host's side. -> Done

    A running container keeps what it has; a stopped one must have none.
    """

    uuid: Uuid


@dataclass(frozen=True, slots=True)
class StartUnit:
    """Start the container of an agent; returns when systemd has the job, not when it runs. -> Done

    privd checks that the door is there and that root and node are mounted with exactly this
    range, that no other agent runs with it, and that no unit of this name is loaded for another
    UUID; it resets a failed one, writes the command to a file of its own, and renders every flag
    itself. `environment` is added to HIVE_NAME, HIVE_PARENT and HIVE_SOCKET, which privd sets.
    An empty command holds.
    """

    uuid: Uuid
    name: Name
    nonce: Label
    spec: Label
    base: AgentBase
    slice: SlicePath
    limits: Limits
    boot: bool
    parent: Name | None
    command: Command
    environment: Environment = ()
    network: Network = Network.NONE


@dataclass(frozen=True, slots=True)
class StopUnit:
    """Begin a graceful stop. -> Done; privd checks that the unit is this UUID's."""

    uuid: Uuid
    name: Name


@dataclass(frozen=True, slots=True)
class KillUnit:
    """Kill every process of the unit at once. -> Done; privd checks that it is this UUID's."""

    uuid: Uuid
    name: Name


@dataclass(frozen=True, slots=True)
class ResetUnit:
    """Forget a failed unit. -> Done; privd checks that it is this UUID's."""

    uuid: Uuid
    name: Name


@dataclass(frozen=True, slots=True)
class SetSlice:
    """Set the limits of a subtree's slice until the next boot. -> Done

    The empty path is the slice of all agents. Limits not named are lifted.
    """

    path: SlicePath
    limits: Limits


@dataclass(frozen=True, slots=True)
class EndHolders:
    """End the processes of an agent that still hold what was moved out of its sight. -> Ended

    For agents that cannot mount. privd looks only at processes in the cgroup of this UUID's unit
    and ends those with a descriptor, directory, program or mapping that lies outside of what
    their container shows, until two passes find none.
    """

    uuid: Uuid
    name: Name


@dataclass(frozen=True, slots=True)
class ObserveUnit:
    """Say what only root can see of a running agent. -> UnitFacts

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
    """List what is on disk and mounted, whoever it belongs to. -> StorageFacts"""


@dataclass(frozen=True, slots=True)
class RunJob:
    """Run one job in a small container: throw-away range, no network, bounded. -> Done

    The end is told by `/run/hive/exits/JOB` and the end of `hive-job@JOB.service`. privd refuses
    while the agent's root is mounted, opens everything by descriptor, and takes the path of a
    prepared tree from its own table.
    """

    job: Uuid
    kind: JobKind
    uuid: Uuid
    base: JobBase
    image: Image | None = None


@dataclass(frozen=True, slots=True)
class GiveBackMeta:
    """Return what root left in the meta repository to hived's user. -> Done

    By descriptor, directories and plain files with one link only, nothing outside of it.
    """


Action = (
    MakeNode | MoveNode | ArchiveNode | RestoreNode | DropArchive | OpenDoor | CloseDoor
    | MakeRoot | DropRoot | Mount | Unmount | StartUnit | StopUnit | KillUnit | ResetUnit
    | SetSlice | EndHolders | ObserveUnit | ObserveStorage | RunJob | GiveBackMeta
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Done:
    """The state asked for is there; `changed` tells whether it was not before."""

    changed: bool


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that was ended, and the kind of link (`fd`, `cwd`, `map_files`...) that told."""

    pid: int
    command: str
    link: str


@dataclass(frozen=True, slots=True)
class Ended:
    """What `EndHolders` ended, and how many passes it took."""

    holders: tuple[Holder, ...]
    passes: int


@dataclass(frozen=True, slots=True)
class UnitFacts:
    """What root sees of a running agent; `running` needs the first four, `moved` wants a restart.

    `ours`: the main process is in the unit's cgroup. `mapped`: its container's user namespace is
    exactly the range. `payload`: the payload was really executed. `rooted`: the container's `/`
    and `/tree` show this agent's directories. `leader` is the container's first process, 0 if
    there is none. `mounted`: the host's side of both mounts is there and right.
    """

    ours: bool
    mapped: bool
    payload: bool
    rooted: bool
    mounted: bool
    leader: int


@dataclass(frozen=True, slots=True)
class StorageFacts:
    """What is there: lineages of nodes, UUIDs of everything else."""

    nodes: tuple[tuple[str, ...], ...]
    archives: tuple[str, ...]
    roots: tuple[str, ...]
    mounts: tuple[str, ...]
    doors: tuple[str, ...]


Result = Done | Ended | UnitFacts | StorageFacts

KINDS: Final[dict[str, type[Any]]] = {kind.__name__: kind for kind in get_args(Action)}
RESULTS: Final[dict[str, type[Any]]] = {kind.__name__: kind for kind in get_args(Result)}
_NESTED: Final[tuple[type[Any], ...]] = (Limits, Holder)
_HINTS: Final = {
    kind: get_type_hints(kind, include_extras=True)
    for kind in (*KINDS.values(), *RESULTS.values(), *_NESTED)
}


def _value(hint: Any, value: object, where: str) -> Any:
    """Turn one decoded JSON value into what the annotation asks for."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        built = _value(arguments[0], value, where)
        if (reason := arguments[1](built)) is not None:
            raise Malformed(where, reason)
        return built
    if origin in (UnionType, Union):  # only `X | None`
        return None if value is None else _value(arguments[0], value, where)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise Malformed(where, "must be a list")
        if arguments[-1] is not ... and len(value) != len(arguments):
            raise Malformed(where, f"must hold {len(arguments)} values")
        return tuple(_value(arguments[0], item, where) for item in value)
    if hint in _HINTS:
        return _build(hint, value, where)
    if issubclass(hint, StrEnum):
        if value not in tuple(hint):
            raise Malformed(where, f"must be one of {', '.join(hint)}")
        return hint(value)
    if type(value) is not hint:  # exact: True is no int
        raise Malformed(where, f"must be of type {hint.__name__}")
    return value


def _build(kind: type[Any], value: object, where: str) -> Any:
    if not isinstance(value, Mapping):
        raise Malformed(where or "action", "must be an object")
    hints, prefix = _HINTS[kind], f"{where}." if where else ""
    for key in value:
        if key not in hints:
            raise Malformed(f"{prefix}{key}", "is unknown")
    given = {key: _value(hints[key], item, f"{prefix}{key}") for key, item in value.items()}
    try:
        return kind(**given)
    except TypeError:
        needed = (field.name for field in fields(kind) if field.default is MISSING)
        missing = next(name for name in needed if name not in given)
        raise Malformed(f"{prefix}{missing}", "is missing") from None


def _parse(kinds: Mapping[str, type[Any]], value: object) -> Any:
    if not isinstance(value, Mapping):
        raise Malformed("action", "must be an object")
    kind = value.get("kind")
    if not isinstance(kind, str) or kind not in kinds:
        raise Malformed("kind", "is unknown")
    return _build(kinds[kind], {key: item for key, item in value.items() if key != "kind"}, "")


def parse(value: object) -> Action:
    """Turn decoded JSON into an action, or raise `Malformed`."""
    action: Action = _parse(KINDS, value)
    match action:
        case ArchiveNode() | RestoreNode() | Mount() | ObserveUnit():
            if action.lineage[-1] != short(action.uuid):
                raise Malformed("lineage", "does not end with the short id of the agent")
        case MoveNode(source=source, target=target):
            if source[-1] != target[-1]:
                raise Malformed("target", "must keep the agent's own id")
            if source[-1] in target[:-1]:
                raise Malformed("target", "lies below the agent itself")
        case RunJob(kind=kind, image=image):
            if (image is None) == (kind is JobKind.COPY_TREE):
                raise Malformed("image", "belongs to the copying of a tree, and only to it")
        case _:
            pass
    return action


def parse_result(value: object) -> Result:
    """Turn decoded JSON into a result, or raise `Malformed`."""
    result: Result = _parse(RESULTS, value)
    return result


def _plain(value: object) -> object:
    if type(value) in _HINTS:
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}  # type: ignore[arg-type]
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, StrEnum) else value


def encode(item: Action | Result) -> dict[str, object]:
    """Turn an action or a result into what goes over the wire as JSON."""
    plain = _plain(item)
    assert isinstance(plain, dict)
    return {"kind": type(item).__name__, **plain}
