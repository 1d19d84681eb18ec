"""All effects of `hive setup` and `hive teardown` on the machine.

Every method is idempotent and reports each change in one line.
"""

from __future__ import annotations

import grp
import os
import pwd
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from hive_core.cli.host.install.layout import Directory, File, Installation
from hive_core.errors import Conflict, HiveError

_SHELLS: Final = ("/usr/sbin/nologin", "/sbin/nologin", "/bin/false")
_POLL: Final = 0.05
_NAMED_MOST: Final = 12  # units in one line
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # of a login


def _unescape(point: bytes) -> str:
    """Decode a mount point; the kernel writes blanks and line breaks as octal digits."""
    return os.fsdecode(re.sub(rb"\\([0-7]{3})", lambda digits: bytes([int(digits[1], 8)]), point))


class Broken(HiveError):
    """A failed program of the machine; the reason has its output."""


def systemd_version() -> int:
    """The running machine's systemd, 0 if there is none."""
    try:
        done = subprocess.run(
            ["systemctl", "--version"], capture_output=True, text=True, check=False
        )
    except OSError:
        return 0
    match = re.match(r"systemd (\d+)", done.stdout)
    return int(match[1]) if match else 0


def runs_systemd() -> bool:
    """Whether systemd is the first process of this machine.

    https://man7.org/linux/man-pages/man3/sd_booted.3.html
    """
    return Path("/run/systemd/system").is_dir()


def installation() -> Installation:
    """The entry points of this hive, next to the running command."""
    beside = (Path(sys.argv[0]).resolve().parent, Path(sys.executable).parent)
    program = shutil.which("hived", path=os.pathsep.join(map(str, beside))) or shutil.which("hived")
    if program is None:
        raise Conflict("cannot find hived beside the command hive: install the package first")
    return Installation(bin=str(Path(program).parent), python=sys.executable)


def settings(config: Path) -> dict[str, object]:
    """Read the settings file; only the daemon validates it."""
    try:
        return tomllib.loads(config.read_text())
    except (OSError, ValueError) as error:
        raise Conflict(f"cannot read {config}: {error}") from error


class HostMachine:
    """The machine; every change is reported through `tell`."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell

    def run(self, *argv: str, check: bool = True) -> str:
        """Run a program of the machine and return its output."""
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if check and done.returncode:
            output = (done.stderr or done.stdout).strip()
            raise Broken(f"{' '.join(argv)} ended with {done.returncode}: {output}")
        return done.stdout

    def group(self, name: str) -> None:
        if name not in {entry.gr_name for entry in grp.getgrall()}:
            self.run("groupadd", "--system", name)
            self._tell(f"created group {name}")

    def user(self, name: str, home: str) -> None:
        """Create a system user that cannot log in."""
        if name in {entry.pw_name for entry in pwd.getpwall()}:
            return
        shell = next((path for path in _SHELLS if Path(path).exists()), _SHELLS[-1])
        self.run("useradd", "--system", "--gid", name, "--home-dir", home, "--no-create-home",
                 "--shell", shell, "--comment", "hive daemon", name)  # fmt: skip
        self._tell(f"created user {name}")

    def member(self, user: str, group: str) -> None:
        if user not in grp.getgrnam(group).gr_mem:
            self.run("usermod", "--append", "--groups", group, user)
            self._tell(f"added user {user} to group {group}")

    def directory(self, wanted: Directory) -> None:
        """Create a directory, or correct its owner and mode."""
        path = Path(wanted.path)
        uid, gid = pwd.getpwnam(wanted.owner).pw_uid, grp.getgrnam(wanted.group).gr_gid
        if not path.exists():
            path.mkdir(parents=True)
            self._tell(f"created {path}")
        facts = path.lstat()
        if (facts.st_uid, facts.st_gid, facts.st_mode & 0o7777) != (uid, gid, wanted.mode):
            os.chown(path, uid, gid)
            path.chmod(wanted.mode)

    def file(self, wanted: File) -> bool:
        """Write a file that differs; return whether it was written."""
        path = wanted.path
        if path.exists() and (wanted.keep_existing or path.read_text() == wanted.text):
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f".{path.name}.new")
        new.write_text(wanted.text)
        new.chmod(wanted.mode)
        new.replace(path)
        self._tell(f"wrote {path}")
        return True

    def remove(self, paths: Iterable[Path]) -> None:
        """Remove files, and directories with their contents; do not follow symlinks."""
        for path in paths:
            if path.is_mount():
                # A mount point stays; its contents are removed.
                self.remove(path.iterdir())
            elif path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
                self._tell(f"removed {path}")
            elif path.exists() or path.is_symlink():
                path.unlink()
                self._tell(f"removed {path}")

    def forget_git(self, key: str, value: str) -> None:
        """Remove a line from the system settings of git."""
        config = ("git", "-C", "/", "config", "--system")  # outside of any repository
        if value in self.run(*config, "--get-all", key, check=False).splitlines():
            self.run(*config, "--fixed-value", "--unset-all", key, value)
            self._tell(f"removed {value} from the system settings of git")

    def reachable(self, link: Path, program: Path) -> None:
        """Link a program of hive into the PATH of all users, if it is missing."""
        if link.is_symlink() and not link.exists():
            link.unlink()  # of a removed installation
        if shutil.which(link.name, path=_PATH) is None and program.exists():
            link.symlink_to(program)
            self._tell(f"linked {link}")

    def unreachable(self, link: Path) -> None:
        if link.is_symlink():
            link.unlink()
            self._tell(f"removed {link}")

    def account_gone(self, user: str, groups: Sequence[str]) -> None:
        if user in {entry.pw_name for entry in pwd.getpwall()}:
            self.run("userdel", user)
            self._tell(f"removed user {user}")
        for group in groups:
            if group in {entry.gr_name for entry in grp.getgrall()}:
                self.run("groupdel", group)
                self._tell(f"removed group {group}")

    def restart(self, unit: str) -> None:
        """Restart a unit; a failure carries the last lines of its log."""
        try:
            self.run("systemctl", "restart", unit)
        except Broken as error:
            log = self.run("journalctl", "--no-pager", "--quiet", "--output=cat", "--lines=3",
                            f"--unit={unit}", f"_SYSTEMD_UNIT={unit}", check=False)  # fmt: skip
            raise Broken(f"{unit} does not start, its log ends with:\n{log}") from error

    def keep_active(self, unit: str, *, changed: bool) -> None:
        """Start a unit that does not run, and restart one whose file has changed."""
        was_active = self.active(unit)
        if was_active and not changed:
            return
        self.restart(unit)
        self._tell(f"{'restarted' if was_active else 'started'} {unit}")

    def disable(self, unit: str) -> bool:
        """Stop a unit and start it at no boot; also one that systemd waits to start again.

        Whether there was anything to do.
        """
        is_enabled = self.run("systemctl", "is-enabled", unit, check=False).strip() == "enabled"
        if not is_enabled and not self.active_or_ending(unit):
            return False
        self.run("systemctl", "disable", "--now", "--quiet", unit)
        self._tell(f"stopped {unit}")
        return True

    def active(self, unit: str) -> bool:
        return self.run("systemctl", "is-active", unit, check=False).strip() == "active"

    def loaded_units(self, *patterns: str) -> list[str]:
        """Units of these names that are active or failed."""
        listed = self.run("systemctl", "list-units", "--all", "--plain", "--no-legend",
                          "--no-pager", "--full", *patterns)  # fmt: skip
        return [line.split()[0] for line in listed.splitlines() if line.strip()]

    def end(self, patterns: Sequence[str], patience: float) -> None:
        """Stop units gracefully, and after a while with force."""
        units = self.loaded_units(*patterns)
        if not units:
            return
        self.run("systemctl", "stop", "--no-block", *units, check=False)
        ends = time.monotonic() + patience
        while any(self.active_or_ending(unit) for unit in units):
            if time.monotonic() > ends:
                self.run("systemctl", "kill", "--signal=KILL", *units, check=False)
                ends = time.monotonic() + patience
            time.sleep(_POLL)
        self.run("systemctl", "reset-failed", *units, check=False)
        is_short = len(units) <= _NAMED_MOST
        self._tell(f"stopped {', '.join(units) if is_short else f'{len(units)} units'}")

    def active_or_ending(self, unit: str) -> bool:
        state = self.run("systemctl", "is-active", unit, check=False).strip()
        return state in ("active", "activating", "deactivating", "reloading")

    def unmount_below(self, place: str) -> None:
        """Detach every mount below a path, the deepest first."""
        lines = Path("/proc/self/mounts").read_bytes().rstrip(b"\n").split(b"\n")
        points = [_unescape(line.split(b" ")[1]) for line in lines]
        for point in reversed([path for path in points if path.startswith(f"{place}/")]):
            self.run("umount", "--lazy", point, check=False)
