"""Entering a container, by root's own hands: the daemon has no verb for it.

The container gets nothing of ours: no descriptor, no variable, a terminal of its own (or pipes
that we copy), and the process joins the agent's control groups, so that its limits hold and
stopping the agent ends it too. It may call what an agent that cannot mount may call: files in the
container decide what a shell does, so it is no more trusted than they are.
"""

from __future__ import annotations

import os
import re
import select
from collections.abc import Sequence
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
_PATIENCE: Final = 10.0  # seconds that an agent may take that is being started or restarted
PATH: Final = "/opt/hive/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# What systemd-run ends with when its unit was killed; the container takes a moment to end.
_KILLED: Final = 255
_ENDING: Final = 1.0
_PLACES: Final = ("/usr/bin", "/bin", "/run/current-system/sw/bin")
# Takes the terminal as the one that controls it (the first to open it does), joins the groups named
# behind, then becomes the rest. systemd puts a process that it has forked
# into the unit's group from outside too, and may come late to that: it is asked something before,
# and answers when it is done (exec_spawn in src/core/execute.c, `cg_attach` after the fork).
# Names of groups are bytes that the agent chose, and words of a unit are text: they come escaped.
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
    # Sockets of virtual machines know no network namespaces.
    "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK",
)
_TERM: Final = re.compile(r"[A-Za-z0-9._+-]{1,40}")


@dataclass(frozen=True, slots=True)
class Place:
    """A running container: its first process as the host counts, and what must be true of it."""

    name: str
    leader: int
    base: int
    parent: str = ""

    @property
    def proc(self) -> Path:
        return Path("/proc") / str(self.leader)


def locate(session: Session, name: str, doing: str) -> Place:
    """Where NAME runs, believed only after a look at the kernel's own books."""
    if os.geteuid() != 0:
        raise NotAllowed(
            f"cannot {doing} {name}: only root may enter a container, and the daemon never does;"
            " try it with sudo"
        )
    with working(f"waiting for {name} to run"):
        found = session.ask("locate", agent=name, wait=_PATIENCE)
    leader, base = found.get("leader"), found.get("uid_base")
    if not isinstance(leader, int) or not leader or not isinstance(base, int):
        raise NotRunning(f"cannot {doing} {name}: it is not running ({found.get('state')})")
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
    """List the lines of a file of the kernel; what is no UTF-8 stays as it is (PEP 383)."""
    return os.fsdecode(file.read_bytes()).rstrip("\n").split("\n")


def _is_of_systemd(line: str) -> bool:
    return line.split(":", 2)[1] == "name=systemd"


def _escaped(path: str) -> str:
    """Spell a path in ASCII, as `printf %b` reads it."""
    plain = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./@:,=-"
    return "".join(chr(byte) if byte in plain else f"\\0{byte:03o}" for byte in os.fsencode(path))


def groups_of(place: Place, mounts: Sequence[str]) -> list[str]:
    """The `cgroup.procs` files of every hierarchy that the container is in."""
    found = []
    where = hierarchies(mounts)
    for line in _lines(place.proc / "cgroup"):
        _, controllers, path = line.split(":", 2)
        if controllers in where:
            found.append(f"{where[controllers]}{path.rstrip('/')}/cgroup.procs")
    return found


def hierarchies(mounts: Sequence[str]) -> dict[str, str]:
    """Mount point by the controllers of a hierarchy; the empty text stands for version 2."""
    found: dict[str, str] = {}
    for line in mounts:
        _, where, kind, options = line.split(" ")[:4]
        if kind == "cgroup2":
            found.setdefault("", where)
        elif kind == "cgroup":
            names = [each for each in options.split(",") if _is_controller(each)]
            found.setdefault(",".join(names), where)
    return found


def _is_controller(option: str) -> bool:
    plain = ("rw", "ro", "nosuid", "nodev", "noexec", "relatime", "xattr", "clone_children")
    return option not in plain and not option.startswith("release_agent=")


def argv(place: Place, command: Sequence[str], terminal: str = "") -> list[str]:
    """What root executes in order to execute `command` inside; `terminal`: made for it alone.

    A transient service gives what this process cannot: a filter of system calls, and a session
    that is nobody else's.
    """
    groups = [_escaped(each) for each in groups_of(place, _lines(Path("/proc/self/mounts")))]
    # The manager of the host has an environment too, and gives it to every unit.
    clean = [f"{key}={value}" for key, value in environment(place).items()]
    enter = [
        _program("env"), "-i", *clean,
        _program("nsenter"), f"--target={place.leader}", "--all", "--", *command,
    ]  # fmt: skip
    words = ["/bin/sh", "-c", _JOIN, "sh", terminal, _program("busctl"), *groups, "--", *enter]
    return [
        _program("systemd-run"), "--quiet", "--collect", "--wait", "--service-type=exec",
        # systemd-run would name it after its connection to the bus: such names come again when
        # the bus was restarted, and then meet a unit that is still there.
        f"--unit=hive-shell-{os.urandom(8).hex()}.service",
        "--pipe", f"--description=operator in {place.name}",
        *(f"--property={each}" for each in _CONFINED),
        "--", *(word.replace("$", "$$") for word in words),
    ]  # fmt: skip


def _program(name: str) -> str:
    found = (f"{place}/{name}" for place in _PLACES)
    return next((path for path in found if os.access(path, os.X_OK)), name)


def environment(place: Place) -> dict[str, str]:
    """What the agent's own processes have; of us only the kind of our terminal."""
    term = os.environ.get("TERM", "")
    parent = {"HIVE_PARENT": place.parent} if place.parent else {}
    return {
        "PATH": PATH,
        "HOME": "/root",
        "LANG": "C.UTF-8",
        "TERM": term if _TERM.fullmatch(term) else "dumb",
        "HIVE_NAME": place.name,
        "HIVE_SOCKET": "/run/hive/broker.sock",
        "PYTHONPATH": "/opt/hive/hive_core/agent/python",
        "CREDENTIALS_DIRECTORY": "/run/hive/credentials",
        **parent,
    }


def run(place: Place, command: Sequence[str]) -> int:
    """Run a command inside; its exit status is ours."""
    try:
        leader = os.pidfd_open(place.leader)
    except ProcessLookupError as error:
        raise NotRunning(f"cannot enter {place.name}: it has just ended") from error
    try:
        if os.isatty(0) and os.isatty(1):
            status = on_terminal(lambda terminal: argv(place, command, terminal))
        else:
            status = in_pipes(argv(place, command))
        if status == _KILLED and select.select([leader], [], [], _ENDING)[0]:
            say(f"{place.name} was stopped or restarted, and what ran in it ended")
    finally:
        os.close(leader)
    return status
