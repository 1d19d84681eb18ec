"""`hive doctor`: checks of the machine, the installation and the daemon.

No check changes anything.
"""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import stat
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Final

import click

from hive_core.agent.reconnect import wire_name
from hive_core.cli.core.output import Column, Listing, output_option
from hive_core.cli.core.progress import working
from hive_core.cli.core.session import Session
from hive_core.cli.core.units import format_size
from hive_core.cli.host.doctor_models import check_models
from hive_core.cli.host.finding import Finding, fail, ok, warn
from hive_core.cli.host.install import layout
from hive_core.cli.host.install.layout import CONFIG, LEAST, UNITS, WISHED, WISHED_FOR, directories
from hive_core.cli.host.install.machine import systemd_version
from hive_core.cli.host.install.steps import NIXOS, has_dashboard
from hive_core.errors import HiveError
from hive_core.host.config import nix
from hive_core.varlink import Client

PROGRAMS: Final = ("systemd-nspawn", "systemd-run", "systemctl", "nsenter", "git", "mount")
_PATIENCE: Final = 5.0  # seconds to wait for the daemon
SIGNERS: Final = ("ssh-keygen", "gpgv")  # programs that verify signed tags, one for each kind


def _systemd() -> Iterator[Finding]:
    version = systemd_version()
    if version < LEAST:
        yield fail("systemd", f"{version} is too old; {LEAST} or newer is required")
    elif version < WISHED:
        yield warn("systemd", f"{version} {WISHED_FOR}")
    else:
        yield ok("systemd", str(version))
    if not Path("/run/systemd/system").is_dir():
        yield fail("systemd", "systemd is not the first process of this machine")


def _programs() -> Iterator[Finding]:
    for name in PROGRAMS:
        path = shutil.which(name)
        yield ok("program", path) if path else fail("program", f"{name} is missing")
    for name in SIGNERS:
        lacks = warn(
            "program", f"{name} is missing: signed tags that need it cannot approve anything"
        )
        yield ok("program", path) if (path := shutil.which(name)) else lacks


def _users() -> Iterator[Finding]:
    try:
        groups = os.getgrouplist("hive", pwd.getpwnam("hive").pw_gid)
        for user in layout.USERS:
            pwd.getpwnam(user)
        wanted = {name: grp.getgrnam(name).gr_gid for name in (*layout.GROUPS, "systemd-journal")}
    except KeyError as error:
        yield fail("users", f"{error.args[0]}; `hive setup` creates them")
        return
    journal = wanted["systemd-journal"] in groups
    yield (
        ok("users", ", ".join((*layout.USERS, *layout.GROUPS)))
        if journal
        else fail("users", "hive is not in systemd-journal")
    )


def _directories() -> Iterator[Finding]:
    for wanted in directories():
        try:
            facts = Path(wanted.path).lstat()
        except OSError as error:
            yield fail("directory", f"{wanted.path}: {error.strerror}")
            continue
        mode = stat.S_IMODE(facts.st_mode)
        right = stat.S_ISDIR(facts.st_mode) and mode == wanted.mode
        text = f"{wanted.path} {mode:o}"
        wrong = fail("directory", f"{text}, not {wanted.mode:o}")
        yield ok("directory", text) if right else wrong


def _config() -> Iterator[Finding]:
    """Run the validator of the daemon, which does not start with a fault."""
    from hive_core.host.config import settings  # noqa: PLC0415 - pydantic is slow to load

    findings = settings.check(Path(CONFIG))
    yield from (fail("config", finding.text) for finding in findings)
    if not findings:
        yield ok("config", CONFIG)


def check_routes(settings: Path = Path(CONFIG)) -> Iterator[Finding]:
    """Whether hive-notify can send by each of its routes."""
    from hive_core.host.config import routes  # noqa: PLC0415 - pydantic is slow to load

    if not NIXOS.exists():  # there the secrets may lie anywhere
        for finding in routes.check_secrets(settings):
            yield fail("notify", f"nothing is sent by this route: {finding.text}")


def _units() -> Iterator[Finding]:
    optional = (
        *(layout.SMALL_UNITS if layout.has_small() else ()),
        *(layout.WEB_UNITS if _serves_dashboard() else ()),
    )
    for unit in (*UNITS, *optional):
        done = subprocess.run(
            ["systemctl", "is-active", unit], capture_output=True, text=True, check=False
        )
        state = done.stdout.strip() or done.stderr.strip()
        yield (
            ok("unit", f"{unit} is active")
            if state == "active"
            else fail("unit", f"{unit} is {state}")
        )


def _serves_dashboard() -> bool:
    """Whether the dashboard has to run. On NixOS the module decides, and doctor does not know."""
    try:
        return not NIXOS.exists() and has_dashboard()
    except HiveError:  # the check of the settings tells it
        return False


def _quota() -> Iterator[Finding]:
    """Whether project quotas or hived enforce the disk limits of agents (attack 9)."""
    tree = Path("/var/lib/hive/tree")
    text = os.fsdecode(Path("/proc/self/mounts").read_bytes())
    mounts = [line.split(" ") for line in text.rstrip("\n").split("\n")]
    inside = [mount for mount in mounts if tree.is_relative_to(mount[1])]
    _, place, kind, options, *_ = max(reversed(inside), key=lambda mount: len(mount[1]))
    if {"prjquota", "pquota"} & set(options.split(",")):
        yield ok("quota", f"project quotas of {place} ({kind}) enforce the limits of agents")
    else:
        text = (
            f"{place} ({kind}) has no project quotas: hived counts, and parks agents over a limit"
        )
        yield warn("quota", text)


def _caps() -> Iterator[Finding]:
    """Whether the limits of all agents together leave resources to the machine (attack 8)."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for name, most in (("MemoryMax", memory), ("TasksMax", 1 << 22)):
        done = subprocess.run(
            ["systemctl", "show", "--value", f"--property={name}", "hive.slice"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        value = done.stdout.strip()
        bound = value.isdecimal() and int(value) < most
        figure = format_size(int(value)) if name == "MemoryMax" and value.isdecimal() else value
        text = f"{name} of all agents together is {figure or 'unknown'}"
        yield ok("bounds", text) if bound else warn("bounds", f"{text}: no bound")


def _memory() -> Iterator[Finding]:
    """Whether the daemon keeps its memory when the machine runs out of it."""
    if Path("/sys/fs/cgroup/cgroup.controllers").exists():
        yield ok("memory", "hived keeps 192M and the root helper 48M when memory is short")
    else:
        text = "control groups of version 1 reserve no memory for hived when memory is short"
        yield warn("memory", f"{text}; boot with systemd.unified_cgroup_hierarchy=1")


def _crashes() -> Iterator[Finding]:
    """Whether a program that takes core dumps runs as root, outside the limits of agents."""
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
    if pattern.startswith("|"):
        program = pattern[1:].split()[0]
        text = f"crashed processes of agents are passed to {program}, as root and beyond their"
        yield warn("crashes", f"{text} limits, by kernel.core_pattern")
    else:
        yield ok("crashes", "no program of the machine reads core dumps of agents")


def _nix() -> Iterator[Finding]:
    """Whether agents of the image `nix` can run, if the host offers it."""
    try:
        offered = "nix" in tomllib.loads(Path(CONFIG).read_text()).get("images", {})
    except (OSError, ValueError):
        return  # reported above
    fault = nix.fault()
    if offered and fault:
        yield fail("nix", fault)
    elif offered:
        yield ok("nix", "builds are isolated from the host")
    else:
        yield ok("nix", "the image nix is not offered" + (f"; {fault}" if fault else ""))


CHECKS: Final[tuple[Callable[[], Iterator[Finding]], ...]] = (
    _systemd, _programs, _users, _directories, _config, check_routes, _units, _quota, _caps,
    _memory, _crashes, _nix, check_models,
)  # fmt: skip


def _daemon(session: Session) -> Iterator[Finding]:
    try:
        with Client(session.socket, wait=_PATIENCE) as client:
            row = client.call(wire_name("status"))
    except HiveError as error:
        yield fail("hived", f"{error.reason}; see `journalctl -u hived`")
        return
    yield ok("hived", f"answers on {session.socket}")
    alarms = row.get("alarms")
    for alarm in alarms if isinstance(alarms, list) else []:
        yield warn("alarm", str(alarm))


# The advice is at the end of a detail, so that details are not cut.
FINDINGS: Final = Listing(
    "check", (Column("check"), Column("verdict"), Column("detail")), fold=True
)


@click.command
@output_option
@click.pass_obj
def doctor(session: Session, style: str) -> int:
    """Check this machine, the installation and the daemon.

    The exit status is 1 when a check fails.
    """
    with working("checking this machine"):
        findings = [finding for check in CHECKS for finding in check()] + list(_daemon(session))
    FINDINGS.show([asdict(finding) for finding in findings], style)
    return int(any(finding.verdict == "fail" for finding in findings))
