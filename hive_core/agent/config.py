"""`hive-agent config clone NAME`: clone a descendant's configuration, to work on it.

Git does not run in the descendant's repository, since the settings and hooks there would run
programs with the rights of the caller (attack 16). Only objects are copied, through upload-pack,
which git keeps safe for untrusted repositories: https://git-scm.com/docs/git-upload-pack#_security
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hive_core.agent import output
from hive_core.errors import AlreadyExists, Internal, InvalidArgument, NotFound, TimedOut
from hive_core.model.names import name_fault

AGENTS: Final = Path("/agents")
ABOUT: Final = "Clone the configuration of a descendant, to work on it."
_PATIENCE: Final = 120.0


@dataclass(frozen=True, slots=True)
class ConfigClone:
    """A clone of the configuration of `name` for `me`, at `into` or the default place."""

    name: str
    me: str
    into: Path | None = None
    agents: Path = AGENTS
    patience: float = _PATIENCE

    @property
    def source(self) -> Path:
        return self.agents / self.name / "config"

    @property
    def place(self) -> Path:
        return self.into or self.agents / self.me / "state/configs" / self.name

    def make(self) -> Path:
        """Make the clone and return its place; raise the reason when that is not possible."""
        self._check()
        words = [*_WORDS, *self._settings(), "--", str(self.source), str(self.place)]
        _run(words, self.patience, f"cannot clone the configuration of {self.name}")
        return self.place

    def _check(self) -> None:
        if fault := name_fault(self.name):
            raise InvalidArgument(f"{self.name!r} {fault}", field="name")
        if self.name == self.me:
            raise InvalidArgument(
                f"that is your own configuration; edit it in {self.source}", field="name"
            )
        if not (self.agents / self.name).exists():
            raise NotFound(f"no such agent below you: {self.name}")
        own = self.source / ".git"
        if own.is_symlink() or not own.is_dir():
            advice = f"`hive-agent init-config {self.name}` makes one"
            raise NotFound(f"{self.name} has no repository in {self.source}; {advice}")
        if os.path.lexists(self.place) and not _empty(self.place):
            advice = f"`git -C {self.place} pull` updates it"
            raise AlreadyExists(f"{self.place} exists: {advice}")

    def _settings(self) -> list[str]:
        # Settings of the clone: links stay files, later objects are checked, and upload-pack
        # ignores the owner of the source, which may be any user of the descendant.
        real = self.source.resolve() / ".git"
        upload = f"git -c safe.directory={real} -c safe.directory={self.source}/.git upload-pack"
        settings = {
            "user.name": self.me, "user.email": f"{self.me}@hive.invalid", "core.symlinks": "false",
            "core.protectHFS": "true", "core.protectNTFS": "true", "fetch.fsckObjects": "true",
            "remote.origin.uploadpack": upload,
        }  # fmt: skip
        words = [f"--config={key}={value}" for key, value in settings.items()]
        return [*words, f"--upload-pack={upload}"]


_WORDS: Final = ("clone", "--quiet", "--no-local", "--no-tags", "--no-recurse-submodules",
                 "--template=", "--origin=origin")  # fmt: skip
_ENVIRONMENT: Final = {
    "HOME": "/nonexistent", "LC_ALL": "C", "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_ATTR_NOSYSTEM": "1", "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1", "GIT_ALLOW_PROTOCOL": "file", "GIT_TERMINAL_PROMPT": "0",
}  # fmt: skip


def run_config(_path: str, arguments: Sequence[str]) -> int:
    """Run the command; its only subcommand is `clone`."""
    parser = argparse.ArgumentParser("hive-agent config", description=ABOUT)
    below = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    clone = below.add_parser("clone", help=ABOUT, description=ABOUT)
    clone.add_argument("name", help="agent whose configuration is cloned")
    clone.add_argument(
        "dir", nargs="?", type=Path,
        help="folder of the clone; `--source` of request-apply-commit expects state/configs/NAME",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    me = os.environ.get("HIVE_NAME", "")
    place = ConfigClone(options.name, me, options.dir).make()
    output.line(str(place))
    output.complaint(f"commit there, then: hive-agent request-apply-commit {options.name}"
                   f" $(git -C {place} rev-parse HEAD) WHY --source {me}")  # fmt: skip
    return 0


def _empty(place: Path) -> bool:
    return place.is_dir() and not place.is_symlink() and not any(place.iterdir())


def _run(words: Sequence[str], patience: float, aim: str) -> None:
    """Run git in its own process group, which is killed when git ends or `patience` is over."""
    environment = {**_ENVIRONMENT, "PATH": os.environ.get("PATH", os.defpath)}
    try:
        process = subprocess.Popen(
            ("git", *words), env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise NotFound(f"{aim}: git is not installed in this container") from error
    with process:
        try:
            _, said = process.communicate(timeout=patience)
        except subprocess.TimeoutExpired as error:
            raise TimedOut(f"{aim}: it takes longer than {patience:g} seconds") from error
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        lines = said.decode("utf-8", "replace").splitlines()
        wrong = [line for line in lines if line.startswith(("fatal:", "error:"))] or lines[-1:]
        raise Internal(f"{aim}: {'; '.join(wrong[:3])}")
