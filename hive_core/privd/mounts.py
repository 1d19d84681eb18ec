"""Mounts of agents: roots and nodes, mapped into the agent's range. The only door to ctypes.

https://man7.org/linux/man-pages/man2/mount_setattr.2.html tells how idmapped mounts work.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from hive_core.plan.actions import RANGE, STORAGE_BASE, JobKind, Mount, RunJob
from hive_core.plan.render import SHARED, STATE
from hive_core.privd import tree

MOUNTS: Final = f"{STATE}/mounts"
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
# The numbers of these three calls are the same on every architecture.
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_EMPTY_PATH, _CLONE, _CLOEXEC, _FROM_EMPTY, _HERE = 0x1000, 1, os.O_CLOEXEC, 4, -100
READ_ONLY, _NOSUID, _NODEV, _IDMAP = 1, 2, 4, 0x100000
_DETACH_NOFOLLOW, _NEWUSER = 10, 0x10000000
_PLACES: Final = ("agents", "dev", "etc", "home", "opt/hive/bin", "opt/hive/hive_core", "out",
                  "in", "proc", "root", "run", "sys", "tmp", "tree", "var/tmp", "var/log",
                  "var/lib")  # fmt: skip


def _call(function: str, *arguments: object) -> int:
    result: int = getattr(_LIBC, function)(*arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), function)
    return result


@contextmanager
def _mapping(disk: int, base: int) -> Iterator[int]:
    """Give a user namespace that maps ids on disk to the range, made by a child that waits."""
    left, right = os.pipe()
    child = os.fork()
    if child == 0:
        with suppress(OSError):
            _call("unshare", _NEWUSER)
            os.write(right, b".")
            signal.pause()
        os._exit(1)
    os.close(right)
    try:
        os.read(left, 1)
        for kind in ("uid", "gid"):
            Path(f"/proc/{child}/{kind}_map").write_text(f"{disk} {base} {RANGE}")
        with open(f"/proc/{child}/ns/user", "rb") as namespace:
            yield namespace.fileno()
    finally:
        os.close(left)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def attach(source: int, target: str, base: int, disk: int = STORAGE_BASE, extra: int = 0) -> None:
    """Mount an opened directory at a path of ours, its ids on disk mapped into the range.

    The attributes are set while the mount hangs nowhere: it is never seen without them.
    """
    os.makedirs(target, mode=0o700, exist_ok=True)
    with _mapping(disk, base) as namespace:
        detached = _call("syscall", _OPEN_TREE, source, b"", _EMPTY_PATH | _CLONE | _CLOEXEC)
        try:
            wanted = struct.pack("QQQQ", _NOSUID | _NODEV | _IDMAP | extra, 0, 0, namespace)
            _call("syscall", _MOUNT_SETATTR, detached, b"", _EMPTY_PATH, wanted, len(wanted))
            _call("syscall", _MOVE_MOUNT, detached, b"", _HERE, target.encode(), _FROM_EMPTY)
        finally:
            os.close(detached)


def generate(root: str, uuid: str, base: int) -> None:
    """Make the root of the `host` image, in memory and owned by the range.

    It is small: what it shares with the machine is bound over empty places. A machine-id keeps
    the wizard of a first boot away. No agent can reach it before it is mounted.
    """
    os.makedirs(root, mode=0o700, exist_ok=True)
    options = f"mode=755,uid={base},gid={base},nr_inodes=256k"
    _call("mount", b"hive", root.encode(), b"tmpfs", _NOSUID | _NODEV, options.encode())
    for place in (*_PLACES, *(part for part in SHARED if os.path.isdir(f"/{part}"))):
        os.makedirs(f"{root}/{place}", exist_ok=True)
    for link in filter(os.path.islink, ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")):
        os.symlink(f"usr{link}", f"{root}{link}")
    shutil.copytree(Path(__file__).parent / "guest/etc", f"{root}/etc", dirs_exist_ok=True)
    shutil.copyfile("/usr/lib/os-release", f"{root}/etc/os-release")
    Path(root, "etc/machine-id").write_text(uuid.replace("-", "") + "\n")
    for part in (part for part in SHARED if os.path.isfile(f"/{part}")):
        Path(root, part).touch()
    for path, folders, names in os.walk(root):
        for name in (*folders, *names):
            os.lchown(f"{path}/{name}", base, base)
    for place in ("tmp", "var/tmp"):
        os.chmod(f"{root}/{place}", 0o1777)


def in_range(path: str, base: int) -> bool:
    """Say whether what is mounted there shows its owner inside the range."""
    with suppress(FileNotFoundError):
        return base <= os.stat(path, follow_symlinks=False).st_uid < base + RANGE
    return False


def right(uuid: str, base: int) -> bool:
    """Say whether a root and a node are mounted for the agent with this range."""
    place = f"{MOUNTS}/{uuid}"
    return in_range(f"{place}/root", base) and in_range(f"{place}/tree/state", base)


def mount(action: Mount) -> bool:
    """Mount what is missing or wrong of an agent's root and node."""
    uuid, base, place = action.uuid, action.base, f"{MOUNTS}/{action.uuid}"
    if any(in_range(f"{MOUNTS}/{other}/root", base) for other in tree.uuids(MOUNTS) if other != uuid):
        raise FileExistsError("the range is in use")
    with tree.opened(*tree.node(action.lineage)) as node:
        if right(uuid, base) and os.path.samestat(os.stat(f"{place}/tree"), os.fstat(node)):
            return False
        _clear(f"{place}/tree")
        attach(node, f"{place}/tree", base)
    if not in_range(f"{place}/root", base):
        _clear(f"{place}/root")
        if action.image == "host":
            generate(f"{place}/root", uuid, base)
        else:
            with tree.opened(tree.ROOTS, uuid) as source:
                attach(source, f"{place}/root", base)
    return True


def mount_job(action: RunJob) -> None:
    """Mount what a job works on, and a root for it, in the job's own range."""
    place, whole = f"{MOUNTS}/{action.job}", (tree.ROOTS, action.uuid or action.job)
    if action.kind is JobKind.PURGE_ARCHIVE:
        whole = (tree.ARCHIVE, whole[1])
    elif os.path.exists(f"{MOUNTS}/{whole[1]}"):
        raise FileExistsError("it is mounted")
    if action.image is not None:
        tree.make((tree.ROOTS,), action.job, {})
        os.chown(f"{tree.ROOTS}/{action.job}", STORAGE_BASE, STORAGE_BASE)
        with tree.opened(tree.prepared(action.image)) as source:
            attach(source, f"{place}/in", action.base, 0, READ_ONLY)
    with tree.opened(*whole) as target:
        attach(target, f"{place}/out", action.base)
    generate(f"{place}/root", action.job, action.base)


def detach(uuid: str) -> bool:
    """Unmount everything of one agent or job and remove its mount points."""
    place = f"{MOUNTS}/{uuid}"
    if not os.path.isdir(place):
        return False
    for leaf in os.listdir(place):
        _clear(f"{place}/{leaf}")
        os.rmdir(f"{place}/{leaf}")
    os.rmdir(place)
    return True


def _clear(target: str) -> None:
    with suppress(OSError):  # ends with EINVAL: nothing is mounted there (any more)
        while True:
            _call("umount2", target.encode(), _DETACH_NOFOLLOW)
