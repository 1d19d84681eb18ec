"""The command line of `hived`, and the user that may run it."""

from __future__ import annotations

import argparse
import os
import pwd
from collections.abc import Sequence
from pathlib import Path

from hive_core import VERSION
from hive_core.errors import NotAllowed, NotFound
from hive_core.host.config.settings import FILE


def parse_settings_file(arguments: Sequence[str]) -> Path:
    """The settings file to use. Help, the version and a wrong option end the program here."""
    parser = argparse.ArgumentParser(
        "hived", description="The hive daemon. systemd runs it: `systemctl start hived`."
    )
    parser.add_argument(
        "file", nargs="?", type=Path, default=FILE, metavar="FILE",
        help=f"settings of hive (default: {FILE})",
    )  # fmt: skip
    parser.add_argument("--version", action="version", version=f"hived {VERSION}")
    file: Path = parser.parse_args(arguments).file
    return file


def check_user(state: Path) -> None:
    """Refuse to run as a user other than the one whose primary group has the state folder.

    Files and sockets of another user would keep the hived of systemd from starting. The folder
    itself belongs to root, so that hived cannot replace the tree in it.
    """
    try:
        group = state.stat().st_gid
    except FileNotFoundError:
        raise NotFound(f"no folder {state}; `hive setup` makes it") from None
    if os.getegid() != group:
        user = next((row.pw_name for row in pwd.getpwall() if row.pw_gid == group), f"of {group}")
        raise NotAllowed(f"hived runs as user {user}; use `systemctl start hived`")
