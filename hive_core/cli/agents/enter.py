"""Entering a container as root of the host; the daemon has no operation for this.

The process in the container gets no descriptor and no variable of this process, and its own
terminal (or pipes that this process copies). It joins the control groups of the agent, so that the
agent's limits apply and a stop of the agent ends it too. Files in the container decide what a shell
does, so it is trusted as little as they are: it may make the system calls of an agent that cannot
mount.
"""

from __future__ import annotations

import os
import re
import select
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hive_core.cli.agents.relay import in_pipes, on_terminal
from hive_core.cli.core.output import say
from hive_core.cli.core.progress import working
from hive_core.cli.core.session import Session, entries
from hive_core.errors import Conflict, NotAllowed, NotRunning
from hive_core.model.names import agent_unit

RANGE: Final = 65536
_PATIENCE: Final = 10.0  # seconds that a start or restart of the agent may take
STATE: Final = "/tree/state"  # home and working directory of the agent
PATH: Final = "/opt/hive/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Exit status of systemd-run when its unit was killed; the container takes a moment to end.
_KILLED: Final = 255
_ENDING: Final = 1.0
_PLACES: Final = ("/usr/bin", "/bin", "/run/current-system/sw/bin")
# Opens the terminal first, which makes it the controlling one; joins the named groups; then
# executes the rest. systemd also moves a process that it has forked into the group of the unit from
# outside, and may do so late: a call to systemd before joining returns only after that (exec_spawn
# in src/core/execute.c, `cg_attach` after the fork). Names of groups are bytes that the agent
# chose, and words of a unit are text, so they are escaped.
_JOIN: Final = (
    '[ -z "$1" ] || : <>"$1" || exit 1; shift; '
    '"$1" --quiet call org.freedesktop.systemd1 /org/freedesktop/systemd1'
    " org.freedesktop.DBus.Peer Ping || exit 1; shift;"
    ' while [ "$1" != -- ]; do echo 0 >"$(printf %b "$1")" || exit 1; shift; done; shift; exec "$@"'
)
_CONFINED: Final = (
    "NoNewPrivileges=yes",
    "SystemCallArchitectures=native",
    "SystemCallFilter=~@mount @module @raw-io @reboot @swap @clock @keyring bpf perf_event_open"
    " io_uring_setup userfaultfd acct fanotify_init open_by_handle_at quotactl quotactl_fd",
    "SystemCallErrorNumber=EPERM",
    # Network namespaces do not apply to sockets of virtual machines.
    "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK",
)
_TERM: Final = re.compile(r"[A-Za-z0-9._+-]{1,40}")


@dataclass(frozen=True, slots=True)
class Place:
    """A running container.

    Its first process as the host numbers it, and facts that must hold for it.
    """

    name: str
    leader: int
    base: int
    parent: str = ""

    @property
    def proc(self) -> Path:
        return Path("/proc") / str(self.leader)


def locate(session: Session, name: str, doing: str) -> Place:
    """Find where NAME runs; the answer is checked against the kernel."""
    if os.geteuid() != 0:
        raise NotAllowed(f"cannot {doing} {name}: only root may enter a container; try sudo")
    with working(f"waiting for {name} to run"):
        reply = session.ask("locate", agent=name, wait=_PATIENCE)
    leader, base = reply.get("leader"), reply.get("uid_base")
    if not isinstance(leader, int) or not leader or not isinstance(base, int):
        raise NotRunning(f"cannot {doing} {name}: it is not running ({reply.get('state')})")
    (row, *_) = entries(session.ask("list_agents", root=name), "agents")
    place = Place(name, leader, base, str(row["parent"] or ""))
    verify(place)
    return place


def verify(place: Place) -> None:
    """Refuse a process that is not in the agent's unit or not in the agent's uid range."""
    try:
        groups = _lines(place.proc / "cgroup")
        mapping = (place.proc / "uid_map").read_text(encoding="ascii").split()
    except OSError as error:
        raise NotRunning(f"cannot enter {place.name}: it has just ended") from error
    unit = agent_unit(place.name)
    tracked = [line for line in groups if line.startswith("0::") or _is_of_systemd(line)]
    if not tracked or not all(unit in line.split("/") for line in tracked):
        raise Conflict(f"cannot enter {place.name}: process {place.leader} is not in {unit}")
    if mapping != ["0", str(place.base), str(RANGE)]:
        raise Conflict(f"cannot enter {place.name}: process {place.leader} has another uid range")


def _lines(file: Path) -> list[str]:
    """List the lines of a file of the kernel; bytes that are not UTF-8 are kept (PEP 383)."""
    return os.fsdecode(file.read_bytes()).rstrip("\n").split("\n")


def _is_of_systemd(line: str) -> bool:
    return line.split(":", 2)[1] == "name=systemd"


def _escape(path: str) -> str:
    """Write a path in ASCII, as `printf %b` reads it."""
    plain = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./@:,=-"
    return "".join(chr(byte) if byte in plain else f"\\0{byte:03o}" for byte in os.fsencode(path))


def groups_of(place: Place, mounts: Sequence[str]) -> list[str]:
    """The `cgroup.procs` files of every hierarchy that the container is in."""
    files = []
    mount_points = hierarchies(mounts)
    for line in _lines(place.proc / "cgroup"):
        _, controllers, path = line.split(":", 2)
        if controllers in mount_points:
            files.append(f"{mount_points[controllers]}{path.rstrip('/')}/cgroup.procs")
    return files


def hierarchies(mounts: Sequence[str]) -> dict[str, str]:
    """Mount point by the controllers of a hierarchy; "" stands for version 2."""
    mount_points: dict[str, str] = {}
    for line in mounts:
        _, point, kind, options = line.split(" ")[:4]
        if kind == "cgroup2":
            mount_points.setdefault("", point)
        elif kind == "cgroup":
            controllers = [option for option in options.split(",") if _is_controller(option)]
            mount_points.setdefault(",".join(controllers), point)
    return mount_points


def _is_controller(option: str) -> bool:
    plain = ("rw", "ro", "nosuid", "nodev", "noexec", "relatime", "xattr", "clone_children")
    return option not in plain and not option.startswith("release_agent=")


def argv(place: Place, command: Sequence[str], terminal: str = "") -> list[str]:
    """The command line with which root executes `command` in the container, on its own `terminal`.

    A transient service has what this process cannot set: a filter of system calls, and its own
    session.
    """
    groups = [_escape(path) for path in groups_of(place, _lines(Path("/proc/self/mounts")))]
    # The service manager of the host passes its environment to every unit.
    clean = [f"{key}={value}" for key, value in environment(place).items()]
    enter = [
        _program("env"), "-i", *clean,
        _program("nsenter"), f"--target={place.leader}", "--all", "--", *command,
    ]  # fmt: skip
    words = ["/bin/sh", "-c", _JOIN, "sh", terminal, _program("busctl"), *groups, "--", *enter]
    return [
        _program("systemd-run"), "--quiet", "--collect", "--wait", "--service-type=exec",
        # systemd-run would name the unit after its connection to the bus: after a restart of the
        # bus such names repeat, and may be those of units that still exist.
        f"--unit=hive-shell-{os.urandom(8).hex()}.service",
        "--pipe", f"--description=operator in {place.name}",
        *(f"--property={setting}" for setting in _CONFINED),
        "--", *(word.replace("$", "$$") for word in words),
    ]  # fmt: skip


def _program(name: str) -> str:
    paths = (f"{folder}/{name}" for folder in _PLACES)
    return next((path for path in paths if os.access(path, os.X_OK)), name)


def environment(place: Place) -> dict[str, str]:
    """The variables of the agent's own processes, and of this process only the terminal type."""
    term = os.environ.get("TERM", "")
    parent = {"HIVE_PARENT": place.parent} if place.parent else {}
    return {
        "PATH": PATH,
        "HOME": STATE,
        "LANG": "C.UTF-8",
        "TERM": term if _TERM.fullmatch(term) else "dumb",
        "HIVE_NAME": place.name,
        "HIVE_SOCKET": "/run/hive/broker.sock",
        "PYTHONPATH": "/opt/hive/hive_core/agent/python",
        "CREDENTIALS_DIRECTORY": "/run/hive/credentials",
        **parent,
    }


def run(place: Place, command: Sequence[str]) -> int:
    """Run a command in the container, on this terminal or through pipes; return its exit status."""
    if os.isatty(0) and os.isatty(1):
        return _watch(place, lambda: on_terminal(lambda terminal: argv(place, command, terminal)))
    return run_in_pipes(place, command)


def run_in_pipes(
    place: Place, command: Sequence[str], source: int = 0, target: int = 1, errors: int = 2
) -> int:
    """Run a command in the container; copy its input and output from and to these descriptors."""
    return _watch(place, lambda: in_pipes(argv(place, command), source, target, errors))


def run_without_input(place: Place, command: Sequence[str]) -> int:
    """Run a command in the container that reads nothing.

    What waits on the input is for the next command: lines that were typed ahead, or the list of a
    loop in which this one stands.
    """
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - a descriptor is wanted
        return run_in_pipes(place, command, nothing.fileno())


def _watch(place: Place, execute: Callable[[], int]) -> int:
    """Run `execute`, and print a message when the agent ended during it."""
    try:
        leader = os.pidfd_open(place.leader)
    except ProcessLookupError as error:
        raise NotRunning(f"cannot enter {place.name}: it has just ended") from error
    try:
        status = execute()
        if status == _KILLED and select.select([leader], [], [], _ENDING)[0]:
            say(f"{place.name} was stopped or restarted, which ended the command")
    finally:
        os.close(leader)
    return status
