"""Kills of the daemon that several stories have in common: each start of it costs a second."""

from __future__ import annotations

from collections.abc import Iterator

from e2e.hivehost import HiveHost

_TOLD = -1.0


def tell_with_kills(host: HiveHost, *stories: Iterator[float | None]) -> None:
    """Tell the stories side by side. Where one yields, the daemon is killed, for all that do.

    A story may yield for how many seconds there has to be no daemon.
    """
    untold = list(stories)
    while untold:
        pauses = [(story, next(story, _TOLD) or 0.0) for story in untold]
        untold = [story for story, pause in pauses if pause != _TOLD]
        if untold:
            _kill(host, max(pause for _, pause in pauses))


def _kill(host: HiveHost, seconds: float) -> None:
    if seconds <= 0:
        host.kill()
        return
    kill = "systemctl kill --kill-whom=main --signal=KILL hived.service"
    script = f"{kill}; systemctl stop hived.service; sleep {seconds}; systemctl start hived.service"
    host.run("sh", "-ec", script)
    host.close_connections()
    host.answers()
