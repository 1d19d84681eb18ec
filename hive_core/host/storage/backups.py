"""Regular maintenance: packs the meta repository and copies the ledger."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path

from hive_core.errors import HiveError
from hive_core.host.storage.stores import Stores

log = logging.getLogger(__name__)


class BackupRunner:
    """Runs the maintenance in threads: it takes long, and opens the stores on its own."""

    def __init__(
        self, stores: Stores, backup: Path, ended: Callable[[asyncio.Task[None]], None]
    ) -> None:
        self._stores, self._backup, self._ended = stores, backup, ended

    def begin(self) -> None:
        self._task = asyncio.create_task(self._work())
        self._task.add_done_callback(self._ended)

    async def _work(self) -> None:
        copy = partial(self._stores.ledger.back_up, self._backup)
        for task, work in (("pack the repo", self._stores.repo.pack), ("copy the ledger", copy)):
            try:
                await asyncio.to_thread(work)
            except (HiveError, OSError) as error:
                log.warning("Cannot %s: %s", task, error)
