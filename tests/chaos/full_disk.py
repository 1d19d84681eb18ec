"""A hive on a full disk with a few pages left: `python -m chaos.full_disk`, in its own mounts.

Prints one line of JSON for each verb: what it was answered with so much room, and what became of
everything that was acknowledged before.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from chaos.offline_daemon import OfflineDaemon, Reply, durable_state, faults

from hive_core.errors import HiveError, StorageFull

PAGE = 4096
# The first checkpoint of a ledger writes its whole schema, about 1 MiB, into what is held back.
BALLAST = 2 << 20
FILLER = "filler"
MIB = 14
# What sixty trials leave behind has to fit too, and a checkpoint of it into what is held back.
MIB_LONG, BALLAST_LONG = 64, 8 << 20
ROOM = (0, 1, 2, 4, 8, 64)
VERBS = (
    "spawn", "stop", "start", "kill", "restart", "update", "move", "destroy", "restore", "send",
    "recv", "ack", "wake",
)  # fmt: skip


class SmallDisk:
    """A small file system, and a file that fills it."""

    def __init__(self, place: Path, mib: int) -> None:
        self.place = place
        place.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(place)]
        subprocess.run(command, check=True, timeout=60)

    def fill(self, pages: int) -> None:
        """Leave so many pages free; the file was there before, so that it takes no other room."""
        with (self.place / FILLER).open("ab") as file:
            while (left := self._free() - pages) > 0:
                os.posix_fallocate(file.fileno(), file.tell(), left * PAGE)
                file.seek(0, os.SEEK_END)

    def empty(self) -> None:
        os.truncate(self.place / FILLER, 0)

    def _free(self) -> int:
        return os.statvfs(self.place).f_bavail


def outcome(work: Callable[[], object]) -> str:
    """The name of the error, or nothing."""
    try:
        work()
    except HiveError as error:
        return type(error).__name__ if isinstance(error, StorageFull) else f"{error!r}"
    return ""


class Trial:
    """One daemon that goes through it all; agents have names of their own for each verb."""

    def __init__(self, disk: SmallDisk, ballast: int) -> None:
        self.disk = disk
        self.folder = disk.place / "hive"
        self.folder.mkdir()
        (disk.place / FILLER).touch()
        self.daemon = OfflineDaemon(self.folder, ballast)
        self.daemon.ballast.restore()
        for name, parent in (("root", ""), ("lead", "root"), ("writer", "root")):
            self.daemon.call("spawn", name=name, parent=parent)
        self._number = 0

    def verbs(self) -> dict[str, Callable[[], object]]:
        """Each can be done again and again: what it undoes is done before, with room."""
        daemon, number = self.daemon, self._number
        call = daemon.call
        call("spawn", name=f"old{number}", parent="root")
        archive = daemon.uuid(f"old{number}")
        call("destroy", agent=f"old{number}")
        sent = call("send", to="lead", body=f"given {number}")["id"]
        call("spawn", name=f"gone{number}", parent="root")
        call("start", agent="writer")
        big = "x" * 60_000
        return {
            "spawn": lambda: call("spawn", name=f"fresh{number}", parent="lead"),
            "stop": lambda: call("stop", agent="writer"),
            "start": lambda: call("start", agent="writer"),
            "kill": lambda: call("kill", agent="writer", reason="enough"),
            "restart": lambda: call("restart", agent="lead"),
            "update": lambda: call("update", agent="lead"),
            "move": lambda: call("move", agent="writer", parent=("root", "lead")[number % 2]),
            "destroy": lambda: call("destroy", agent=f"gone{number}"),
            "restore": lambda: call("restore", id=archive),
            "send": lambda: call("send", to="lead", body=f"{number} {big}"),
            "recv": lambda: call("recv", "lead", max=1),
            "ack": lambda: call("ack", "lead", ids=[sent]),
            "wake": lambda: call("wake", "lead", body="later"),
        }

    def go(self, verb: str, pages: int) -> Reply:
        """With so little room; then a stop and a kill; then with room again, by the same daemon."""
        daemon, disk = self.daemon, self.disk
        self._number += 1
        do = self.verbs()[verb]
        before = durable_state(daemon)
        disk.fill(pages)
        first = outcome(do)
        lost = first != "" and without_events(before) != without_events(durable_state(daemon))
        urgent = [outcome(urgent_call) for urgent_call in self._urgent()]
        spent = outcome(lambda: daemon.call("send", to="lead", body="spent"))
        alarms = daemon.call("status")["alarms"]
        disk.fill(0)  # the room that was held back is used up too
        worse = [outcome(do), *(outcome(urgent_call) for urgent_call in self._urgent())]
        disk.empty()
        began = time.monotonic()
        daemon.ballast.restore()  # as the daemon does, every other second
        daemon.hand.check_branch()  # and this every second: a branch that lags follows
        again = "" if first == "" or worse[0] == "" else outcome(do)
        took = time.monotonic() - began
        return {
            "verb": verb, "pages": pages, "first": first, "lost": lost, "urgent": urgent,
            "spent": spent, "alarms": alarms, "worse": worse, "again": again, "took": took,
            "held": daemon.ballast.held, "faults": faults(daemon, deep=False),
        }  # fmt: skip

    def _urgent(self) -> list[Callable[[], object]]:
        """What must work on a full disk as long as anything can."""
        call = self.daemon.call
        return [lambda: call("stop", agent="lead"), lambda: call("kill", agent="root")]


def without_events(state: Reply) -> Reply:
    """Refusals are in the log; a lost count of attempts does no damage."""
    return {name: value for name, value in state.items() if name != "events"}


def main() -> None:
    place, most = Path(sys.argv[1]), int(sys.argv[2])
    room = ROOM if most < len(ROOM) else (*range(most), ROOM[-1])
    for number, verb in enumerate(VERBS):
        mib, ballast = (MIB, BALLAST) if room is ROOM else (MIB_LONG, BALLAST_LONG)
        disk = SmallDisk(place / str(number), mib)
        trial = Trial(disk, ballast)
        for pages in room:
            sys.stdout.write(json.dumps(trial.go(verb, pages)) + "\n")
        trial.daemon.close()
        after = OfflineDaemon(trial.folder)
        sys.stdout.write(json.dumps({"verb": verb, "faults": faults(after, deep=True)}) + "\n")
        after.close()


if __name__ == "__main__":
    main()
