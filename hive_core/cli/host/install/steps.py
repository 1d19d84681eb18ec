"""The steps of `hive setup` and `hive teardown`, in their order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from hive_core.cli.host.install import documents, images, layout
from hive_core.cli.host.install.machine import (  # fmt: skip
    HostMachine,
    installation,
    runs_systemd,
    settings,
    systemd_version,
)
from hive_core.errors import Conflict

NIXOS: Final = Path("/etc/NIXOS")
_PATIENCE: Final = 10.0  # seconds an agent has at teardown before it is killed


def by_configuration(machine: HostMachine) -> bool:
    """Whether the NixOS module has set up this host."""
    return NIXOS.exists() and machine.active("hived.service")


def check(warn: Callable[[str], None]) -> None:
    """Refuse a machine that cannot be a hive host."""
    if NIXOS.exists():
        raise Conflict("NixOS is set up by its configuration: services.hive.enable = true")
    if not runs_systemd():
        raise Conflict("cannot set up: systemd is not the first process here (see scripts/lab)")
    version = systemd_version()
    if refusal := layout.old_systemd(version):
        raise Conflict(f"cannot set up: {refusal}")
    if version < layout.WISHED:
        warn(f"systemd {version} {layout.WISHED_FOR}")


def install(machine: HostMachine) -> None:
    """Create accounts, directories, files and units; start the daemons at the end."""
    _accounts(machine)
    for directory in layout.directories():
        machine.directory(directory)
    for file in layout.config_files():
        machine.file(file)
    machine.file(_images())
    _older(machine)
    place = installation()
    machine.reachable(layout.LINK, Path(place.bin) / layout.REMOTE)
    for file in documents.documents():
        machine.file(file)
    files = _unit_files(machine, place)
    changed = [file.path for file in files if machine.file(file)]
    for path in (file.path for file in files if file.path.parent == layout.TMPFILES):
        machine.run("systemd-tmpfiles", "--create", str(path))
    _units(machine, {path.name for path in changed})


def _unit_files(machine: HostMachine, place: layout.Installation) -> list[layout.File]:
    """The units of what is installed. Those of a removed embedded model go with it."""
    files = layout.unit_files(place)
    if layout.has_small():
        return files
    absent = [file.path for file in files if layout.is_of_small(file) and file.path.exists()]
    if absent:
        names = [path.name for path in absent]
        machine.end(names, _PATIENCE)
        machine.run("systemctl", "disable", "--quiet", *layout.SMALL_UNITS, check=False)
        machine.remove(absent)
    return [file for file in files if not layout.is_of_small(file)]


def _older(machine: HostMachine) -> None:
    """Remove files that older versions installed for the git of operators."""
    units = [unit for unit in layout.OLD_UNITS if (layout.SYSTEM / unit).exists()]
    if units:
        machine.run("systemctl", "disable", "--now", "--quiet", *units, check=False)
    machine.remove(layout.OLD_FILES)
    machine.forget_git("include.path", layout.OLD_GIT)
    machine.forget_git("safe.directory", layout.META)


def _images() -> layout.File:
    named = images.image_paths(settings(Path(layout.CONFIG)))
    return layout.File(images.FILE, images.text(named, images.lines()))


def _accounts(machine: HostMachine) -> None:
    for group in (*layout.USERS, *layout.GROUPS):
        machine.group(group)
    for user, home in layout.USERS.items():
        machine.user(user, home)
    machine.member(layout.USER, layout.JOURNAL)
    for user in layout.LOGIN_USERS:
        machine.member(user, layout.LOGINS)


def _units(machine: HostMachine, changed: set[str]) -> None:
    """Enable and start both daemons; one that runs from an old unit is restarted.

    Agents keep running: containers have their own units.
    """
    if changed:
        machine.run("systemctl", "daemon-reload")
    units = (
        *layout.UNITS, *(layout.SMALL_UNITS if layout.has_small() else ()),
        *(layout.WEB_UNITS if has_dashboard() else ()),
    )  # fmt: skip
    if not has_dashboard():
        for unit in layout.WEB_UNITS:
            machine.disable(unit)
    machine.run("systemctl", "enable", "--quiet", *units)
    if changed.intersection(layout.ON_DEMAND):
        machine.run("systemctl", "stop", *layout.ON_DEMAND, check=False)  # the next call starts it
    for unit in units:
        machine.keep_active(unit, changed=unit in changed)


def has_dashboard(config: Path = Path(layout.CONFIG)) -> bool:
    """Whether the settings want the dashboard, as they do without a word."""
    table = settings(config).get("web")
    return not isinstance(table, dict) or table.get("enable", True) is True


def check_removable() -> None:
    """Refuse NixOS, where the system configuration enables hive."""
    if NIXOS.exists():
        raise Conflict("NixOS is set up by its configuration: services.hive.enable = false")


def running_agents(machine: HostMachine) -> list[str]:
    """Names of the agents whose containers run now."""
    first, last = layout.AGENTS[0].split("*")
    units = machine.loaded_units(layout.AGENTS[0])
    return sorted(unit.removeprefix(first).removesuffix(last) for unit in units)


def remove(machine: HostMachine) -> None:
    """Stop everything and remove the units; files and accounts stay."""
    check_removable()
    helper, *others = layout.ALL_UNITS
    machine.end(others, _PATIENCE)
    machine.end(layout.AGENTS, _PATIENCE)
    machine.end((helper,), _PATIENCE)
    units = (*layout.UNITS, *layout.OPTIONAL_UNITS)
    machine.run("systemctl", "disable", "--quiet", *units, check=False)
    machine.unmount_below(layout.HOME)
    machine.unmount_below(layout.RUN)
    slices = machine.loaded_units("hive*.slice")
    if slices:
        machine.run("systemctl", "stop", *slices, check=False)
        machine.run("systemctl", "revert", *slices, check=False)
    written = [file.path for file in layout.unit_files(layout.Installation("", ""))]
    machine.remove([*written, *documents.PATHS, Path(layout.RUN), *layout.SOCKETS])
    machine.unreachable(layout.LINK)
    _older(machine)
    machine.run("systemctl", "daemon-reload")


def purge(machine: HostMachine) -> None:
    """Remove the files of agents and operators, and the accounts."""
    stores = (layout.HOME, *layout.SERVICE_STATES)
    files = (Path(layout.CONFIG).parent, Path(layout.PROFILES.path))
    machine.remove([*map(Path, stores), *files])
    for user in layout.USERS:
        machine.account_gone(user, (user,))
    machine.account_gone(layout.USER, layout.GROUPS)
