"""Row K40: one signal ends well, the second at once."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from hive_core.host.systemd.signals import ShutdownSignals
from hive_core.ledger.core.connection import LedgerBroken


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_k40_the_first_signal_asks_and_the_second_does_not_wait(number: signal.Signals) -> None:
    async def ask_twice() -> None:
        hurried = asyncio.Event()
        ending = ShutdownSignals(hurried.set)
        ending.listen()
        os.kill(os.getpid(), number)
        await asyncio.wait_for(ending.asked.wait(), 5)
        assert not hurried.is_set()
        os.kill(os.getpid(), number)
        await asyncio.wait_for(hurried.wait(), 5)

    asyncio.run(ask_twice())


def test_a_reload_asks_once_however_often_it_comes() -> None:
    """A new version takes over from one that ends well, not from one that was cut short."""

    async def reload_twice() -> None:
        hurried = asyncio.Event()
        ending = ShutdownSignals(hurried.set)
        ending.listen()
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGHUP)
            await asyncio.wait_for(ending.asked.wait(), 5)
        assert not hurried.is_set()

    asyncio.run(reload_twice())


def test_a_disk_that_fails_in_a_callback_is_the_end(caplog: pytest.LogCaptureFixture) -> None:
    """asyncio would log it and go on."""

    def fail() -> None:
        raise LedgerBroken("the ledger cannot be written")

    async def listen() -> list[BaseException]:
        ends: list[BaseException] = []
        ending = ShutdownSignals(broken=ends.append)
        ending.listen()
        asyncio.get_running_loop().call_soon(fail)
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return ends

    (end,) = asyncio.run(listen())
    assert isinstance(end, LedgerBroken)
    assert "ZeroDivisionError" in caplog.text


def test_a_reload_with_settings_that_would_be_refused_changes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """K40: a running hived ended, and did not come back."""
    wrong = ["hive.toml:6: limits.depht: unknown key; did you mean depth?"]

    async def story() -> None:
        looked = asyncio.Event()

        def refusals() -> list[str]:
            looked.set()
            return list(wrong)

        ending = ShutdownSignals(refusals=refusals)
        ending.listen()
        os.kill(os.getpid(), signal.SIGHUP)
        await looked.wait()
        assert not ending.asked.is_set()
        wrong.clear()
        os.kill(os.getpid(), signal.SIGHUP)
        await ending.asked.wait()

    asyncio.run(story())
    assert "Cannot reload: hive.toml:6: limits.depht" in caplog.text
