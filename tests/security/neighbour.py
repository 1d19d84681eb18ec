"""An honest agent that records how long its calls take."""

from __future__ import annotations

import time
from pathlib import Path
from threading import Event, Thread

from typing_extensions import override

from hive_core import varlink


class Neighbour(Thread):
    """An agent that makes one call after another and records the time of each."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.waits: list[float] = []
        self.fault: Exception | None = None
        self.begun = Event()
        self._path, self._over = path, Event()

    @override
    def run(self) -> None:
        try:
            with varlink.Client(str(self._path)) as client:
                while not self._over.is_set():
                    start = time.perf_counter()
                    client.call("org.hive.Broker.Whoami")
                    self.waits.append(time.perf_counter() - start)
                    self.begun.set()
                    # 200 calls a second are enough to be seen by; the crowd needs the core.
                    self._over.wait(0.005)
        except Exception as fault:  # noqa: BLE001 - told by the test
            self.fault = fault

    def end(self) -> list[float]:
        self._over.set()
        self.join()
        assert self.fault is None, self.fault
        return self.waits
