"""What the Nix of this host would do for agents: whether it is there, and whether it builds apart.

Debian ships `sandbox = false`, with which a build sees the files of the host; and where a sandbox
cannot be made, Nix by default goes on without one. So the image `nix` needs both settings as they
should be (attack 29). https://nix.dev/manual/nix/latest/command-ref/conf-file
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

CONF: Final = Path("/etc/nix/nix.conf")
SOCKET_FOLDER: Final = Path("/nix/var/nix/daemon-socket")  # closed to hived on Debian
_ALIASES: Final = {"build-use-chroot": "sandbox", "build-use-sandbox": "sandbox"}
_DEFAULTS: Final = {"sandbox": "true", "sandbox-fallback": "true"}
_NEEDED: Final = {"sandbox": "true", "sandbox-fallback": "false"}
_DEPTH: Final = 10


def fault(conf: Path = CONF, socket_folder: Path = SOCKET_FOLDER) -> str:
    """Why no agent of the image `nix` can be had on this host; empty: one can."""
    if not socket_folder.is_dir():
        return f"the image nix needs the Nix daemon, and there is no {socket_folder}"
    values = {**_DEFAULTS, **settings(conf)}
    needed = _NEEDED.items()
    wrong = [
        f"`{key} = {value}`, not `{values[key]}`," for key, value in needed if values[key] != value
    ]
    if wrong:
        return (
            f"the image nix needs {' and '.join(wrong)} in {conf}, and the Nix daemon started"
            " again: without, what builds for an agent sees the host"
        )
    return ""


def settings(conf: Path, depth: int = 0) -> dict[str, str]:
    """The settings of a file and of those that it includes; the last one counts."""
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
