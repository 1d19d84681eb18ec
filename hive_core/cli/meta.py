"""`hive meta git ...`: git in the meta repository, as the user that owns it.

Run as root, git would leave files there that the daemon cannot write, and would obey the
configuration of a repository that is not root's.
"""

from __future__ import annotations

import os
import pwd
from typing import Final

import click

from hive_core.cli.lazy import Group
from hive_core.errors import NotAllowed, NotFound

REPOSITORY: Final = "/var/lib/hive/meta"
USER: Final = "hive"
_KEPT: Final = (
    "TERM", "LANG", "LC_ALL", "EDITOR", "GIT_EDITOR", "VISUAL", "PATH", "NO_COLOR",
    "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL",
)  # fmt: skip


@click.group(cls=Group)
def meta() -> None:
    """Look into the meta repository, or change it by hand."""


def command(arguments: tuple[str, ...]) -> list[str]:
    """The git command line: no hooks, nothing of the operator's own configuration."""
    return ["git", "-C", REPOSITORY, "-c", "core.hooksPath=/dev/null", *arguments]


def environment() -> dict[str, str]:
    """What git may know of the operator, who is the author of what is committed by hand."""
    kept = {key: os.environ[key] for key in _KEPT if key in os.environ}
    who = os.environ.get("SUDO_USER") or pwd.getpwuid(os.getuid()).pw_name
    named = {"NAME": who, "EMAIL": f"{who}@{os.uname().nodename}"}
    authors = {
        f"GIT_{role}_{key}": value
        for role in ("AUTHOR", "COMMITTER")
        for key, value in named.items()
    }
    return {"HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", **authors, **kept}


@meta.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def git(arguments: tuple[str, ...]) -> None:
    """Run git there as the user hive: hive meta git log --oneline."""
    if os.geteuid() != 0:
        raise NotAllowed(f"cannot run git as {USER}: only root may become another user; try sudo")
    try:
        user = pwd.getpwnam(USER)
    except KeyError as error:
        raise NotFound(
            "there is no user hive here: `hive setup` makes this machine a host"
        ) from error
    os.initgroups(USER, user.pw_gid)
    os.setgid(user.pw_gid)
    os.setuid(user.pw_uid)
    os.umask(0o007)
    words = command(arguments)
    os.execvpe(words[0], words, environment())  # noqa: S606 - no shell is wanted
