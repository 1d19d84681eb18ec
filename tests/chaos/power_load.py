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

from chaos.shim import Faults
from chaos.stage import Reply, Stage, by_hand

from hive_core.errors import HiveError

VERBS = (
    "send", "send", "spawn", "spawn", "spawn", "move", "stop", "start", "destroy", "hand", "pack",
)  # fmt: skip
HISTORY = "history"
ACKS = "acks"


def state(stage: Stage) -> Reply:
    """What must not be lost."""
    connection, hive = stage.stores.ledger.connection, stage.broker.hive
    bodies = [row[0] for row in connection.rows("SELECT body FROM messages ORDER BY id")]
    wanted = dict[str, str](connection.rows("SELECT agent, wanted FROM runs"))
    return {
        "tree": dict(sorted(hive.topology.parents.items())),
        "bodies": [body for body in bodies if body.isdecimal()],
        "wanted": {name: wanted[spec.id] for name, spec in sorted(hive.specs.items())},
    }


def steps(stage: Stage, chance: random.Random, most: int) -> Iterator[None]:
    """Any of the things that change something, one after another."""
    for number in range(most):
        names = sorted(stage.broker.hive.specs)
        some = chance.choice(names[1:] or names)  # mostly not the root agent
        verb = chance.choice(VERBS if some != "root" else ("send", "spawn"))
        with suppress(HiveError):  # so many children, or so deep, and no more
            _step(stage, verb, some, number)
        yield


def _step(stage: Stage, verb: str, some: str, number: int) -> None:
    match verb:
        case "send":
            stage.call("send", to=some, body=str(number))
        case "spawn":
            stage.call("spawn", name=f"a{number}", parent=some)
        case "move":
            stage.call("move", agent=some, parent="root")
        case "hand":
            parents = dict(stage.broker.hive.topology.parents)
            parents[some] = None if parents[some] else "root"
            by_hand(json.dumps(parents))(stage)
            stage.hand.check_branch()
        case "pack":
            stage.stores.repo.pack(1)
        case _:
            stage.call(verb, agent=some)


def main() -> None:
    folder, most, number = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    work = folder / "work"
    stage = Stage(work)
    stage.call("spawn", name="root", parent="")
    stage.call("send", to="root", body="0")
    acks = os.open(work / ACKS, os.O_WRONLY | os.O_CREAT)
    shutil.copytree(work, folder / "base", symlinks=True)
    history = [state(stage)]
    control = Faults(Path(os.environ["HIVE_FAULTS"]))
    control.record(work, folder / "record")
    for _ in steps(stage, random.Random(number), most):  # noqa: S311 - no secret
        os.write(acks, b".")
        history.append(state(stage))
    control.disarm()
    (folder / HISTORY).write_text(json.dumps(history), encoding="utf-8")


if __name__ == "__main__":
    main()
