"""`hive runtime`: coding CLIs that run the models of agents, at the versions of this hive."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from hive_core.cli.core.lazy import ListGroup
from hive_core.cli.core.output import Column, Listing, output_option, say
from hive_core.cli.core.progress import working
from hive_core.errors import HiveError, InvalidArgument, NotAllowed, NotFound, Unreachable

FOLDER: Final = "/usr/local/lib/hive-clis"
COMPLETE: Final = ".complete"
NO_SETTINGS: Final = "no-settings"
_LOCKS: Final = Path(__file__).with_name("runtimes")
_SECONDS: Final = 1800.0
_TRIAL: Final = 60.0
_LINES: Final = 5
_CPUS: Final = {"x86_64": "x64", "aarch64": "arm64"}
_TRIPLES: Final = {"x64": "x86_64-unknown-linux-musl", "arm64": "aarch64-unknown-linux-musl"}
_OPENCODE_CPUS: Final = {"x64": "x64-baseline", "arm64": "arm64"}
# What npm says about its own settings, which is about no package.
_NOISE: Final = ("npm warn Unknown user config", "npm warn Unknown env config")
NAMES: Final = ("claude", "codex", "opencode")
RUNTIMES: Final = Listing(
    "runtime",
    (Column("runtime"), Column("version"), Column("installed")),
    "no runtimes",
)
name_argument: Final = click.argument("name", type=click.Choice(NAMES))
folder_option: Final = click.option(
    "--folder", type=click.Path(path_type=Path), default=FOLDER, hidden=True
)


@dataclass(frozen=True, slots=True)
class RuntimePackage:
    """One CLI: the lock file that comes with hive, and where it is installed."""

    name: str
    folder: Path

    @property
    def locks(self) -> Path:
        return _LOCKS / self.name

    @property
    def version(self) -> str:
        """The version of this hive."""
        return str(json.loads((self.locks / "package.json").read_text("utf-8"))["version"])

    @property
    def place(self) -> Path:
        return self.folder / self.name

    @property
    def installed(self) -> str:
        """The version that is installed; empty: none."""
        with suppress(OSError):
            return (self.place / COMPLETE).read_text("utf-8").strip()
        return ""

    def program(self, cpu: str) -> str:
        """Its program below the folder of the package: the native one, which needs no node."""
        return {
            "claude": f"node_modules/@anthropic-ai/claude-code-linux-{cpu}/claude",
            "codex": f"node_modules/@openai/codex-linux-{cpu}/vendor/{_TRIPLES[cpu]}/bin/codex",
            # The build for processors without AVX2 runs on all of them.
            "opencode": f"node_modules/opencode-linux-{_OPENCODE_CPUS[cpu]}/bin/opencode",
        }[self.name]


@click.group(cls=ListGroup, aliases={"remove": "rm"})
def runtime() -> None:
    """Install, list and remove coding CLIs, which agents can use as their runtime."""


@runtime.command("list")
@output_option
@folder_option
def list_runtimes(style: str, folder: Path) -> None:
    """List the CLIs: the version of this hive, and the one that is installed."""
    packages = (RuntimePackage(name, folder) for name in NAMES)
    rows = [
        {"runtime": row.name, "version": row.version, "installed": row.installed or "-"}
        for row in packages
    ]
    RUNTIMES.show(rows, style)


@runtime.command()
@name_argument
@folder_option
def install(name: str, folder: Path) -> None:
    """Install the CLI NAME for all agents with this runtime (170 to 400 MB, by npm).

    npm checks every package against the hashes of the lock file that comes with hive, and runs no
    scripts. Containers see the files read-only at /opt/hive/clis from their next start. A version
    that is installed already is not installed again.
    """
    package = RuntimePackage(name, folder)
    if package.installed == package.version:
        say(f"{name} {package.version} is installed already")
        return
    version = install_package(package)
    say(f"{name} {version} is in {package.place}; agents with this runtime have it from their"
        " next start")  # fmt: skip


@runtime.command("rm")
@name_argument
@folder_option
def remove(name: str, folder: Path) -> None:
    """Remove the CLI NAME; agents that run keep it until they stop."""
    package = RuntimePackage(name, folder)
    if not package.place.exists():
        raise NotFound(f"cannot remove {name}: it is not installed")
    _check_root(folder)
    _retire(package.place)
    _sweep(folder)


def install_package(package: RuntimePackage) -> str:
    """Install a package beside the old one, and put it in its place; the version."""
    _check_root(package.folder)
    npm = shutil.which("npm")
    if npm is None:
        raise NotFound(f"cannot install {package.name}: npm is not installed (Debian package npm)")
    cpu = _CPUS.get(platform.machine(), "")
    new = package.folder / f".{package.name}.new"
    shutil.rmtree(new, ignore_errors=True)
    new.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    new.mkdir(mode=0o700)  # until it is complete, whatever the umask is: root runs what is in it
    try:
        for file in ("package.json", "package-lock.json"):
            shutil.copyfile(package.locks / file, new / file)
        with working(f"fetching {package.name} {package.version}"):
            _run_npm(npm, new, package.name)
        _link_program(package, new, cpu)
        version = _try_program(package, new)
        (new / COMPLETE).write_text(f"{package.version}\n", encoding="utf-8")
        _open_to_all(new)
        _retire(package.place)
        new.rename(package.place)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    _sweep(package.folder)
    return version


def _check_root(folder: Path) -> None:
    present = next(place for place in (folder, *folder.parents) if place.exists())
    if not os.access(present, os.W_OK):
        raise NotAllowed(f"cannot write to {present}: run this as root")


def _run_npm(npm: str, folder: Path, name: str) -> None:
    words = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-progress"]
    try:
        done = subprocess.run(
            words, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", timeout=_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        reason = f"cannot install {name}: npm took longer than {_SECONDS:g} s"
        raise Unreachable(reason, service="") from None
    if done.returncode:
        raise HiveError(f"cannot install {name}: npm ended with {done.returncode}:\n{_last(done)}")


def _last(done: subprocess.CompletedProcess[str]) -> str:
    """The last lines that npm wrote."""
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return "\n".join([line for line in lines if not line.startswith(_NOISE)][-_LINES:])


def _link_program(package: RuntimePackage, folder: Path, cpu: str) -> None:
    program = package.program(cpu) if cpu else ""
    if not program or not (folder / program).is_file():
        raise InvalidArgument(
            f"cannot install {package.name}: it is not built for {platform.machine()}",
            field="name",
        )
    (folder / "bin").mkdir()
    (folder / "bin" / package.name).symlink_to(f"../{program}")
    # For a CLI that wants a folder of settings: an empty one, which no agent can write to.
    (folder / NO_SETTINGS / package.name).mkdir(parents=True)


def _try_program(package: RuntimePackage, folder: Path) -> str:
    """Start the program once; the version that it names."""
    words = [str(folder / "bin" / package.name), "--version"]
    environment = {"PATH": os.defpath, "HOME": str(folder), "LANG": "C.UTF-8"}
    try:
        done = subprocess.run(
            words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, errors="replace", timeout=_TRIAL, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HiveError(f"cannot install {package.name}: it does not start: {error}") from None
    if done.returncode or package.version not in done.stdout:
        text = (done.stdout + done.stderr).strip()[-500:]
        raise HiveError(f"cannot install {package.name}: --version ended with {done.returncode}:"
                        f" {text}")  # fmt: skip
    return package.version


def _open_to_all(folder: Path) -> None:
    """Let users in containers read it and root alone write, whatever umask npm ran with."""
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files, "."):
            path = Path(place, name)
            if not path.is_symlink():
                mode = path.stat().st_mode & 0o7777
                readable = mode & 0o755 | 0o444 | (0o111 if mode & 0o100 else 0)
                if readable != mode:
                    path.chmod(readable)


def _retire(place: Path) -> None:
    """Move an old version aside: containers that run still have it."""
    if place.exists():
        old = place.parent / f".old-{os.urandom(4).hex()}"
        place.rename(old)


def _sweep(folder: Path) -> None:
    """Remove old versions that no container has mounted."""
    mounts = "\n".join(_mount_tables())
    for old in folder.glob(".old-*"):
        if old.name not in mounts:
            shutil.rmtree(old, ignore_errors=True)


def _mount_tables() -> Iterator[str]:
    for file in Path("/proc").glob("[0-9]*/mountinfo"):
        with suppress(OSError):
            yield file.read_text("utf-8", errors="replace")
