"""The contents of a hive host: accounts, directories, files and units. Values only, no effects.

The root helper and the daemon create the stores below /var/lib/hive.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LEAST: Final = 252  # of systemd: what Debian 12 has
WISHED: Final = 253  # from here on a file descriptor store outlives a failed unit's restart
WISHED_FOR: Final = (
    f"works; from {WISHED} on, the sockets of hived also stay open while a start of hived fails"
)

USER: Final = "hive"
MODEL_USER: Final = "hive-model"  # calls providers, with their keys
SMALL_USER: Final = "hive-small"  # runs the embedded model
EGRESS_USER: Final = "hive-egress"  # connects agents to the internet
# They act on login.sock on behalf of accounts: the dashboard, notifications, traces.
LOGIN_USERS: Final = ("hive-web", "hive-notify", "hive-otel")
LOGINS: Final = "hive-login"  # may open login.sock
OPERATORS: Final = "hive-operator"
GROUPS: Final = (OPERATORS, LOGINS)
NO_HOME: Final = "/nonexistent"
JOURNAL: Final = "systemd-journal"
HOME: Final = "/var/lib/hive"
USERS: Final = {
    USER: HOME, MODEL_USER: NO_HOME, SMALL_USER: NO_HOME, EGRESS_USER: NO_HOME,
    **dict.fromkeys(LOGIN_USERS, NO_HOME),
}  # fmt: skip
RUN: Final = "/run/hive"
CONFIG: Final = "/etc/hive/hive.toml"
MODELS: Final = "/etc/hive/models.toml"
KEYS: Final = "/etc/hive/keys"
NOTIFY: Final = "/etc/hive/notify"  # the secrets of routes, and the token of hive-notify
OTEL: Final = "/etc/hive/otel"  # the headers for the receiver, and the token of hive-otel
# What scripts/install puts beside hive: the embedded model, and what sessions import.
SMALL: Final = "/usr/local/lib/hive-small"
RUNTIME: Final = "/usr/local/lib/hive-runtime"
# Made by the units of services.
SERVICE_STATES: Final = ("/var/lib/hive-model", "/var/lib/hive-notify", "/var/lib/hive-otel")
META: Final = f"{HOME}/meta"
UNITS: Final = (
    "hive-privd.service", "hived.service", "hive-model.socket", "hive-model.service",
    "hive-egress.service",
)  # fmt: skip
WEB_UNITS: Final = ("hive-web.socket",)  # it starts hive-web.service at the first connection
LOGIN_UNITS: Final = ("hive-notify.service", "hive-otel.service")  # where hive.toml wants them
SMALL_UNITS: Final = ("hive-small.socket",)  # it starts hive-small.service at the first call
ON_DEMAND: Final = ("hive-small.service", "hive-web.service")
# Whatever runs beside agents; what is optional may not be there.
OPTIONAL_UNITS: Final = (*SMALL_UNITS, *WEB_UNITS, *LOGIN_UNITS)
ALL_UNITS: Final = (*UNITS, *OPTIONAL_UNITS, *ON_DEMAND)
SOCKETS: Final = (Path("/run/hive-model"), Path("/run/hive-small"))
REMOTE: Final = "git-remote-hive"  # git searches PATH for it
LINK: Final = Path("/usr/local/bin") / REMOTE
AGENTS: Final = ("hive-agent@*.service", "hive-job@*.service")
SYSTEM: Final = Path("/etc/systemd/system")
# From older versions, in which the git of operators accessed hived's repositories (attack 59).
OLD_UNITS: Final = ("hive-git.path", "hive-git.service")
OLD_GIT: Final = "/etc/hive/gitconfig"
OLD_FILES: Final = (
    *(SYSTEM / unit for unit in OLD_UNITS), Path(OLD_GIT), Path("/run/hive/applied.changed"),
)  # fmt: skip
TMPFILES: Final = Path("/etc/tmpfiles.d")
PACKAGE: Final = Path(__file__).parents[3]
TEMPLATES: Final = (PACKAGE / "privd" / "unit_files", PACKAGE / "host" / "unit_files")


@dataclass(frozen=True, slots=True)
class Directory:
    path: str
    mode: int
    owner: str
    group: str


@dataclass(frozen=True, slots=True)
class File:
    """A file with its whole text.

    A `kept` file that exists belongs to the operator and is not replaced.
    """

    path: Path
    text: str
    mode: int = 0o644
    keep_existing: bool = False


# hived writes to its home; the sticky bit prevents it from replacing files of root.
DIRECTORIES: Final = (
    Directory("/etc/hive", 0o755, "root", "root"),
    Directory(HOME, 0o1775, "root", USER),
    Directory(KEYS, 0o750, "root", MODEL_USER),
    Directory(NOTIFY, 0o700, "root", "root"),
    Directory(OTEL, 0o700, "root", "root"),
)
# Garbage collector roots of Nix, for the systems of agents.
PROFILES: Final = Directory("/nix/var/nix/profiles/hive", 0o755, USER, USER)


def directories() -> Iterator[Directory]:
    """The directories of this machine.

    Those for garbage collector roots only if Nix is installed.
    """
    yield from DIRECTORIES
    if Path(PROFILES.path).parent.is_dir():
        yield PROFILES


@dataclass(frozen=True, slots=True)
class Installation:
    """The paths of this installation: entry points, interpreter, package."""

    bin: str
    python: str
    package: str = str(PACKAGE)
    small: str = SMALL

    def render(self, template: str) -> str:
        """A unit's text with the places filled in."""
        places = {
            "@BIN@": self.bin, "@PYTHON@": self.python, "@PACKAGE@": self.package,
            "@SMALL@": self.small,
        }  # fmt: skip
        for word, place in places.items():
            template = template.replace(word, place)
        return template


def templates() -> Iterator[Path]:
    """Unit and tmpfiles templates of this package."""
    for room in TEMPLATES:
        yield from sorted(path for path in room.glob("*") if path.suffix in _TARGETS)


_TARGETS: Final = {
    ".service": SYSTEM, ".slice": SYSTEM, ".socket": SYSTEM, ".tmpfiles": TMPFILES,
}  # fmt: skip


def _target(template: Path) -> Path:
    name = f"{template.stem}.conf" if template.suffix == ".tmpfiles" else template.name
    return _TARGETS[template.suffix] / name


def unit_files(installation: Installation) -> list[File]:
    """The unit and tmpfiles files of this installation."""
    return [
        File(_target(template), installation.render(template.read_text()))
        for template in templates()
    ]


def is_of_small(file: File) -> bool:
    """Whether a unit file belongs to the embedded model, which need not be installed."""
    return file.path.stem == SMALL_USER


def has_small() -> bool:
    """Whether the embedded model is installed."""
    return Path(SMALL, "bin/python").exists()


def programs() -> list[str]:
    """The programs that the units run, without the embedded model where it is not installed."""
    names = dict.fromkeys(unit.rpartition(".")[0] for unit in ALL_UNITS)
    return [name for name in names if name != SMALL_USER or has_small()]


def config_files() -> list[File]:
    """The files of settings: every setting with its default or an example, commented out."""
    folder = Path(__file__).parent
    return [
        File(Path(path), (folder / Path(path).name).read_text(), keep_existing=True)
        for path in (CONFIG, MODELS)
    ]


def old_systemd(version: int) -> str | None:
    """The reason to refuse this version of systemd, or None."""
    if version >= LEAST:
        return None
    return f"systemd {version} is too old: hive needs {LEAST} or newer"
