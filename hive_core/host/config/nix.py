"""Checks the Nix of this host: whether it is installed, and whether it builds in a sandbox.

Debian ships `sandbox = false`, which shows a build the files of the host. Where a sandbox cannot be
made, Nix continues without one by default. So the image `nix` requires a value for both settings
(attack 29). https://nix.dev/manual/nix/latest/command-ref/conf-file
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

CONF: Final = Path("/etc/nix/nix.conf")
SOCKET_FOLDER: Final = Path("/nix/var/nix/daemon-socket")  # not accessible to hived on Debian
_ALIASES: Final = {"build-use-chroot": "sandbox", "build-use-sandbox": "sandbox"}
_DEFAULTS: Final = {"sandbox": "true", "sandbox-fallback": "true"}
_NEEDED: Final = {"sandbox": "true", "sandbox-fallback": "false"}
_DEPTH: Final = 10


def fault(conf: Path = CONF, socket_folder: Path = SOCKET_FOLDER) -> str:
    """Why this host cannot run agents of the image `nix`; empty if it can."""
    if not socket_folder.is_dir():
        return f"the image nix needs the Nix daemon, but {socket_folder} does not exist"
    values = {**_DEFAULTS, **settings(conf)}
    needed = _NEEDED.items()
    wrong = [
        f"`{key} = {value}`, not `{values[key]}`," for key, value in needed if values[key] != value
    ]
    if wrong:
        return (
            f"the image nix needs {' and '.join(wrong)} in {conf}, and then a restart of the"
            " Nix daemon: otherwise builds for agents can read the files of the host"
        )
    return ""


def settings(conf: Path, depth: int = 0) -> dict[str, str]:
    """The settings of a file and of the files that it includes; the last value counts."""
    values: dict[str, str] = {}
    try:
        lines = conf.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return values
    for line in lines:
        words = line.partition("#")[0].split()
        if len(words) == 2 and words[0] in ("include", "!include") and depth < _DEPTH:  # noqa: PLR2004
            values |= settings(conf.parent / words[1], depth + 1)
        elif len(words) >= 2 and words[1] == "=":  # noqa: PLR2004
            values[_ALIASES.get(words[0], words[0])] = " ".join(words[2:])
    return values
