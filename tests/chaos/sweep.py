"""Makes every durable change under the shim, with a fault each: `python -m chaos.sweep`.

Each order is a line of JSON; each answer is one too. Every life is a fork of this process, because
a kill must end a process and an import of everything takes half a second.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from chaos.offline_daemon import (
    DURABLE_CHANGES,
    DurableChange,
    OfflineDaemon,
    durable_state,
    faults,
    prepare_base,
)
from chaos.shim import Act, Faults, Kind

from hive_core.errors import HiveError
from hive_core.ledger.core.connection import LedgerBroken
from hive_core.operations import load

Reply = dict[str, Any]
Say = Callable[[Reply], None]


def run_forked(work: Callable[[Say], None]) -> tuple[int, list[Reply]]:
    """Run a function in a fork; return its exit status and its output."""
    mine, theirs = os.pipe()
    child = os.fork()
    if not child:
        os.close(mine)
        try:
            work(lambda reply: _say(theirs, reply))
        except BaseException:  # noqa: BLE001 - the fork has no other way to tell
            _say(theirs, {"raised": traceback.format_exc()})
        os._exit(0)
    os.close(theirs)
    with open(mine, encoding="utf-8") as said:  # noqa: PTH123 - a descriptor
        replies = [json.loads(line) for line in said]
    _, status = os.waitpid(child, 0)
    return status, replies


def _say(file: int, reply: Reply) -> None:
    os.write(file, json.dumps(reply).encode() + b"\n")


class Sweep:
    """Folders below one: `base` for every change, one prepared for each change, and `work`."""

    def __init__(self, folder: Path, control: Faults) -> None:
        self._folder = folder
        self._control = control
        self._work = folder / "work"
        self._old: dict[str, Reply] = {}  # the state before a change
        load()  # once, and not in every fork
        gc.freeze()  # else each fork copies all of it as it looks for garbage
        run_forked(lambda _: prepare_base(self._make_folder("base")))

    def _make_folder(self, name: str) -> Path:
        (self._folder / name).mkdir()
        return self._folder / name

    def _prepare(self, name: str) -> Path:
        copy, change = self._folder / name, DURABLE_CHANGES[name]
        if name not in self._old:
            if not change.empty:
                shutil.copytree(self._folder / "base", copy, symlinks=True)
                run_forked(lambda _: self._before(change, copy))
            shutil.copytree(copy if copy.exists() else self._make_folder(name), self._work)
            _, ((self._old[name]),) = run_forked(
                lambda say: say(durable_state(OfflineDaemon(self._work)))
            )
            shutil.rmtree(self._work)
        return copy

    def _before(self, change: DurableChange, folder: Path) -> None:
        daemon = OfflineDaemon(folder)
        change.before(daemon)
        daemon.close()

    def live(self, name: str, deep: bool, how: list[int]) -> Reply:  # noqa: FBT001 - from JSON
        """One run of a change, and the state that the next daemon finds."""
        shutil.rmtree(self._work, ignore_errors=True)
        shutil.copytree(self._prepare(name), self._work, symlinks=True)
        kinds, act, at, number = how
        arm = partial(self._control.arm, self._work, Kind(kinds), Act(act), at, number)
        status, said = run_forked(lambda say: self._first(DURABLE_CHANGES[name], arm, say))
        count, names = self._control.count, self._control.names()
        self._control.disarm()
        _, seen = run_forked(lambda say: self._second(DURABLE_CHANGES[name], say, deep=deep))
        return {"status": status, "said": said, "count": count, "names": names, "found": seen,
                "old": self._old[name]}  # fmt: skip

    def _first(self, change: DurableChange, arm: Callable[[], None], say: Say) -> None:
        if change.opens:
            arm()
            said = _outcome(lambda: change.do(OfflineDaemon(self._work)))
        else:
            daemon = OfflineDaemon(self._work)
            change.ready(daemon)
            arm()
            said = _outcome(lambda: change.do(daemon))
        self._control.disarm()
        say(said)

    def _second(self, change: DurableChange, say: Say, *, deep: bool) -> None:
        daemon = OfflineDaemon(self._work)
        say({"seen": durable_state(daemon), "faults": faults(daemon, deep=False)})
        if change.again:
            change.do(daemon)
        daemon.call("spawn", name="later", parent="")
        say({"seen": durable_state(daemon), "faults": faults(daemon, deep=deep)})
        daemon.close()


def _outcome(work: Callable[[], object]) -> Reply:
    try:
        work()
    except (HiveError, LedgerBroken) as error:
        return {"error": type(error).__name__, "reason": str(error)}
    return {"error": ""}


def main() -> None:
    folder, control = Path(sys.argv[1]), Faults(Path(os.environ["HIVE_FAULTS"]))
    sweep = Sweep(folder, control)
    for line in sys.stdin:
        _say(sys.stdout.fileno(), sweep.live(**json.loads(line)))


if __name__ == "__main__":
    main()
