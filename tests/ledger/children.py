"""Programs that tests run in a process of their own, to be ended at a chosen moment.

`python -m ledger.children WHAT FOLDER [WORD...]`, with tests/ on the path. What was acknowledged
is printed.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from ledger.letters import letter

from hive_core.errors import StorageFull
from hive_core.ledger.core.connection import LedgerBroken
from hive_core.ledger.core.ledger import Ledger


def end_at(step: str) -> Callable[[str], None]:
    """A step function that ends the process as `kill -9` would."""

    def look(reached: str) -> None:
        if reached == step:
            os.kill(os.getpid(), signal.SIGKILL)

    return look


def say(text: str) -> None:
    """Acknowledge."""
    os.write(1, f"{text}\n".encode())


def send_until_killed(folder: Path, *_: str) -> None:
    """Batches of sends; the ids of each are acknowledged after its COMMIT."""
    ledger = Ledger.open(folder / "hive.db")
    batch = 0
    while True:
        batch += 1
        with ledger.transaction():
            for number in range(5):
                ledger.messages.send(
                    letter("anna", f"bob{batch % 50}", f"{batch} {number}"), time.time()
                )
        say(str(batch))


def send_once(folder: Path, step: str) -> None:
    """One send after the head was set, and the end at `step`."""
    ledger = Ledger.open(folder / "hive.db")
    ledger._step = end_at(step)
    with ledger.transaction():
        ledger.head = "new"
        ledger.messages.send(letter("anna", "bob"), time.time())
    say("acked")


def migrate(folder: Path, migrations: str, step: str) -> None:
    """Open with these migrations, and the end at `step`."""
    Ledger.open(folder / "hive.db", Path(migrations), step=end_at(step)).close()
    say("open")


def meet_a_fault(folder: Path, kind: str) -> None:
    """A send that works, one while the disk fails, one when it works again."""
    fault = Path(os.environ["HIVE_FAULT"])
    ledger = Ledger.open(folder / "hive.db")
    for word in ("", kind, ""):
        fault.write_text(word, encoding="ascii")
        try:
            with ledger.transaction():
                ledger.messages.send(letter("anna", "bob", word or "fine"), time.time())
        except (StorageFull, LedgerBroken) as error:
            say(type(error).__name__)
        else:
            say("acked")


PROGRAMS: dict[str, Callable[..., None]] = {
    program.__name__: program for program in (send_until_killed, send_once, migrate, meet_a_fault)
}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
