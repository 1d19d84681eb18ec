"""`hive` without starting Python for each command: a process in the lab has it imported, and forks.

What it forks has its own arguments, input, output and status, as a command has that was started:
only the imports, most of what a short command costs, are made once. An order is a line of JSON
with the words, the input and how many seconds it may take; so is the answer. A process that goes
into a container, and speaks from there, is forked in the same way (inside.py).
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
from importlib import import_module
from typing import Final

from e2e import inside

ORDERS: Final = 100  # where the two pipes are, out of the way of what commands open
ANSWERS: Final = 101


def main() -> None:
    """What the process does; a command goes on behind this as if it had just been started."""
    for place, copy in ((0, ORDERS), (1, ANSWERS)):
        os.dup2(place, copy, inheritable=False)
        os.dup2(os.open(os.devnull, os.O_RDWR), place)
    hive = import_module("hive_core.cli.main")
    for module in set(hive.COMMANDS.values()):
        import_module(f"hive_core.cli.{module.partition(':')[0]}")
    gc.freeze()  # else the first collection in each child copies all of it
    with os.fdopen(ORDERS) as orders:
        for line in orders:
            words, text, seconds = json.loads(line)
            streams = [os.memfd_create(name, 0) for name in ("in", "out", "err")]
            if words[0] == "enter":
                leader, place, target = int(words[1]), words[2], words[3]
                status = inside.enter(leader, place, target, (ORDERS, ANSWERS), streams[2])
                answer(status, streams)
                continue
            os.pwrite(streams[0], text.encode(), 0)
            child = os.fork()
            if not child:
                for place, stream in enumerate(streams):
                    os.dup2(stream, place)
                    os.close(stream)
                os.close(ANSWERS)
                sys.argv = ["hive", *words]
                hive.main()
            answer(wait_for_child(child, seconds), streams)


def wait_for_child(child: int, seconds: float) -> int | None:
    """Its status; None for one that took too long."""
    watched = os.pidfd_open(child)
    late = not select.select([watched], [], [], seconds)[0]
    os.close(watched)
    if late:
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return None if late else status


def answer(status: int | None, streams: list[int]) -> None:
    said = []
    for stream in streams[1:]:
        with os.fdopen(stream, "rb") as file:
            file.seek(0)
            said.append(file.read().decode())
    os.close(streams[0])
    line = json.dumps([status, *said]).encode() + b"\n"
    while line:
        line = line[os.write(ANSWERS, line) :]
