"""Mounts of agents: roots and nodes, mapped into the agent's range. Only this module uses ctypes.

https://man7.org/linux/man-pages/man2/mount_setattr.2.html describes idmapped mounts.
"""

import ctypes
import fcntl
import os
import pwd
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from hive_core.model.names import short
from hive_core.plan.actions import NIX, RANGE, STORAGE_BASE, JobKind, Mount, RunJob, ShowStore
from hive_core.plan.render import SHARED, SOCKET, STATE, STORES, read_list
from hive_core.privd import tree

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
# The numbers of these three calls are the same on every architecture.
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_EMPTY_PATH, _COPY, _FROM_EMPTY, _HERE = 0x1000, 0x1001 | os.O_CLOEXEC, 4, -100
_RDONLY, _NOSUID, _NODEV, _IDMAP, _DETACH_NOFOLLOW = 1, 2, 4, 0x100000, 10
# Q_SETQUOTA of a PRJQUOTA, see quotactl_fd(2); FS_XFLAG_PROJINHERIT, see ioctl_xfs_fssetxattr(2).
_QUOTACTL_FD, _SET_LIMITS, _SET_PROJECT, _INHERIT = 443, 0x800008 << 8 | 2, 0x401C5820, 0x200
USR: Final = Path(os.environ.get("HIVE_USR", "/usr"))  # NixOS has no /usr: a tree of the store
Ids = tuple[int, int, int]  # the first uid and gid on disk, and the number of ids
_STORED: Final = (STORAGE_BASE, STORAGE_BASE, RANGE)
_OWN: Final = (0, 0, RANGE)  # for files that an operator prepared


def _call(aim: str, function: str, *arguments: object) -> int:
    result: int = getattr(_LIBC, function)(*arguments)
    if result < 0:
        raise OSError(f"cannot {aim}: {os.strerror(ctypes.get_errno())}")
    return result


@contextmanager
def _mapping(ids: Ids, base: int) -> Iterator[int]:
    """Yield a user namespace that maps ids on disk to the range; a child keeps it open."""
    with subprocess.Popen(("unshare", "--user", "sleep", "infinity")) as child:
        process = Path(f"/proc/{child.pid}")
        try:
            while (process / "ns/user").samefile("/proc/self/ns/user"):
                time.sleep(0.001)
            for kind, first in zip(("uid_map", "gid_map"), ids, strict=False):
                (process / kind).write_text(f"{first} {base} {ids[2]}")
            with (process / "ns/user").open("rb") as namespace:
                yield namespace.fileno()
        finally:
            child.kill()


def attach(source: int, target: Path, base: int, ids: Ids = _STORED, more: int = 0) -> None:
    """Mount an opened directory at `target`, with its ids on disk mapped into the range.

    The attributes are set while the mount is detached: it is never visible without them.
    """
    target.mkdir(parents=True, exist_ok=True)
    place = Path(f"/proc/self/fd/{source}").readlink()
    with _mapping(ids, base) as namespace, ExitStack() as held:
        detached = _call(f"open {place}", "syscall", _OPEN_TREE, source, b"", _COPY)
        held.callback(os.close, detached)
        wanted = struct.pack("QQQQ", _NOSUID | _NODEV | _IDMAP | more, 0, 0, namespace)
        _call(f"map the ids of {place}, whose file system may not allow it", "syscall",
              _MOUNT_SETATTR, detached, b"", _EMPTY_PATH, wanted, len(wanted))  # fmt: skip
        _call("mount", "syscall", _MOVE_MOUNT, detached, b"", _HERE, bytes(target), _FROM_EMPTY)


def generate(root: Path, uuid: str, base: int, *, bare: bool = False) -> None:
    """Create the root of the `host` image in memory, owned by the range; `bare`: for `nix`.

    It is small: shared parts of the machine are bound over empty places. A machine-id avoids the
    first boot wizard. No agent can reach it before it is complete.
    """
    root.mkdir(parents=True, exist_ok=True)
    options = b"mode=755,size=512m,nr_inodes=256k"
    _call("make a root", "mount", b"hive", bytes(root), b"tmpfs", _NOSUID | _NODEV, options)
    shared = (part for part in SHARED if Path("/", part).is_dir())
    for place in (*read_list("root.places"), *shared):
        (root / place).mkdir(parents=True, exist_ok=True)
    if not bare:
        for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
            if (USR / name).exists():
                (root / name).symlink_to(f"usr/{name}")
        shutil.copytree(Path(__file__).with_name("guest") / "etc", root / "etc", dirs_exist_ok=True)
    shutil.copyfile(USR / "lib/os-release", root / "etc/os-release")
    (root / "etc/machine-id").write_text(uuid.replace("-", "") + "\n")
    for part in (*(part for part in SHARED if Path("/", part).is_file()), SOCKET[1:]):
        (root / part).touch()
    for place in ("tmp", "var/tmp"):
        (root / place).chmod(0o1777)
    # The root itself last: a partial one is not taken as complete (`in_range`).
    for path in (*root.rglob("*"), root):
        os.lchown(path, base, base)


def in_range(path: Path, base: int) -> bool:
    """Return whether the mounted directory shows its owner inside the range."""
    return path.exists() and base <= path.lstat().st_uid < base + RANGE


def has_mounts(uuid: str, base: int) -> bool:
    """Return whether a root and a node are mounted for the agent with this range."""
    return all(in_range(tree.MOUNTS / uuid / place, base) for place in ("root", "tree/state"))


def set_quota(lineage: tree.Steps, project: int, disk: int, inodes: int) -> None:
    """Have the file system limit the files of an agent, as a project of its own.

    Container root can change neither a file's project nor the limits. Only `state/` and `config/`
    pass the project on: nodes move, and no file can be renamed into another project.
    https://man7.org/linux/man-pages/man2/quotactl.2.html
    """
    limits = struct.pack("8Q2I", *[disk // 1024] * 2, 0, *[inodes] * 2, 0, 0, 0, 0b101, 0)
    for leaf in ("state", "config"):
        with tree.open_steps(*tree.node(lineage), leaf) as own:
            fcntl.ioctl(own, _SET_PROJECT, struct.pack("4I12x", _INHERIT, 0, 0, project))
            _call("limit the files", "syscall", _QUOTACTL_FD, own, _SET_LIMITS, project, limits)


def check_range(uuid: str, base: int) -> None:
    """Refuse a range in which the root of another agent or job is mounted."""
    others = set(tree.uuids(tree.MOUNTS)) - {uuid}
    if any(in_range(tree.MOUNTS / other / "root", base) for other in others):
        raise FileExistsError("the range is in use")


def mount(action: Mount) -> bool:
    """Mount what is missing or wrong of an agent's root and node."""
    uuid, base, place = action.uuid, action.base, tree.MOUNTS / action.uuid
    check_range(uuid, base)
    if action.disk is not None and action.inodes is not None:
        set_quota(action.lineage, base, action.disk, action.inodes)
    with tree.open_steps(*tree.node(action.lineage)) as node:
        if has_mounts(uuid, base) and os.path.samestat((place / "tree").stat(), os.fstat(node)):
            return False
        _clear(place / "tree")
        attach(node, place / "tree", base)
    if not in_range(place / "root", base):
        _clear(place / "root")
        if action.image in ("host", NIX):
            generate(place / "root", uuid, base, bare=action.image == NIX)
        else:
            with tree.open_steps(tree.ROOTS, uuid) as source:
                tree.make((tree.ROOTS,), uuid, dict.fromkeys(STORES, STORAGE_BASE))
                # A root of an older version lacks these, and nspawn has no id to make them.
                places = dict.fromkeys(("prompts", "runtime"), STORAGE_BASE)
                tree.make((tree.ROOTS, uuid, "opt"), "hive", places)
                attach(source, place / "root", base)
    return True


def _hive() -> Ids:
    hive = pwd.getpwnam("hive")
    return (hive.pw_uid, hive.pw_gid, 1)


def show_store(action: ShowStore) -> bool:
    """Mount a repository of hived at its entry of a socket directory, or unmount it."""
    place = Path(tree.SOCKET_DIRECTORIES, action.uuid, action.store)
    with tree.open_steps(tree.SOCKET_DIRECTORIES, action.uuid, action.store) as there:
        if not action.shown:
            return os.fstat(there).st_uid != 0 and hide_stores(action.uuid, action.store)
        with tree.open_steps(STATE, action.store) as source:
            if in_range(place, action.base) and os.path.sameopenfile(there, source):
                return False
            hide_stores(action.uuid, action.store)
            attach(source, place, action.base, _hive(), _RDONLY)
    return True


def hide_stores(uuid: str, *stores: str) -> bool:
    """Unmount the repositories in a socket directory, which cannot be removed before that."""
    for store in stores or STORES:
        _clear(Path(tree.SOCKET_DIRECTORIES, uuid, store))
    return True


def _place(action: RunJob, source: str) -> tuple[tree.Steps, Ids]:
    """Return the path of a job's input or output, and the ids that own it.

    Other ids do not show.
    """
    uuid, node = action.uuid or action.job, tree.node(action.lineage or (action.job,))
    steps = {
        "in": (STATE, "work", action.job, "in"), "out": (STATE, "work", action.job, "out"),
        "config": (*node, "config"), "state": (*node, "state"), "root": (tree.ROOTS, uuid),
        "archive": (tree.ARCHIVE, uuid), "nodes": (tree.TREE, short(uuid)), "node": node,
    }.get(source) or (tree.registered_path(source, action.image or ""),)  # fmt: skip
    ids = {"in": _hive(), "out": _hive(), "image": _OWN, "import": _OWN}.get(source, _STORED)
    return steps, ids


def mount_job(action: RunJob) -> None:
    """Mount the folders of a job, and a root for it, in the job's own range."""
    check_range(action.job, action.base)
    place, job = tree.MOUNTS / action.job, action.work.job
    if action.uuid and "root" in job.writes.values() and (tree.MOUNTS / action.uuid).exists():
        raise FileExistsError("the agent's root is mounted")
    sources = {leaf: _place(action, source) for leaf, source in (job.reads | job.writes).items()}
    place.mkdir()  # fails if an earlier one was not cleaned up
    # A new installation of Nix has no store yet, and a missing directory cannot be mounted. Its
    # daemon sets group and mode of the directory when it opens the store:
    # https://github.com/NixOS/nix/blob/2.8.0/src/libstore/local-store.cc#L127
    Path("/nix/store" if job.nix else "/").mkdir(exist_ok=True)
    if action.work is JobKind.COPY_TREE:
        tree.make((STATE,), "roots", {action.job: STORAGE_BASE})
    for leaf, (steps, ids) in sources.items():
        with tree.open_steps(*steps) as source:
            attach(source, place / leaf, action.base, ids, _RDONLY * (leaf in job.reads))
    generate(place / "root", action.job, action.base)
    if action.work.exchanges:
        (place / f"root{STATE}/work/{action.job}/out").mkdir(parents=True)
    if action.work is JobKind.LOCK and Path("/etc/resolv.conf").exists():
        shutil.copyfile("/etc/resolv.conf", place / "root/etc/resolv.conf")


def detach(uuid: str) -> bool:
    """Unmount everything of one agent or job, then remove its mount points, which must be empty."""
    place = tree.MOUNTS / uuid
    if not place.is_dir():
        return False
    for leaf in [_clear(leaf) for leaf in place.iterdir()]:
        leaf.rmdir() if leaf.is_dir() else leaf.unlink()  # argv, and a killed systemd-nspawn's lock
    place.rmdir()
    return True


def _clear(target: Path) -> Path:
    """Unmount what is mounted at this place, and return the place."""
    with suppress(OSError):  # EINVAL: nothing is mounted there
        while True:
            _call("unmount", "umount2", bytes(target), _DETACH_NOFOLLOW)
    return target
