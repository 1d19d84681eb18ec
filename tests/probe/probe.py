#!/usr/bin/env python3
"""The probe: as root inside any container, tries to get out, and says what happened.

One file, standard library only, Python 3.9 or newer; it knows nothing of hive. Run it inside a
container: `python3 probe.py --json`. Each attempt ends as "held", "ESCAPED" or "not applicable".
An attempt runs in a process of its own, so that one that is killed or hangs takes no other along.

"ESCAPED" is written only where something outside was reached. What no program inside can know by
itself it is told on the command line: words that stand in files outside (`--word`), their paths
(`--canary`), sockets (`--unix`, `--abstract`, `--tcp`), System V keys, message queues, keyrings.
It leaves nothing behind but, with `--leave`, the files whose owner the host should look at.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import json
import os
import platform
import signal
import socket
import stat
import struct
import sys
import time
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Options = argparse.Namespace
    Run = Callable[[Options], "Finding"]
    Change = Callable[[], object]

HELD, ESCAPED, NOTHING = "held", "ESCAPED", "not applicable"
MARK = "hive-probe-planted"
SECONDS = 30
LIBC = ctypes.CDLL(None, use_errno=True)
# What libc has no function for. From 424 on the numbers are the same on every architecture.
CALLS = {
    "x86_64": {"bpf": 321, "perf_event_open": 298, "keyctl": 250, "add_key": 248,
               "kexec_load": 246, "finit_module": 313, "userfaultfd": 323, "quotactl": 179,
               "iopl": 172},
    "aarch64": {"bpf": 280, "perf_event_open": 241, "keyctl": 219, "add_key": 217,
                "kexec_load": 104, "finit_module": 273, "userfaultfd": 282, "quotactl": 60},
}.get(platform.machine(), {})  # fmt: skip
CALLS.update(io_uring_setup=425, open_tree=428, move_mount=429, fsopen=430, fsconfig=431,
             fsmount=432, pidfd_open=434, pidfd_getfd=438, mount_setattr=442)  # fmt: skip
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
NEWNS, NEWCGROUP, NEWUSER = 0x20000, 0x2000000, 0x10000000
# What shows the kernel and not files; other attempts are about these.
PSEUDO = {"proc", "sysfs", "cgroup", "cgroup2", "devpts", "mqueue", "devtmpfs"}


class Finding(NamedTuple):
    """What one attempt came to. `inside`: a gain within the container, but not out of it."""

    outcome: str
    detail: str = ""
    inside: bool = False


class Attempt(NamedTuple):
    name: str
    attack: str
    what: str
    run: Run


ATTEMPTS: list[Attempt] = []


def attempt(attack: str, description: str) -> Callable[[Run], Run]:
    """Enter a function into the list; its name is the attempt's."""

    def enter(run: Run) -> Run:
        ATTEMPTS.append(Attempt(run.__name__, attack, description, run))
        return run

    return enter


def call(name: str, *arguments: object) -> int:
    """Call libc, or the kernel where libc has no such function; OSError when it refuses."""
    if name in CALLS:
        result = LIBC.syscall(CALLS[name], *arguments)
    elif hasattr(LIBC, name):
        result = getattr(LIBC, name)(*arguments)
    else:
        raise OSError(errno.ENOSYS, "no such call here")
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")
    return int(result)


def sum_up(findings: list[str], tried: int, inside: bool = False) -> Finding:  # noqa: FBT001, FBT002
    """A finding out of many tries."""
    if not tried:
        return Finding(NOTHING, "nothing to try it on")
    if findings:
        return Finding(ESCAPED, f"{len(findings)} of {tried}: {'; '.join(findings[:6])}", inside)
    return Finding(HELD, f"{tried} tried")


# What is mounted.


class MountPoint(NamedTuple):
    path: str
    options: set[str]
    kind: str
    shared: bool  # likely seen from outside: no kernel's view, and no memory of our own


def mounts() -> list[MountPoint]:
    """Read mountinfo; of several mounts on one place the last is seen."""
    rows = []
    for line in Path("/proc/self/mountinfo").read_text(errors="replace").splitlines():
        left, right = line.split(" - ", 1)
        rows.append((*left.split()[2:6], right.split()[0]))
    # Memory whose whole is seen here is ours; of the host's a part is bound.
    own = {row[0] for row in rows if row[1] == "/" and row[4] in ("tmpfs", "ramfs")}
    result = {}
    for device, _, where, options, kind in rows:
        path = where.encode().decode("unicode_escape")
        dev = path == "/dev" or path.startswith("/dev/")
        shared = kind not in PSEUDO and device not in own and path != "/" and not dev
        result[path] = MountPoint(path, set(options.split(",")), kind, shared)
    return list(result.values())


def read_only() -> list[MountPoint]:
    return [mount for mount in mounts() if "ro" in mount.options and mount.kind not in PSEUDO]


def can_plant(place: str | int) -> bool:
    """Whether a file can be made there (and taken away again)."""
    where = f"/proc/self/fd/{place}" if isinstance(place, int) else place
    if not Path(where).is_dir():
        with suppress(OSError):  # a file: opened for writing, not written
            os.close(os.open(where, os.O_WRONLY | os.O_NONBLOCK))
            return True
        return False
    with suppress(OSError):
        os.close(os.open(f"{where}/{MARK}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        os.unlink(f"{where}/{MARK}")
        return True
    return False


def by_remount(point: MountPoint) -> bool:
    call("mount", None, point.path.encode(), None, MS_REMOUNT | MS_BIND, None)
    return can_plant(point.path)


def by_setattr(point: MountPoint) -> bool:
    wanted = struct.pack("QQQQ", 0, MS_RDONLY, 0, 0)
    call("mount_setattr", -100, point.path.encode(), 0, wanted, len(wanted))
    return can_plant(point.path)


def by_clone(point: MountPoint) -> bool:
    """A detached copy of the mount, made writable, and written through its descriptor."""
    tree = call("open_tree", -100, point.path.encode(), 1 | os.O_CLOEXEC)
    try:
        wanted = struct.pack("QQQQ", 0, MS_RDONLY, 0, 0)
        call("mount_setattr", tree, b"", 0x1000, wanted, len(wanted))
        return can_plant(tree)
    finally:
        os.close(tree)


@contextmanager
def scratch() -> Iterator[str]:
    """An empty directory of our own, to mount things on."""
    place = f"/tmp/hive-probe-{os.getpid()}"
    Path(place).mkdir(parents=True, exist_ok=True)
    try:
        yield place
    finally:
        with suppress(OSError):
            call("umount2", place.encode(), 2)
        with suppress(OSError):
            os.rmdir(place)


def by_bind(point: MountPoint) -> bool:
    """Bound to another place, and remounted there."""
    with scratch() as place:
        if not Path(point.path).is_dir():
            return False
        call("mount", point.path.encode(), place.encode(), None, MS_BIND, None)
        call("mount", None, place.encode(), None, MS_REMOUNT | MS_BIND, None)
        return can_plant(place)


def by_unmount(point: MountPoint) -> bool:
    """Take it away, and write what lies below."""
    before = os.stat(point.path)
    call("umount2", point.path.encode(), 2)
    after = os.stat(point.path)
    return before.st_dev != after.st_dev and point.shared and can_plant(point.path)


WAYS = (by_remount, by_setattr, by_clone, by_bind, by_unmount)


def break_read_only() -> Finding:
    """Every way on every mount that is read-only."""
    places = [point for point in read_only() if not can_plant(point.path)]
    if not places:
        return Finding(NOTHING, "nothing is mounted read-only")
    findings, own = [], 0
    for way in WAYS:
        for point in places:
            with suppress(OSError):
                if way(point):
                    own += not point.shared
                    findings += [f"{point.path} {way.__name__}"] if point.shared else []
    result = sum_up(findings, len(places) * len(WAYS))
    return result._replace(detail=f"{result.detail}; {own} of memory of our own")


def own_mounts() -> None:
    """A copy of the mounts, so that later attempts find everything as it was."""
    call("unshare", NEWNS)
    call("mount", None, b"/", None, MS_REC | MS_PRIVATE, None)


def own_user() -> None:
    """A user namespace in which we have every capability."""
    uid, gid = os.getuid(), os.getgid()
    call("unshare", NEWUSER | NEWNS)
    with suppress(OSError):
        Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1")


@attempt("1", "make read-only mounts writable: remount, mount_setattr, copy, bind, unmount")
def remount(_: Options) -> Finding:
    with suppress(OSError):
        own_mounts()
    return break_read_only()


@attempt("1", "the same from a user namespace of one's own")
def remount_in_a_user_namespace(_: Options) -> Finding:
    try:
        own_user()
    except OSError as error:
        return Finding(HELD, f"no namespace: {error}")
    return break_read_only()


@attempt("1", "find another root: chroot and climb, pivot_root, what lies below /")
def other_roots(options: Options) -> Finding:
    was, findings, tried = os.stat("/"), [], 0
    with suppress(OSError):
        own_mounts()
    for way in (climb, pivot, unmount_root):
        tried += 1
        pid = os.fork()
        if not pid:
            with suppress(OSError):
                way()
                now = os.stat(".")
                other = (now.st_dev, now.st_ino) != (was.st_dev, was.st_ino)
                os._exit(other and any(Path(f"./{name}").exists() for name in options.canary))
            os._exit(0)
        findings += [way.__name__] if os.waitpid(pid, 0)[1] else []
    return sum_up(findings, tried)


def climb() -> None:
    with scratch() as place:
        held = os.open("/", os.O_RDONLY)
        os.chroot(place)
        os.fchdir(held)
        for _ in range(64):
            os.chdir("..")


def pivot() -> None:
    with scratch() as place:
        call("mount", b"probe", place.encode(), b"tmpfs", 0, None)
        Path(f"{place}/old").mkdir()
        call("pivot_root", place.encode(), f"{place}/old".encode())
        os.chdir("/old/..")
        os.chdir("/old")
        for _ in range(64):
            os.chdir("..")


def unmount_root() -> None:
    call("umount2", b"/", 2)
    os.chdir("/")
    for _ in range(64):
        os.chdir("..")


@attempt("1", "mount file systems of the machine: disks, debugfs, tracefs, bpf, configfs, efivarfs")
def machine_file_systems(_: Options) -> Finding:
    kinds = ("debugfs", "tracefs", "securityfs", "bpf", "configfs", "efivarfs", "pstore",
             "binfmt_misc", "fusectl", "devtmpfs", "hugetlbfs", "nfsd", "selinuxfs")  # fmt: skip
    findings, tried = [], 0
    with suppress(OSError):
        own_mounts()
    for kind in kinds:
        tried += 2
        with scratch() as place, suppress(OSError):
            call("mount", b"probe", place.encode(), kind.encode(), 0, None)
            if any(os.scandir(place)) and owned_outside(place):
                findings.append(kind)
        with suppress(OSError):
            handle = call("fsopen", kind.encode(), 0)
            call("fsconfig", handle, 6, None, None, 0)
            tree = call("fsmount", handle, 0, 0)
            if os.listdir(tree) and owned_outside(tree):
                findings.append(f"{kind} by fsmount")
    for major, minor in disks():
        for disk in (b"/dev/block/%d:%d" % (major, minor), b"/tmp/hive-probe-disk"):
            for kind in ("ext4", "xfs", "btrfs", "vfat"):
                tried += 1
                with scratch() as place, suppress(OSError):
                    with suppress(OSError):
                        os.mknod("/tmp/hive-probe-disk", stat.S_IFBLK, os.makedev(major, minor))
                    call("mount", disk, place.encode(), kind.encode(), MS_RDONLY, None)
                    findings.append(f"{major}:{minor} as {kind}")
    return sum_up(findings, tried)


def disks() -> list[tuple[int, int]]:
    rows = Path("/proc/partitions").read_text().splitlines()[2:]
    return [(int(row.split()[0]), int(row.split()[1])) for row in rows[:8]]


def owned_outside(place: str | int) -> bool:
    """Whether the file system is the machine's: a new one of our namespace belongs to us."""
    return os.stat(place).st_uid != os.getuid() or identity_map()


def identity_map() -> bool:
    return Path("/proc/self/uid_map").read_text().split() == ["0", "0", "4294967295"]


# Devices and setuid.


def writable_places(options: Options) -> list[str]:
    known = [mount.path for mount in mounts() if "rw" in mount.options and mount.kind not in PSEUDO]
    result = {*known, *options.shared, "/", "/tmp", "/dev"}
    return sorted(place for place in result if Path(place).is_dir() and can_plant(place))


@attempt("1", "make device nodes wherever anything can be made, and open them")
def device_nodes(options: Options) -> Finding:
    devices = [(stat.S_IFCHR, 1, 1), (stat.S_IFCHR, 1, 4), (stat.S_IFCHR, 1, 11),
               (stat.S_IFCHR, 10, 237), (stat.S_IFBLK, 7, 0), (stat.S_IFBLK, 8, 0)]  # fmt: skip
    devices += [(stat.S_IFBLK, *disk) for disk in disks()]
    findings, tried, made = [], 0, 0
    shared = {*options.shared, *(mount.path for mount in mounts() if mount.shared)}
    for place in writable_places(options):
        for kind, major, minor in devices:
            tried, node = tried + 1, f"{place}/{MARK}-node"
            with suppress(OSError):
                os.mknod(node, kind | 0o600, os.makedev(major, minor))
                made += 1
                findings += [f"{major}:{minor} lies in {place}"] if place in shared else []
                findings += [f"{major}:{minor} opened in {place}"] if opens(node) else []
            with suppress(OSError):
                os.unlink(node)
    result = sum_up(findings, tried)
    return result._replace(detail=f"{result.detail}; {made} made")


def opens(path: str, flags: int = os.O_RDONLY) -> bool:
    with suppress(OSError):
        os.close(os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY))
        return True
    return False


@attempt("1", "open devices that are there: disks, memory, kernel log, loop control, KVM, FUSE")
def present_devices(_: Options) -> Finding:
    harmless = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "console", "tun"}
    findings, tried = [], 0
    for folder, _folders, names in os.walk("/dev"):
        for name in names:
            path = f"{folder}/{name}"
            with suppress(OSError):
                status = os.lstat(path)
                if not (stat.S_ISBLK(status.st_mode) or stat.S_ISCHR(status.st_mode)):
                    continue
                tried += 1
                if name not in harmless and "/pts" not in folder and opens(path):
                    findings.append(path)
    return sum_up(findings, tried)


@attempt("2", "leave setuid files and file capabilities where the host sees them")
def setuid_on_shared(options: Options) -> Finding:
    findings, left = [], []
    points = sorted(mounts(), key=lambda point: len(point.path))
    shared = {point.path for point in points if point.shared}
    for place in sorted({*shared, *options.shared}.intersection(writable_places(options))):
        point = [point for point in points if f"{place}/".startswith(point.path.rstrip("/") + "/")][
            -1
        ]
        path = Path(place, f"{MARK}-setuid")
        with suppress(OSError):
            path.write_bytes(Path("/usr/bin/id").read_bytes())
            path.chmod(0o6755)
            with suppress(OSError):  # version 2, every capability, effective
                every = struct.pack("<5I", 0x2000001, *[2**32 - 1] * 4)
                os.setxattr(path, "security.capability", every)
            # Our 0 is the host's where ids are not mapped, and where the mount maps them back.
            same = identity_map() or "idmapped" in point.options
            if same and path.stat().st_mode & 0o4000 and "nosuid" not in point.options:
                findings.append(str(path))
            left.append(str(path))
            if not options.leave:
                path.unlink()
    result = sum_up(findings, len(left))
    return result._replace(detail=f"{result.detail}; {' '.join(left[:8])}")


@attempt("2", "become root again by a setuid file, after having given it up")
def setuid_inside(options: Options) -> Finding:
    findings, tried = [], 0
    for place in writable_places(options):
        tool = Path(place, f"{MARK}-tool")
        with suppress(OSError):
            tool.write_bytes(Path("/usr/bin/id").read_bytes())
            tool.chmod(0o6755)
            tried += 1
            if id_of(tool) == "0":
                findings.append(place)
        with suppress(OSError):
            tool.unlink()
    return sum_up(findings, tried, inside=True)


def id_of(tool: Path) -> str:
    """What `id -u` says when another user calls it."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if not pid:
        with suppress(BaseException):
            os.dup2(theirs, 1)
            os.setgroups([])
            os.setresgid(1000, 1000, 1000)
            os.setresuid(1000, 1000, 1000)
            os.execv(tool, ["id", "-u"])
        os._exit(1)
    os.close(theirs)
    text = os.read(ours, 100).decode().strip()
    os.waitpid(pid, 0)
    os.close(ours)
    return text


# The kernel.

KNOBS = ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hotplug",
         "/proc/sys/kernel/poweroff_cmd", "/proc/sys/vm/drop_caches", "/proc/sys/vm/panic_on_oom",
         "/proc/sys/fs/binfmt_misc/register", "/proc/sys/kernel/sysrq", "/sys/kernel/uevent_helper",
         "/sys/kernel/profiling", "/sys/power/state", "/sys/kernel/mm/ksm/run",
         "/sys/module/kernel/parameters/panic", "/proc/sysrq-trigger", "/proc/acpi/alarm",
         "/proc/scsi/scsi", "/proc/mtrr", "/sys/kernel/security/apparmor/.load")  # fmt: skip
SECRETS = ("/proc/kcore", "/proc/kmsg", "/dev/kmsg", "/dev/mem", "/dev/port", "/proc/kpagecount",
           "/proc/kpageflags", "/proc/timer_list", "/proc/sched_debug", "/proc/latency_stats",
           "/sys/kernel/debug/sched/debug", "/sys/firmware/dmi/tables/DMI", "/proc/vmallocinfo",
           "/proc/slabinfo", "/proc/pagetypeinfo", "/proc/keys")  # fmt: skip


def fresh_kernel_views() -> list[str]:
    """Mounts of /proc and /sys: as they are, unmasked, and made again."""
    views = [""]
    with suppress(OSError):
        own_mounts()
    for point in reversed(mounts()):
        if point.path.startswith(("/proc/", "/sys/")):
            with suppress(OSError):
                call("mount", None, point.path.encode(), None, MS_REMOUNT | MS_BIND, None)
            with suppress(OSError):
                call("umount2", point.path.encode(), 2)
    for kind in ("proc", "sysfs"):
        for place in (f"/tmp/hive-probe-view/{kind.removesuffix('fs')}",):
            with suppress(OSError):
                Path(place).mkdir(parents=True, exist_ok=True)
                call("mount", kind.encode(), place.encode(), kind.encode(), 0, None)
                views = ["", "/tmp/hive-probe-view"]
    for path in ("/proc", "/sys"):
        with suppress(OSError):
            call("mount", None, path.encode(), None, MS_REMOUNT | MS_BIND, None)
    return views


@attempt("1", "change the kernel by /proc and /sys: core_pattern, sysrq, uevent_helper and others")
def kernel_knobs(_: Options) -> Finding:
    findings, tried = [], 0
    for view in fresh_kernel_views():
        for knob in KNOBS:
            if Path(view + knob).exists():
                tried += 1
                findings += [view + knob] if opens(view + knob, os.O_WRONLY) else []
    return sum_up(findings, tried)


@attempt("1", "read what the kernel keeps for root: kcore, kernel log, slabs, addresses")
def kernel_secrets(_: Options) -> Finding:
    findings, tried = [], 0
    for view in fresh_kernel_views():
        for path in (view + secret for secret in SECRETS):
            tried += 1
            with suppress(OSError):
                handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
                with closing(os.fdopen(handle, "rb", 0)) as file:
                    got = file.read(4096) or b""
                    findings += [path] if got.strip() and not own_view(path, got) else []
    with suppress(OSError):
        with Path("/proc/kallsyms").open() as file:
            first = file.readline().split()[0]
        findings += ["/proc/kallsyms"] if int(first, 16) else []
    return sum_up(findings, tried + 1)


def own_view(path: str, got: bytes) -> bool:
    """A file system that all containers have, or that shows only the own processes."""
    if path.endswith("/keys"):
        return all(b" keyring   _" in row for row in got.splitlines())
    return bool(os.stat(path).st_mode & 0o004)


def bpf() -> None:
    call("bpf", 11, struct.pack("8I", *[0] * 8), 32)  # BPF_PROG_GET_NEXT_ID


def perf() -> None:
    call("perf_event_open", struct.pack("IIQQ", 1, 112, 0, 0) + bytes(96), -1, 0, -1, 0)


def kexec() -> None:
    call("kexec_load", 0, 0, None, 0)


def module() -> None:
    with open("/dev/null", "rb") as file:
        try:
            call("finit_module", file.fileno(), b"", 0)
        except OSError as error:
            if error.errno not in (errno.ENOEXEC, errno.EINVAL):
                raise


def clock() -> None:
    # The time that it is. Even an hour's jump would only be set back.
    time.clock_settime(time.CLOCK_REALTIME, time.time())


def adjust_clock() -> None:
    call("adjtimex", struct.pack("I", 1).ljust(256, b"\0"))  # ADJ_OFFSET of nothing


def reboot() -> None:
    call("reboot", 0)  # CAD_OFF: harmless, refused in any but the first pid namespace


def swap() -> None:
    try:
        call("swapon", b"/dev/null", 0)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTBLK):
            raise


def accounting() -> None:
    try:
        call("acct", b"/hive-probe-is-not-there")
    except FileNotFoundError:
        return  # it would have been allowed


def log_of_the_kernel() -> None:
    if not call("klogctl", 3, ctypes.create_string_buffer(4096), 4096):
        raise OSError(errno.ENODATA, "nothing in it")


def ports() -> None:
    call("iopl", 3)


def notify_of_all() -> None:
    group = call("fanotify_init", 4, 0)  # FAN_CLASS_CONTENT: may hold up whoever opens a file
    call("fanotify_mark", group, 0x11, ctypes.c_uint64(0x20), -100, b"/")


def quotas() -> None:
    call("quotactl", 0x80000100, None, 0, None)  # Q_SYNC everywhere


def rate_of_a_process() -> None:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))


def nice() -> None:
    os.setpriority(os.PRIO_PROCESS, 0, -20)


def spared_by_oom() -> None:
    before = Path("/proc/self/oom_score_adj").read_text()
    Path("/proc/self/oom_score_adj").write_text(str(int(before) - 1))


def more_descriptors() -> None:
    import resource  # noqa: PLC0415 - not everywhere

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard + 1))


def io_uring() -> None:
    call("io_uring_setup", 1, ctypes.create_string_buffer(256))


def faults() -> None:
    call("userfaultfd", os.O_CLOEXEC)


REACH = (bpf, perf, kexec, module, clock, adjust_clock, reboot, swap, accounting,
         log_of_the_kernel, ports, notify_of_all, quotas)  # fmt: skip
SURFACE = (io_uring, faults, rate_of_a_process, nice, spared_by_oom, more_descriptors)


def calls_allowed(these: tuple[Callable[[], None], ...]) -> list[str]:
    """Which of the calls are not refused; each in a process that may be killed for it."""
    names = []
    for call_ in these:
        pid = os.fork()
        if not pid:
            with suppress(BaseException):
                call_()
                os._exit(7)
            os._exit(0)
        names += [call_.__name__] if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7 else []
    return names


@attempt("1", "calls that reach the machine: bpf, perf, kexec, modules, clock, reboot, swap, log")
def machine_calls(_: Options) -> Finding:
    return sum_up(calls_allowed(REACH), len(REACH))


@attempt("8", "calls that only widen what is open to attack, or outrun others")
def surface_calls(_: Options) -> Finding:
    return sum_up(calls_allowed(SURFACE), len(SURFACE), inside=True)


@attempt("1", "find a key of the host's keyrings")
def keyrings(options: Options) -> Finding:
    findings, tried = [], 0
    for name in options.key:
        for ring in (-3, -4, -5):  # session, user, user session
            tried += 1
            with suppress(OSError):
                call("keyctl", 10, ring, b"user", name.encode(), 0)
                findings.append(f"{name} in {ring}")
    return sum_up(findings, tried)


@attempt("1", "open files by handle, and climb out of a mount")
def handles(_: Options) -> Finding:
    findings, tried = [], 0
    for point in mounts():
        if point.kind in PSEUDO or not Path(point.path).is_dir():
            continue
        tried += 1
        with suppress(OSError):
            handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
            mount = ctypes.byref(ctypes.c_int())
            call("name_to_handle_at", -100, point.path.encode(), handle, mount, 0)
            held = os.open(point.path, os.O_RDONLY)
            at = call("open_by_handle_at", held, handle, os.O_RDONLY)
            top = os.fstat(at)
            for _step in range(64):
                at = os.open("..", os.O_RDONLY, dir_fd=at)
            now = os.fstat(at)
            known = (top, os.stat("/"))
            climbed = not any(os.path.samestat(now, place) for place in known)
            findings += [point.path] if climbed else []
    return sum_up(findings, tried)


# Others' files and processes.


@attempt("1", "read canaries of the host, of siblings and of ancestors by every path")
def canaries(options: Options) -> Finding:
    tops = ["", "/proc/1/root", "/proc/1/cwd", "/proc/self/root", "/tree/..", "/tree/../../.."]
    tops += [f"/proc/{pid}/{link}" for pid in pids() for link in ("root", "cwd")]
    tops += [f"/proc/{pid}/fd/{fd}" for pid in pids() for fd in range(10)]
    findings, tried = [], 0
    for canary in options.canary:
        for top in tops:
            tried += 1
            with suppress(OSError):
                path = f"{top}/{canary}"
                inside = Path(path).is_dir() and os.listdir(path)
                if inside or (Path(path).is_file() and Path(path).read_bytes() is not None):
                    findings.append(path)
    return sum_up(findings, tried)


def pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


@attempt("1", "find words that stand in files outside, by reading every small file")
def words(options: Options) -> Finding:
    wanted = mirrored_words(options)
    if not wanted:
        return Finding(NOTHING, "no --word")
    findings, tried, until = [], 0, time.monotonic() + SECONDS / 2
    for folder, below, names in os.walk("/"):
        below[:] = [name for name in below if f"{folder}/{name}".replace("//", "/") not in
                    ("/proc", "/sys", "/usr", "/dev")]  # fmt: skip
        for path in (f"{folder}/{name}" for name in names):
            with suppress(OSError):
                status = os.lstat(path)
                if stat.S_ISREG(status.st_mode) and status.st_size < 4096:
                    tried += 1
                    text = Path(path).read_bytes()
                    findings += [path] if any(word in text for word in wanted) else []
        if time.monotonic() > until:
            break
    return sum_up(findings, tried)


def mirrored_words(options: Options) -> list[bytes]:
    """The words; they come backwards, or the probe would find its own command line."""
    return [word[::-1].encode() for word in options.word]


@attempt("1", "see, trace, signal or read the environment of processes outside")
def processes(options: Options) -> Finding:
    wanted = mirrored_words(options)
    findings, tried = [], 0
    with suppress(OSError):
        own_mounts()
        call("mount", b"proc", b"/proc", b"proc", 0, None)
    for pid in {*pids(), *options.pid}:
        tried += 1
        with suppress(OSError):
            text = Path(f"/proc/{pid}/environ").read_bytes()
            findings += [f"environment of {pid}"] if any(word in text for word in wanted) else []
        if pid in options.pid and pid not in pids():
            with suppress(OSError):
                os.kill(pid, 0)
                findings.append(f"signal to {pid}")
            with suppress(OSError):
                call("ptrace", 0x4206, pid, None, None)  # PTRACE_SEIZE
                findings.append(f"trace of {pid}")
    return sum_up(findings, tried)


@attempt("1", "shared memory, semaphores, queues: System V and POSIX")
def shared_memory(options: Options) -> Finding:
    findings, tried = [], 0
    for key in options.ipc:
        for kind, arguments in (
            ("shmget", (key, 0, 0)),
            ("semget", (key, 0, 0)),
            ("msgget", (key, 0)),
        ):
            tried += 1
            with suppress(OSError):
                call(kind, *arguments)
                findings.append(f"{kind} {key}")
    for name in options.mq:
        tried += 1
        with suppress(OSError):
            with suppress(AttributeError, OSError):
                ctypes.CDLL("librt.so.1")
            call("mq_open", f"/{name}".encode(), os.O_RDONLY)
            findings.append(f"queue {name}")
    for kind in ("shm", "sem", "msg"):
        tried += 1
        rows = Path(f"/proc/sysvipc/{kind}").read_text().splitlines()[1:]
        findings += [f"{len(rows)} of sysvipc/{kind}"] if rows else []
    return sum_up(findings, tried)


# Sockets.


def reaches(kind: int, family: int, address: Any) -> tuple[int, int] | None:  # noqa: ANN401
    """Connect; who answers, as (pid, uid): pid 0 is a process that our namespace does not have."""
    with closing(socket.socket(family, kind)) as wire:
        wire.settimeout(1)
        wire.connect(address)
        if family != socket.AF_UNIX or kind != socket.SOCK_STREAM:
            return (0, -1)
        pid, uid, _ = struct.unpack("3i", wire.getsockopt(socket.SOL_SOCKET, 17, 12))
        return (pid, uid)


@attempt("6", "reach sockets in files that processes outside listen on")
def socket_files(options: Options) -> Finding:
    usual = ["/run/dbus/system_bus_socket", "/run/systemd/private", "/run/systemd/journal/stdout",
             "/run/systemd/journal/socket", "/run/systemd/notify", "/run/docker.sock",
             "/run/podman/podman.sock", "/run/containerd/containerd.sock", "/run/udev/control",
             "/nix/var/nix/daemon-socket/socket", "/run/hive/operator.sock",
             "/run/hive/privd.sock", *options.unix]  # fmt: skip
    findings, tried = [], 0
    for path in {*usual, *sockets_there()} - set(options.mine):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
            tried += 1
            with suppress(OSError):
                pid, _ = reaches(kind, socket.AF_UNIX, path) or (1, 0)
                stream = kind == socket.SOCK_STREAM
                if (stream and pid == 0) or (not stream and os.stat(path).st_uid == 65534):
                    findings.append(path)
    return sum_up(sorted(set(findings)), tried)


def sockets_there() -> set[str]:
    result = set()
    for top in ("/run", "/tmp", "/var", "/tree", "/nix", "/srv", "/mnt"):
        for folder, _folders, names in os.walk(top):
            for name in names:
                with suppress(OSError):
                    if stat.S_ISSOCK(os.lstat(f"{folder}/{name}").st_mode):
                        result.add(f"{folder}/{name}")
    return result


@attempt("6", "reach abstract sockets and loopback of the host")
def host_network(options: Options) -> Finding:
    findings, tried = [], 0
    rows = Path("/proc/net/unix").read_text().splitlines()[1:]
    names = {row.split()[-1][1:] for row in rows if "@" in row.split()[-1]}
    for name in {*names, *options.abstract}:
        tried += 1
        with suppress(OSError):
            pid, _ = reaches(socket.SOCK_STREAM, socket.AF_UNIX, f"\0{name}") or (1, 0)
            findings += [f"@{name}"] if pid == 0 else []
    for place in options.tcp:
        host, _, port = place.rpartition(":")
        tried += 1
        with suppress(OSError):
            reaches(socket.SOCK_STREAM, socket.AF_INET, (host, int(port)))
            findings.append(place)
    return sum_up(findings, tried)


@attempt("6", "sockets below the network: packets, vsock, audit, kernel events")
def low_sockets(_: Options) -> Finding:
    findings, tried = [], 0
    others = [name for _, name in socket.if_nameindex() if name != "lo"]
    for name in others:
        tried += 1
        with suppress(OSError), closing(socket.socket(socket.AF_PACKET, socket.SOCK_RAW)) as wire:
            wire.bind((name, 3))
            findings.append(f"packets of {name}")
    with suppress(OSError), closing(socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)) as wire:
        wire.bind((socket.VMADDR_CID_ANY, socket.VMADDR_PORT_ANY))
        wire.listen()
        findings.append("listens to virtual machines")
    tried += 1
    audit = socket.AF_NETLINK, socket.SOCK_RAW, 9
    with suppress(OSError), closing(socket.socket(*audit)) as wire:
        wire.bind((0, 1))
        findings.append("reads the audit log")
    tried += 1
    return sum_up(findings, tried)


# Structure and control groups.


@attempt("11", "change the structure: make, move, remove, link, own what belongs to nobody inside")
def structure(options: Options) -> Finding:
    findings, tried = [], 0
    for place in options.structure:
        below = sorted(os.listdir(place))
        for name, change in changes(place, below):
            tried += 1
            with suppress(OSError):
                change()
                findings.append(f"{name} in {place}")
    return sum_up(findings, tried)


def changes(place: str, below: list[str]) -> Iterator[tuple[str, Change]]:
    new = f"{place}/{MARK}"
    yield "mkdir", partial(os.mkdir, new)
    yield "create", partial(os.open, new, os.O_CREAT | os.O_EXCL)
    yield "symlink", partial(os.symlink, "/etc", new)
    yield "mkfifo", partial(os.mkfifo, new)
    yield "link", partial(os.link, "/etc/passwd", new)
    yield "chmod", partial(os.chmod, place, 0o777)
    yield "chown", partial(os.chown, place, 0, 0)
    yield "xattr", partial(os.setxattr, place, "user.probe", b"1")
    yield "acl", partial(os.setxattr, place, "system.posix_acl_default", b"\2\0\0\0")
    yield "times", partial(os.utime, place, (0, 0))
    for name in below:
        one = f"{place}/{name}"
        yield f"rename {name}", partial(os.rename, one, new)
        yield f"take {name}", partial(os.rename, one, f"/tmp/{MARK}")
        yield f"rmdir {name}", partial(os.rmdir, one)
        for other in below:
            yield f"exchange {name} {other}", partial(exchange, one, f"{place}/{other}")


def exchange(one: str, other: str) -> None:
    if one == other:
        raise OSError(errno.EINVAL, "the same")
    call("renameat2", -100, one.encode(), -100, other.encode(), 2)


@attempt("8", "control groups: release_agent, device lists, groups of others")
def control_groups(_: Options) -> Finding:
    findings, tried = [], 0
    with suppress(OSError):
        own_mounts()
    with suppress(OSError):
        call("unshare", NEWCGROUP)
    views = [mount.path for mount in mounts() if mount.kind.startswith("cgroup")]
    made = mounted_groups()
    for view in {*views, *made}:
        for name in ("release_agent", "devices.allow", "devices.deny"):
            for path in Path(view).glob(f"**/{name}"):
                tried += 1
                findings += [str(path)] if opens(str(path), os.O_WRONLY) else []
        for path in list(Path(view).glob("**/cgroup.procs"))[:500]:
            tried += 1
            with suppress(OSError):
                # A process of another pid namespace shows as 0.
                if "0" in path.read_text().split() and opens(str(path), os.O_WRONLY):
                    findings.append(str(path))
    for place in made:
        with suppress(OSError):
            call("umount2", place.encode(), 2)
    return sum_up(findings, tried)


def mounted_groups() -> list[str]:
    kinds = [("cgroup2", "")]
    rows = Path("/proc/cgroups").read_text().splitlines()[1:]
    kinds += [("cgroup", row.split()[0]) for row in rows]
    made = []
    for kind, controller in kinds:
        place = f"/tmp/hive-probe-{kind}-{controller}"
        with suppress(OSError):
            Path(place).mkdir(exist_ok=True)
            wanted = controller.encode() or None
            call("mount", b"none", place.encode(), kind.encode(), 0, wanted)
            made.append(place)
    return made


@attempt("1", "terminals and descriptors that were left open to the host")
def left_open(_: Options) -> Finding:
    findings, tried = [], 0
    root = os.stat("/")
    for name in os.listdir("/proc/self/fd"):
        tried += 1
        with suppress(OSError):
            shown = os.readlink(f"/proc/self/fd/{name}")
            status = os.stat(f"/proc/self/fd/{name}")
            if stat.S_ISDIR(status.st_mode) and shown == "/" and not os.path.samestat(status, root):
                findings.append(f"descriptor {name} is a directory outside")
            own = status.st_dev == os.stat("/dev/pts").st_dev
            if stat.S_ISCHR(status.st_mode) and os.isatty(int(name)) and not own:
                import fcntl  # noqa: PLC0415 - only where there is a terminal

                fcntl.ioctl(int(name), 0x5412, b" ")  # TIOCSTI: types into whoever reads it
                findings.append(f"typed into {shown}")
    return sum_up(findings, tried)


@attempt("4", "ids outside of the range that was given")
def ids(_: Options) -> Finding:
    findings, tried = [], 0
    rows = Path("/proc/self/uid_map").read_text().splitlines()
    spans = [tuple(map(int, row.split())) for row in rows]
    for uid in (65536, 100000, 2147352576, 2**32 - 2):
        if any(first <= uid < first + length for first, _, length in spans):
            continue
        tried += 1
        with suppress(OSError, OverflowError):
            os.setresuid(uid, uid, uid)
            findings.append(str(uid))
    for row in ("0 0 4294967295", "0 0 65537"):
        tried += 1
        findings += [row] if maps(row) else []
    return sum_up(findings, tried)


def maps(row: str) -> bool:
    """Whether a child can map more than we have; for that a namespace must hold more."""
    length = sum(
        int(line.split()[2]) for line in Path("/proc/self/uid_map").read_text().splitlines()
    )
    pid = os.fork()
    if not pid:
        with suppress(OSError):
            call("unshare", NEWUSER)
            Path("/proc/self/uid_map").write_text(row)
            os._exit(int(row.split()[2]) > length)
        os._exit(0)
    return os.waitpid(pid, 0)[1] != 0


# Running.


def run(attempt_: Attempt, options: Options) -> Finding:
    """One attempt in a separate process, within its time."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(ours)
        signal.alarm(SECONDS)
        try:
            finding = attempt_.run(options)
        except OSError as error:
            finding = Finding(HELD, f"stopped by {error}")
        except Exception as error:  # noqa: BLE001 - an attempt must not end the probe
            finding = Finding(NOTHING, f"the probe is wrong here: {type(error).__name__} {error}")
        os.write(theirs, json.dumps(finding).encode()[:65000])
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as pipe:
        text = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return Finding(*json.loads(text)) if text else Finding(HELD, f"ended with {status}")


def sweep() -> None:
    """Mount points of ours; attempts that were killed leave some."""
    for left in sorted(Path("/tmp").glob("hive-probe-*/*"), reverse=True):
        with suppress(OSError):
            left.rmdir()
    for left in Path("/tmp").glob("hive-probe-*"):
        with suppress(OSError):
            left.rmdir() if left.is_dir() else left.unlink()


def where() -> dict[str, object]:
    """What the container is like, as far as it can see."""
    fields = dict(row.split(":", 1) for row in Path("/proc/self/status").read_text().splitlines())
    return {
        "uid_map": " ".join(Path("/proc/self/uid_map").read_text().split()),
        "capabilities": fields["CapBnd"].strip(), "seccomp": fields["Seccomp"].strip(),
        "no_new_privileges": fields["NoNewPrivs"].strip(), "mounts": len(mounts()),
    }  # fmt: skip


def parser() -> argparse.ArgumentParser:
    argument_parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    argument_parser.add_argument(
        "--json", action="store_true", help="one JSON object instead of lines"
    )
    argument_parser.add_argument(
        "--leave", action="store_true", help="leave setuid files for a look outside"
    )
    argument_parser.add_argument("--only", action="append", default=[], help="name of an attempt")
    for name, help_ in (
        ("canary", "a path outside"), ("word", "what stands in files outside, spelled backwards"),
        ("unix", "a socket outside"), ("mine", "a socket that may be reached"),
        ("abstract", "an abstract socket outside"), ("tcp", "HOST:PORT outside"),
        ("structure", "a directory that must not change"), ("key", "a key of the host's root"),
        ("mq", "a message queue outside"), ("shared", "a directory that the host sees"),
    ):  # fmt: skip
        argument_parser.add_argument(f"--{name}", action="append", default=[], help=help_)
    for name in ("pid", "ipc"):
        argument_parser.add_argument(
            f"--{name}", action="append", default=[], type=lambda text: int(text, 0)
        )
    return argument_parser


def main() -> int:
    options = parser().parse_args()
    rows: list[dict[str, Any]] = []
    for attempt_ in ATTEMPTS:
        if not options.only or attempt_.name in options.only:
            finding = run(attempt_, options)
            rows.append({"name": attempt_.name, "attack": attempt_.attack, "what": attempt_.what,
                         "outcome": finding.outcome, "inside": finding.inside,
                         "detail": finding.detail})  # fmt: skip
    sweep()
    escaped = [row for row in rows if row["outcome"] == ESCAPED and not row["inside"]]
    if options.json:
        sys.stdout.write(json.dumps({"where": where(), "attempts": rows}, indent=1) + "\n")
    else:
        for row in rows:
            tail = " (inside)" if row["inside"] else ""
            sys.stdout.write(f"{row['outcome'] + tail:15} {row['name']}: {row['detail']}\n")
        sys.stdout.write(f"{len(rows)} attempts, {len(escaped)} got out\n")
    return 1 if escaped else 0


if __name__ == "__main__":
    sys.exit(main())
