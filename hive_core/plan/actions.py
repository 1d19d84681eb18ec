"""What hived may ask of the root helper: a closed union of typed actions.

An action names agents, short ids and images; it never carries a path, a flag or a program of the
host. `parse` is the only way from the wire to an action and refuses every unknown key, kind and
type with the name of the field. Each docstring says what the action does, what privd checks again
on the machine, and which value of `plan/results.py` it returns. Every action is idempotent, so the
reconciler simply repeats a pass that was interrupted.
"""

from collections.abc import Mapping
from dataclasses import Field, dataclass
from typing import Annotated, Any, ClassVar, Final, dataclass_transform, get_args

from hive_core.model.names import is_uuid, name_fault, short
from hive_core.plan.fields import Malformed, between, build, command, matcher, path, start_of
from hive_core.plan.kinds import JobKind as JobKind  # noqa: PLC0414 - given on

# https://systemd.io/UIDS-GIDS: container ranges, and the foreign range that owns agent files.
RANGE: Final = 65536
STORAGE_BASE: Final = 2147352576
AGENT_BASES: Final = range(524288, 1874853888, RANGE)
JOB_BASES: Final = range(1874853888, 1879048192, RANGE)  # 64 throw-away ranges
DEPTH_MAX: Final = 64
NIX: Final = "nix"  # the image whose root is a system from the store


Uuid = Annotated[str, lambda value: None if is_uuid(value) else "is not a UUID"]
Name = Annotated[str, name_fault]
Image = Annotated[str, matcher(r"[a-z][a-z0-9.-]{0,62}", "is not the name of an image")]
Lineage = Annotated[tuple[str, ...], path(1, DEPTH_MAX)]  # short ids, root first, own id last
SlicePath = Annotated[tuple[str, ...], path(0, DEPTH_MAX)]
AgentBase = Annotated[int, start_of(AGENT_BASES)]
Word = Annotated[str, matcher(r"[0-9A-Za-z._=:,/+-]{1,200}", "must be a plain word")]
System = Annotated[str, matcher(r"/nix/store/[0-9a-z]{32}-[\w.+?=-]{1,200}", "is not in the store")]


@dataclass_transform(frozen_default=True)
class _Action:
    """Makes every class below it a frozen dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)


class UnitLimits(_Action):
    """Bounds of one unit or slice; None leaves the default of the unit, or none for a slice."""

    memory_max: Annotated[int, between(2**20, 2**50)] | None = None
    memory_high: Annotated[int, between(2**20, 2**50)] | None = None
    tasks_max: Annotated[int, between(4, 2**22)] | None = None
    cpu_weight: Annotated[int, between(1, 10000)] | None = None
    cpu_quota: Annotated[int, between(1, 100_000)] | None = None  # percent of one processor
    io_weight: Annotated[int, between(1, 10000)] | None = None


class _OfAgent(_Action):
    uuid: Uuid


class _OfUnit(_OfAgent):
    name: Name


class MakeNode(_Action):
    """Make the node directory of an agent, with `state/`, `config/` and `kids/`. -> `Done`

    privd walks by descriptors, follows no symlink, and refuses when the parent's node is missing.
    """

    lineage: Lineage


class MoveNode(_Action):
    """Rename a node to its new place; running containers see it at once. -> `Done`

    privd checks that the node's own id stays the same, that the target is free and that every step
    is a real directory. If the source is missing and the target exists, the node was moved before:
    that is success.
    """

    source: Lineage
    target: Lineage


class ArchiveNode(_Action):
    """Take the node of a destroyed agent out of the tree, keeping its bytes. -> `Done`

    privd checks that `kids/` is empty and that the UUID belongs to the last short id.
    """

    lineage: Lineage
    uuid: Uuid


class RestoreNode(_OfAgent):
    """Put an archived node back into the tree. -> `Done`

    privd checks that nothing is in the way and that the UUID belongs to the last short id.
    """

    lineage: Lineage


class DropArchive(_OfAgent):
    """Remove the shell of an archive that a `purge_archive` job has emptied. -> `Done`"""


class MakeSocketDirectory(_OfAgent):
    """Make an agent's socket directory `/run/hive/agents/UUID/{run,view}`. -> `Done`

    hived fills it and the container sees it. privd keeps one that exists: a container bound to it
    would never see a new one.
    """


class RemoveSocketDirectory(_OfAgent):
    """Remove an agent's socket directory with all that hived put there, and its exit record.

    -> `Done`. Also takes the UUID of a job, which has an exit record only. privd walks by
    descriptors.
    """


class AdoptRoot(_Action):
    """Give the finished copy of a prepared tree to an agent, as its root. -> `Done`

    `source` is the job that made the copy. privd refuses when the agent has a root already.
    """

    source: Uuid
    uuid: Uuid


class DropRoot(_OfAgent):
    """Remove the shell of a copied root that a `purge_root` job has emptied. -> `Done`"""


class Mount(_OfAgent):
    """Mount root and node of an agent, mapped into its range, `nosuid,nodev`. -> `Done`

    The root of the `host` image is made anew in memory; other images need the agent's own copy
    (`RunJob`, `AdoptRoot`). What is mounted and right stays, so `Unmount` comes before a start.
    privd opens both by descriptor, follows no symlink, and refuses a range in use by another.
    `disk` and `inodes` are a project quota, for file systems that have them; 0 means no limit.
    """

    lineage: Lineage
    base: AgentBase
    image: Image
    disk: Annotated[int, between(0, 2**50)] | None = None
    inodes: Annotated[int, between(0, 2**50)] | None = None


class Unmount(_OfAgent):
    """Detach root and node of an agent, or what a job had mounted, on the host's side. -> `Done`

    A running container keeps what it has. The root of the `host` image is gone with it.
    """


class ShowStore(_OfAgent):
    """Show a repository of hived's to a running container, or hide it. -> `Done`

    privd mounts it read-only at the entry of the socket directory that the container has bound as
    `/meta` or `/applied`, and maps hived's own id, and no other, to the container's root. It opens
    both by descriptor. It unmounts the entry before a start: systemd-nspawn locks whatever is
    mounted then into the container for good.
    """

    store: Annotated[str, matcher("meta|applied", "must be meta or applied")]
    base: AgentBase
    shown: bool


class StartUnit(_OfUnit):
    """Ask systemd to start the container of an agent, without waiting for it. -> `Done`

    privd checks that root and node are mounted with exactly this range and that no unit of this
    name is loaded, writes the command to a file of its own, and renders every flag itself. The
    container is up when its command is executed, or when its init says so; systemd fails a start
    that takes longer than `patience`. systemd unloads a unit that ended, however it ended;
    `/run/hive/exits/UUID` says how. Without a command the container sleeps.
    """

    nonce: Annotated[int, between(0, 2**63)]
    spec: Annotated[str, matcher(r"[0-9a-z]{1,64}", "must be 1 to 64 of 0-9 and a-z")]
    base: AgentBase
    slice: SlicePath
    limits: UnitLimits
    image: Image
    boot: bool
    parent: Name | None
    command: Annotated[tuple[str, ...], command]
    patience: Annotated[int, between(1, 2**32)]  # milliseconds until it must be up
    system: System | None = None  # what the `nix` image runs, and no other
    # The CLI that runs its model, where the host has it.
    cli: Annotated[str, matcher("claude|codex|opencode", "is no CLI")] | None = None


class StopUnit(_OfUnit):
    """Begin a graceful stop. -> `Done`; privd checks that the unit is this UUID's.

    If the unit ended meanwhile, nothing changes.
    """


class KillUnit(_OfAgent):
    """Kill every process of the unit at once. -> `Done`; privd checks that it is this UUID's.

    Without a name, the unit is that of the job with this UUID.
    """

    name: Name | None


class SetSlice(_Action):
    """Set the limits of a subtree's slice until the next boot. -> `Done`

    The empty path is the slice of all agents. A limit that is not given is removed.
    """

    path: SlicePath
    limits: UnitLimits


class ObserveUnit(_OfUnit):
    """Read what only root can see of a running agent. -> `UnitFacts`

    `pid` is the main process as the bus tells it; privd compares its cgroup with the unit.
    """

    lineage: Lineage
    base: AgentBase
    pid: Annotated[int, between(2, 2**22)]


class ObserveStorage(_Action):
    """List everything on disk and mounted, of all agents and jobs. -> `StorageFacts`"""


class RunJob(_Action):
    """Start one job in a small container: throw-away range, no network, bounded. -> `Done`

    The job ends with the unit `hive-job@JOB.service`; `/run/hive/exits/JOB` says how. hived then
    applies `Unmount(JOB)`. `JobKind` says which fields each kind takes. privd refuses a root that
    is mounted and a job that was not cleaned up, and reads the paths of trees and imports from
    tables of its own. hived and the job exchange files in `/var/lib/hive/work/JOB/{in,out}`.
    """

    job: Uuid
    work: JobKind
    base: Annotated[int, start_of(JOB_BASES)]  # throw-away
    uuid: Uuid | None = None
    image: Image | None = None
    lineage: Lineage | None = None
    words: Annotated[tuple[Word, ...], lambda words: "are too many" if words[16:] else None] = ()


Action = (
    MakeNode | MoveNode | ArchiveNode | RestoreNode | DropArchive
    | MakeSocketDirectory | RemoveSocketDirectory | AdoptRoot | DropRoot
    | Mount | Unmount | ShowStore | StartUnit | StopUnit | KillUnit
    | SetSlice | ObserveUnit | ObserveStorage | RunJob
)  # fmt: skip


KINDS: Final[dict[str, type[Any]]] = {kind.__name__: kind for kind in get_args(Action)}


def parse(value: object) -> Action:
    """Turn decoded JSON into an action, or raise `Malformed`."""
    if not isinstance(value, Mapping) or value.get("kind") not in tuple(KINDS):
        raise Malformed("kind", "is unknown")
    action: Action = build(KINDS[value["kind"]], {k: v for k, v in value.items() if k != "kind"})
    lineage, uuid = (getattr(action, field, None) for field in ("lineage", "uuid"))
    if lineage and uuid and lineage[-1] != short(uuid):
        raise Malformed("lineage", "does not end with the short id of the agent")
    if isinstance(action, MoveNode) and action.source[-1] != action.target[-1]:
        raise Malformed("target", "does not keep the agent's own id")
    if isinstance(action, StartUnit) and (action.image == NIX) != (action.system is not None):
        raise Malformed("system", "goes with the image nix, and only with it")
    if isinstance(action, RunJob):
        named = {field for field in ("uuid", "image", "lineage") if getattr(action, field)}
        if named != action.work.job.takes or (action.words and not action.work.exchanges):
            raise Malformed("work", f"takes {sorted(action.work.job.takes)}")
    return action
