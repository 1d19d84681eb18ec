"""The test files that have one Chromium together, one file after the other.

A start of it costs three seconds of processor, a new tab half a second. These files run in one
process (tests/conftest.py); each has a tab of its own (tests/web/conftest.py).
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # every process asks for the files, and few need selenium
    from fixtures.chromium import Browser

FILES: Final = frozenset({
    "test_browser", "test_deciding_in_browser", "test_drawn_pages", "test_flood_in_browser",
    "test_hostile", "test_logged_out_in_browser", "test_looks", "test_restart",
    "test_tasks_in_browser",
})  # fmt: skip


def shared_browser(node: str) -> str:
    """The name of what the tests of these files share; empty for a test of another file."""
    path = PurePath(node.partition("::")[0])
    return "browser" if path.parent.name == "web" and path.stem in FILES else ""


class SharedBrowser:
    """The browser of this process, from the first test that uses it to the last."""

    def __init__(self) -> None:
        self._running = ExitStack()
        self._browser: Browser | None = None

    def start(self) -> Browser:
        """The browser, which is started where it does not run."""
        from fixtures.chromium import chromium  # noqa: PLC0415 - the reason is above

        if self._browser is None:
            folder = self._running.enter_context(TemporaryDirectory())
            self._browser = self._running.enter_context(chromium(Path(folder)))
        return self._browser

    def close(self) -> None:
        self._running.close()
        self._browser = None
