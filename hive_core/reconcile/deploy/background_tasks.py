"""Long work, one task for each key. Failures are retried with growing pauses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

from hive_core.errors import HiveError, Internal
from hive_core.ports import Clock

log = logging.getLogger(__name__)
FIRST, MOST = 0.5, 30.0
_DOUBLED: Final = 16

# Errors of the disk, or of a repository that was changed by hand: reported, and not fatal.
UNEXPECTED: Final = (OSError, ValueError)


def internal_error(error: Exception) -> Internal:
    return Internal(f"{type(error).__name__}: {error}")


@dataclass
class BackgroundTasks:
    """Runs the tasks. `requeue(key)` is called when a task has ended or a timer is due.

    `fatal` ends the daemon.
    """

    clock: Clock
    requeue: Callable[[str], None]
    fatal: Callable[[BaseException], None]
    troubles: dict[str, str] = field(default_factory=dict)
    busy: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _failures: dict[str, int] = field(default_factory=dict)
    _timers: dict[str, Callable[[], None]] = field(default_factory=dict)

    def start(self, key: str, work: Coroutine[Any, Any, None]) -> None:
        """Run a task for this key, which must have no running task."""
        self.busy[key] = asyncio.create_task(self._run_task(key, work))

    async def _run_task(self, key: str, work: Coroutine[Any, Any, None]) -> None:
        """Run one task and record its failure; what no code expects ends the daemon."""
        try:
            await work
        except HiveError as error:
            self.record_failure(key, error)
        except UNEXPECTED as error:
            self.record_failure(key, internal_error(error))
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - asyncio would only store it
            self.fatal(error)
        else:
            self.forget(key)
            self.requeue(key)
        finally:
            if self.busy.get(key) is asyncio.current_task():
                del self.busy[key]

    def cancel(self, key: str) -> None:
        """Cancel the task of a key that needs no more work."""
        if task := self.busy.pop(key, None):
            task.cancel()

    def record_failure(self, key: str, error: HiveError) -> int:
        """Schedule a retry; return how often the key has failed."""
        count = self._failures[key] = self._failures.get(key, 0) + 1
        pause = min(MOST, FIRST * 2 ** min(count - 1, _DOUBLED))
        self.troubles[key] = f"cannot continue {key}: {error}"
        log.warning("Cannot continue %s (try %d): %s", key, count, error)
        self.requeue_at(key, self.clock.monotonic() + pause)
        return count

    def failure_count(self, key: str) -> int:
        return self._failures.get(key, 0)

    def forget(self, key: str) -> None:
        self._failures.pop(key, None)
        self.troubles.pop(key, None)

    def requeue_at(self, key: str, when: float) -> None:
        """Requeue the key at `when`, in monotonic seconds; a later call replaces an earlier one."""
        self.cancel_timer(key)
        self._timers[key] = self.clock.call_at(when, lambda: self._due(key))

    def cancel_timer(self, key: str) -> None:
        if cancel := self._timers.pop(key, None):
            cancel()

    def _due(self, key: str) -> None:
        self._timers.pop(key, None)
        self.requeue(key)
