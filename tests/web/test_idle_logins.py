"""What the pages share is read by a login that is used, so that others end when they are idle."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from typing_extensions import override

from hive_core.varlink import Message
from hive_core.web.hub import Hub, Renderers
from hive_core.web.logins import BrowserLogin, Logins


class TwoLogins(Logins):
    """The first login is used until it has read once, then the second one alone."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, time.monotonic)
        self.hub: Hub | None = None
        self.readers, self.both_have_read = list[str](), asyncio.Event()
        self.all = [self._new(name) for name in ("first", "second")]

    @override
    def any(self) -> BrowserLogin:
        return self.all[min(1, len(self.readers))]

    def _new(self, name: str) -> BrowserLogin:
        async def call(_operation: str) -> Message:
            self.readers.append(name)
            if len(self.readers) > 1:
                self.both_have_read.set()
            assert self.hub is not None
            self.hub.refresh_todo()
            return {"todo": []}

        return cast("BrowserLogin", SimpleNamespace(connection=SimpleNamespace(call=call)))


def test_a_login_that_nobody_uses_reads_no_more(tmp_path: Path) -> None:
    async def follow() -> list[str]:
        logins = TwoLogins(tmp_path)
        renderers = Renderers(str, lambda _: ("", ""), lambda _: ("", ""))
        logins.hub = hub = Hub(logins, renderers, lambda: None)
        task = asyncio.create_task(hub._keep("todo", hub._follow_todo))
        async with asyncio.timeout(20):
            await logins.both_have_read.wait()
        task.cancel()
        return logins.readers

    assert asyncio.run(follow()) == ["first", "second"]
