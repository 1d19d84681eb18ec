"""Row K40: one signal ends well, the second at once."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from hive_core.host.ending import Ending


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_k40_the_first_signal_asks_and_the_second_does_not_wait(number: signal.Signals) -> None:
    async def ask_twice() -> None:
        hurried = asyncio.Event()
        ending = Ending(hurried.set)
        ending.listen()
        os.kill(os.getpid(), number)
        await asyncio.wait_for(ending.asked.wait(), 5)
        assert not hurried.is_set()
        os.kill(os.getpid(), number)
        await asyncio.wait_for(hurried.wait(), 5)

    asyncio.run(ask_twice())
