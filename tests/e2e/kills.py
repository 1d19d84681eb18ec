"""Kills of the daemon that several stories have in common: each start of it costs a second."""

from __future__ import annotations

from collections.abc import Iterator

from e2e.hivehost import HiveHost


def tell_with_kills(host: HiveHost, *stories: Iterator[None]) -> None:
    """Tell the stories side by side. Where one yields, the daemon is killed, for all that do."""
    untold = list(stories)
    while untold := [story for story in untold if _goes_on(story)]:
        host.kill()


def _goes_on(story: Iterator[None]) -> bool:
    """Whether it has come to a kill, and not to its end."""
    try:
        next(story)
    except StopIteration:
        return False
    return True
