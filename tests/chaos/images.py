"""Looks at images of a disk after a power cut: `python -m chaos.images`, one folder a line."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

from chaos.offline_daemon import OfflineDaemon, Reply, faults
from chaos.power_load import state
from chaos.sweep import Say, run_forked

from hive_core.operations import load


def look(folder: Path, say: Say, *, deep: bool) -> None:
    """Start on it, tell what is there, and go on working."""
    daemon = OfflineDaemon(folder)
    reply: Reply = {"state": state(daemon), "faults": faults(daemon, deep=False)}
    daemon.call("spawn", name="later", parent="")
    daemon.call("send", to="later", body="later")
    reply["faults"] += faults(daemon, deep=deep)
    daemon.close()
    say(reply)


def main() -> None:
    load()
    for number, line in enumerate(sys.stdin):
        folder = Path(line.rstrip("\n"))
        _, said = run_forked(lambda say, f=folder, n=number: look(f, say, deep=n % 5 == 0))  # type: ignore[misc]
        shutil.rmtree(folder)
        os.write(1, json.dumps(said[0] if said else {"raised": "nothing said"}).encode() + b"\n")


if __name__ == "__main__":
    main()
