"""That what came is a commit with its whole history, and nothing else."""

from __future__ import annotations

from hive_core.jobs.git import Git
from hive_core.jobs.outcome import Refused
from hive_core.plan.intake_limits import Caps

_SHAPE = "--batch-check=%(objectname) %(objecttype) %(objectsize)"


def history(git: Git, commit: str, caps: Caps) -> set[str]:
    """The names of its objects.

    Refused when there are too many of them, one is too large or missing, or one is not its own.
    """
    words = ("--batch-all-objects", "--unordered", "--buffer")
    rows = [row.split() for row in git.run("cat-file", *words, _SHAPE).splitlines()]
    kinds = {name: kind for name, kind, _ in rows}
    if kinds.get(commit, "commit") != "commit":
        raise Refused("commit", f"{commit} is a {kinds[commit]}")
    if len(rows) > caps.objects:
        raise Refused("objects", f"{len(rows)} objects, and {caps.objects} are allowed")
    paths = dict(_reached(git, commit))
    if kinds.keys() != paths.keys():
        raise Refused("whole", "what came is not this commit with its history alone")
    for name, kind, size in rows:
        if int(size) > caps.blob:
            text = f"the {kind} {name[:8]} is larger than {caps.blob} bytes"
            raise Refused("blob", text, paths[name])
    return set(paths)


def _reached(git: Git, commit: str) -> list[tuple[str, str]]:
    """What belongs to it, with a path where it has one."""
    try:
        rows = git.run("rev-list", "--objects", commit).splitlines()
    except Refused as error:
        raise Refused("whole", f"its history is not whole: {error.text}") from error
    return [(name, path) for name, _, path in (row.partition(" ") for row in rows)]
