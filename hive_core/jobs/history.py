"""Checks that a pack holds a commit with its whole history, and nothing else."""

from __future__ import annotations

from hive_core.jobs.git import Git
from hive_core.jobs.outcome import JobRefused
from hive_core.plan.intake_limits import IntakeLimits

_SHAPE = "--batch-check=%(objectname) %(objecttype) %(objectsize)"


def check_history(git: Git, commit: str, caps: IntakeLimits) -> set[str]:
    """The names of the commit's objects.

    Refused if there are too many, if one is too large or missing, or if one does not belong to the
    commit.
    """
    words = ("--batch-all-objects", "--unordered", "--buffer")
    rows = [row.split() for row in git.run("cat-file", *words, _SHAPE).splitlines()]
    kinds = {name: kind for name, kind, _ in rows}
    if kinds.get(commit, "commit") != "commit":
        raise JobRefused("commit", f"{commit} is a {kinds[commit]}")
    if len(rows) > caps.objects:
        raise JobRefused("objects", f"{len(rows)} objects exceed the limit of {caps.objects}")
    paths = dict(_reachable(git, commit))
    if kinds.keys() != paths.keys():
        raise JobRefused("whole", "the pack does not hold exactly this commit with its history")
    for name, kind, size in rows:
        if int(size) > caps.blob:
            text = f"the {kind} {name[:8]} is larger than {caps.blob} bytes"
            raise JobRefused("blob", text, paths[name])
    return set(paths)


def _reachable(git: Git, commit: str) -> list[tuple[str, str]]:
    """The objects of the commit's history, with a path where they have one."""
    try:
        rows = git.run("rev-list", "--objects", commit).splitlines()
    except JobRefused as error:
        raise JobRefused("whole", f"the history is incomplete: {error.text}") from error
    return [(name, path) for name, _, path in (row.partition(" ") for row in rows)]
