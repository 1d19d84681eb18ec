"""The one door of `hive setup` and `hive teardown` to the machine.

Everything is idempotent and tells in a line what it did; what was right before is not mentioned.
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
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # of a login


def _unescape(point: bytes) -> str:
    """Give a mount point as it is; the kernel spells blanks and line breaks in octal digits."""
    return os.fsdecode(re.sub(rb"\\([0-7]{3})", lambda digits: bytes([int(digits[1], 8)]), point))


class Broken(HiveError):
    """A program of the machine failed; the reason holds what it said."""


def systemd_version() -> int:
    """The running machine's systemd, 0 if there is none."""
    try:
        done = subprocess.run(
            ["systemctl", "--version"], capture_output=True, text=True, check=False
        )
    except OSError:
        return 0
    found = re.match(r"systemd (\d+)", done.stdout)
    return int(found[1]) if found else 0


def is_booted() -> bool:
    """Whether systemd is the first process: https://man7.org/linux/man-pages/man3/sd_booted.3.html"""
    return Path("/run/systemd/system").is_dir()


def installation() -> Installation:
    """Where the entry points of this hive are: beside the command that runs now."""
    beside = (Path(sys.argv[0]).resolve().parent, Path(sys.executable).parent)
    found = shutil.which("hived", path=os.pathsep.join(map(str, beside))) or shutil.which("hived")
    if found is None:
        raise Conflict("cannot find hived beside the command hive: install the package first")
    return Installation(bin=str(Path(found).parent), python=sys.executable)


def settings(config: Path) -> dict[str, object]:
    """What hive.toml says; the daemon judges it, here only a few words are looked up."""
    try:
        return tomllib.loads(config.read_text())
    except (OSError, ValueError) as error:
        raise Conflict(f"cannot read {config}: {error}") from error


class Machine:
    """Says through `tell` what was changed."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell

    def run(self, *argv: str, check: bool = True) -> str:
        """Run a program of the machine; its output is the answer."""
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if check and done.returncode:
            said = (done.stderr or done.stdout).strip()
            raise Broken(f"{' '.join(argv)} ended with {done.returncode}: {said}")
        return done.stdout

    def group(self, name: str) -> None:
        if name not in {each.gr_name for each in grp.getgrall()}:
            self.run("groupadd", "--system", name)
            self._tell(f"made group {name}")

    def user(self, name: str, home: str) -> None:
        """A system user that cannot log in."""
        if name in {each.pw_name for each in pwd.getpwall()}:
            return
        shell = next((each for each in _SHELLS if Path(each).exists()), _SHELLS[-1])
        self.run("useradd", "--system", "--gid", name, "--home-dir", home, "--no-create-home",
                 "--shell", shell, "--comment", "hive daemon", name)  # fmt: skip
        self._tell(f"made user {name}")

    def member(self, user: str, group: str) -> None:
        if user not in grp.getgrnam(group).gr_mem:
            self.run("usermod", "--append", "--groups", group, user)
            self._tell(f"put user {user} into group {group}")

    def directory(self, wanted: Directory) -> None:
        """Make it, or set right its owner and mode."""
        path = Path(wanted.path)
        uid, gid = pwd.getpwnam(wanted.owner).pw_uid, grp.getgrnam(wanted.group).gr_gid
        if not path.exists():
            path.mkdir(parents=True)
            self._tell(f"made {path}")
        found = path.lstat()
        if (found.st_uid, found.st_gid, found.st_mode & 0o7777) != (uid, gid, wanted.mode):
            os.chown(path, uid, gid)
            path.chmod(wanted.mode)

    def file(self, wanted: File) -> bool:
        """Write it if it is not so already; whether it was written."""
        path = wanted.path
        if path.exists() and (wanted.kept or path.read_text() == wanted.text):
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f".{path.name}.new")
        new.write_text(wanted.text)
        new.chmod(wanted.mode)
        new.replace(path)
        self._tell(f"wrote {path}")
        return True

    def remove(self, paths: Iterable[Path]) -> None:
        """Files, and directories with everything in them; symlinks are not followed."""
        for path in paths:
            if path.is_mount():
                # Somebody's mount stays; what is in it goes.
                self.remove(path.iterdir())
            elif path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
                self._tell(f"removed {path}")
            elif path.exists() or path.is_symlink():
                path.unlink()
                self._tell(f"removed {path}")

    def forget_git(self, key: str, value: str) -> None:
        """Drop a line from the settings of every user's git."""
        config = ("git", "-C", "/", "config", "--system")  # in nobody's repository
        if value in self.run(*config, "--get-all", key, check=False).splitlines():
            self.run(*config, "--fixed-value", "--unset-all", key, value)
            self._tell(f"git is not told of {value} any more")

    def reachable(self, link: Path, program: Path) -> None:
        """Have everybody's PATH lead to a program of ours, if it does not."""
        if link.is_symlink() and not link.exists():
            link.unlink()  # of an installation that is gone
        if shutil.which(link.name, path=_PATH) is None and program.exists():
            link.symlink_to(program)
            self._tell(f"linked {link}")

    def unreachable(self, link: Path) -> None:
        if link.is_symlink():
            link.unlink()
            self._tell(f"removed {link}")

    def account_gone(self, user: str, groups: Sequence[str]) -> None:
        if user in {each.pw_name for each in pwd.getpwall()}:
            self.run("userdel", user)
            self._tell(f"removed user {user}")
        for group in groups:
            if group in {each.gr_name for each in grp.getgrall()}:
                self.run("groupdel", group)
                self._tell(f"removed group {group}")

    def restart(self, unit: str) -> None:
        """Start it afresh; when it does not start, its own last words say why."""
        try:
            self.run("systemctl", "restart", unit)
        except Broken as error:
            said = self.run("journalctl", "--no-pager", "--quiet", "--output=cat", "--lines=3",
                            f"--unit={unit}", f"_SYSTEMD_UNIT={unit}", check=False)  # fmt: skip
            raise Broken(f"{unit} does not start, its log ends with:\n{said}") from error

    def active(self, unit: str) -> bool:
        return self.run("systemctl", "is-active", unit, check=False).strip() == "active"

    def loaded(self, *patterns: str) -> list[str]:
        """Units of these names that are active or failed."""
        listed = self.run("systemctl", "list-units", "--all", "--plain", "--no-legend",
                          "--no-pager", "--full", *patterns)  # fmt: skip
        return [line.split()[0] for line in listed.splitlines() if line.strip()]

    def end(self, patterns: Sequence[str], patience: float) -> None:
        """Stop units gracefully, and after a while with force."""
        units = self.loaded(*patterns)
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
        what = units[0] if len(units) == 1 else f"{len(units)} of {', '.join(patterns)}"
        self._tell(f"stopped {what}")

    def active_or_ending(self, unit: str) -> bool:
        state = self.run("systemctl", "is-active", unit, check=False).strip()
        return state in ("active", "activating", "deactivating", "reloading")

    def unmount_below(self, place: str) -> None:
        """Detach every mount below a place, the deepest first."""
        lines = Path("/proc/self/mounts").read_bytes().rstrip(b"\n").split(b"\n")
        points = [_unescape(line.split(b" ")[1]) for line in lines]
        for point in reversed([each for each in points if each.startswith(f"{place}/")]):
            self.run("umount", "--lazy", point, check=False)
