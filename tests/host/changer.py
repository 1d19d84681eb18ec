"""A process that changes a hive until it is ended: `python -m host.changer FOLDER STEP`.

STEP is where it ends itself as `kill -9` would; `never` leaves that to the test. The commit of
every change that is complete is printed.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from host.meta import Meta, family, spec


def main(folder: Path, end: str) -> None:
    armed = False

    def step(name: str) -> None:
        if armed and name == end:
            os.kill(os.getpid(), signal.SIGKILL)

    meta = Meta(folder, step)
    meta.repo.recover(meta.ledger.head)
    hive = meta.hive if meta.ledger.head else meta.change(family("anna"))
    armed = True
    number = len(hive.specs)
    while True:
        number += 1
        hive = meta.change(hive.with_agent(f"a{number}", "root", spec(number)), f"add a{number}")
        os.write(1, f"{hive.commit}\n".encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
