"""That what came is a commit with its whole history, and nothing else."""

from __future__ import annotations

from hive_core.jobs.git import Git
from hive_core.jobs.outcome import JobRefused
from hive_core.plan.intake_limits import IntakeLimits

_SHAPE = "--batch-check=%(objectname) %(objecttype) %(objectsize)"


def check_history(git: Git, commit: str, caps: IntakeLimits) -> set[str]:
    """The names of its objects.

    Refused when there are too many of them, one is too large or missing, or one is not its own.
    """
    words = ("--batch-all-objects", "--unordered", "--buffer")
    rows = [row.split() for row in git.run("cat-file", *words, _SHAPE).splitlines()]
    kinds = {name: kind for name, kind, _ in rows}
    if kinds.get(commit, "commit") != "commit":
        raise JobRefused("commit", f"{commit} is a {kinds[commit]}")
    if len(rows) > caps.objects:
        raise JobRefused("objects", f"{len(rows)} objects, and {caps.objects} are allowed")
    paths = dict(_reachable(git, commit))
    if kinds.keys() != paths.keys():
        raise JobRefused("whole", "what came is not this commit with its history alone")
    for name, kind, size in rows:
        if int(size) > caps.blob:
            text = f"the {kind} {name[:8]} is larger than {caps.blob} bytes"
            raise JobRefused("blob", text, paths[name])
    return set(paths)


def _reachable(git: Git, commit: str) -> list[tuple[str, str]]:
    """What belongs to it, with a path where it has one."""
    try:
        rows = git.run("rev-list", "--objects", commit).splitlines()
    except JobRefused as error:
        raise JobRefused("whole", f"its history is not whole: {error.text}") from error
    return [(name, path) for name, _, path in (row.partition(" ") for row in rows)]
