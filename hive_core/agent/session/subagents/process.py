"""The process of a sub-agent: its own user and process group, ended whole at its time limit."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from hive_core.agent.session.process_tree import kill_process, kill_tree, owner_of, processes
from hive_core.errors import Internal

# Gains no rights from any program, and ends with the thread that waits for it.
_CONFINED: Final = ("setpriv", "--no-new-privs", "--pdeathsig", "KILL", "--")
UIDS: Final = range(60_000, 61_184)  # of sub-agents in a container, as the daemon gives them
_ROUNDS: Final = 20
_PAUSE: Final = 0.01
_PATIENCE: Final = 2.0


class SubagentProcess:
    """One process, and all that it started. `uid` None: it runs as this process does.

    `handle` is its pidfd, which can be read once the process has ended.
    """

    def __init__(
        self, words: Sequence[str], folder: Path, environment: Mapping[str, str], uid: int | None,
        descriptors: Sequence[int] = (),
    ) -> None:  # fmt: skip
        as_user = {} if uid is None else {"user": uid, "group": uid, "extra_groups": []}
        self._uid = uid
        try:
            # It ends itself when the other end of its standard input is closed.
            self._process: subprocess.Popen[bytes] = subprocess.Popen(
                [*_CONFINED, *words], cwd=folder, env=environment, stdin=subprocess.PIPE,
                start_new_session=True, pass_fds=descriptors,
                **as_user,  # type: ignore[call-overload]
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            raise Internal(f"cannot start a sub-agent: {error}") from None
        self.handle = os.pidfd_open(self._process.pid)
        self.stopped = False

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_for_exit(self, seconds: float = 0.0) -> bool:
        """Wait for it to exit by itself; return whether it did. To be called before `end`."""
        return bool(select.select([self.handle], [], [], max(0.0, seconds))[0])

    def wait(self, seconds: float) -> bool:
        """Wait for its end; False when the time is over. What is left of it is killed then."""
        ended = self.wait_for_exit(seconds)
        self.end()
        return ended

    def kill(self) -> None:
        """Kill it from another thread; the thread that waits for `handle` then ends it."""
        self.stopped = True
        self._kill_all()

    def end(self) -> None:
        """Kill what is left of it, and wait for it."""
        if self._process.returncode is not None:
            return
        self._kill_all()
        self._process.wait()
        os.close(self.handle)
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self._uid:
            kill_user(self._uid)

    def _kill_all(self) -> None:
        """End the group, and the programs of tools, which have groups of their own."""
        if self._process.returncode is not None:
            return  # its number may be that of another process by now
        kill_tree(self._process.pid)


def kill_users(uids: range = UIDS) -> None:
    """End the processes of all these users."""
    for uid in {owner_of(pid) for pid in processes()}.intersection(uids):
        kill_user(uid)


def kill_user(uid: int) -> None:
    """End what left the group: no other process has the uid of a sub-agent.

    On a busy machine a process that was killed may live on for some time.
    """
    for _ in range(_ROUNDS):
        for pid in _list_processes(uid):
            kill_process(pid)
        if _kill_as(uid) and not _list_processes(uid):
            return
        time.sleep(_PAUSE)


def _list_processes(uid: int) -> list[int]:
    return [pid for pid in processes() if owner_of(pid) == uid]


def _kill_as(uid: int) -> bool:
    """Kill all processes of the user at once; False where that did not run to its end.

    A process that forks and ends again and again is in no list, but the kernel lets none fork
    while it signals all that the caller may signal, which are those of its user.
    """
    try:
        killer = subprocess.run(
            ("/bin/sh", "-c", "kill -9 -1"), user=uid, group=uid, extra_groups=[], cwd="/", env={},
            stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=_PATIENCE, check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return False
    return killer.returncode >= 0  # else one of them was faster
