"""Changes a hive while every change of the disk is recorded: `python -m chaos.power_load`.

What was acknowledged goes into a file beside it, so that it stands in the record in its place.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from chaos.offline_daemon import OfflineDaemon, Reply, by_hand
from chaos.shim import Faults

from hive_core.errors import HiveError

VERBS = (
    "send", "send", "spawn", "spawn", "spawn", "move", "stop", "start", "destroy", "hand", "pack",
)  # fmt: skip
HISTORY = "history"
ACKS = "acks"


def state(daemon: OfflineDaemon) -> Reply:
    """What must not be lost."""
    connection, hive = daemon.stores.ledger.connection, daemon.broker.hive
    bodies = [row[0] for row in connection.rows("SELECT body FROM messages ORDER BY id")]
    wanted = dict[str, str](connection.rows("SELECT agent, wanted FROM runs"))
    return {
        "tree": dict(sorted(hive.topology.parents.items())),
        "bodies": [body for body in bodies if body.isdecimal()],
        "wanted": {name: wanted[spec.id] for name, spec in sorted(hive.specs.items())},
    }


def steps(daemon: OfflineDaemon, chance: random.Random, most: int) -> Iterator[None]:
    """Any of the things that change something, one after another."""
    for number in range(most):
        names = sorted(daemon.broker.hive.specs)
        some = chance.choice(names[1:] or names)  # mostly not the root agent
        verb = chance.choice(VERBS if some != "root" else ("send", "spawn"))
        with suppress(HiveError):  # so many children, or so deep, and no more
            _step(daemon, verb, some, number)
        yield


def _step(daemon: OfflineDaemon, verb: str, some: str, number: int) -> None:
    match verb:
        case "send":
            daemon.call("send", to=some, body=str(number))
        case "spawn":
            daemon.call("spawn", name=f"a{number}", parent=some)
        case "move":
            daemon.call("move", agent=some, parent="root")
        case "hand":
            parents = dict(daemon.broker.hive.topology.parents)
            parents[some] = None if parents[some] else "root"
            by_hand(json.dumps(parents))(daemon)
            daemon.hand.check_branch()
        case "pack":
            daemon.stores.repo.pack(1)
        case _:
            daemon.call(verb, agent=some)


def main() -> None:
    folder, most, number = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    work = folder / "work"
    daemon = OfflineDaemon(work)
    daemon.call("spawn", name="root", parent="")
    daemon.call("send", to="root", body="0")
    acks = os.open(work / ACKS, os.O_WRONLY | os.O_CREAT)
    shutil.copytree(work, folder / "base", symlinks=True)
    history = [state(daemon)]
    control = Faults(Path(os.environ["HIVE_FAULTS"]))
    control.record(work, folder / "record")
    for _ in steps(daemon, random.Random(number), most):  # noqa: S311 - no secret
        os.write(acks, b".")
        history.append(state(daemon))
    control.disarm()
    (folder / HISTORY).write_text(json.dumps(history), encoding="utf-8")


if __name__ == "__main__":
    main()
