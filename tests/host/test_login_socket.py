"""login.sock: who may connect, and that the connections of an ended login are closed."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from fixtures.broker import BrokerHarness, open_broker
from fixtures.socket_host import ANN, SocketClient, SocketHost, run
from typing_extensions import override

from hive_core import varlink
from hive_core.errors import HIVE
from hive_core.host.sockets.login_socket import LoginSocket
from hive_core.model.config.settings import Settings
from hive_core.model.wire.record import OPERATOR, LogLine, LogQuery
from hive_core.operations import load
from hive_core.testing import MemoryJournal


async def ask(client: SocketClient, method: str, **parameters: object) -> varlink.Message:
    reply = await client.call(method=HIVE + method, parameters=parameters)
    result = reply["parameters"]
    assert isinstance(result, dict)
    return result


def new_link(harness: BrokerHarness, account: str = "ann") -> str:
    operator = harness.client(OPERATOR)
    operator.ask("CreateAccount", {"name": account})
    operator.ask("CreateLoginLink", {"account": account})
    harness.broker.serve_batch()
    return str(operator.results()[-1]["url"]).partition("#")[2]


def test_a_login_that_is_ended_loses_its_connections_and_no_other_does(
    folder: Path, tmp_path: Path
) -> None:
    async def main(host: SocketHost) -> None:
        path = host.path("login")
        await host.sockets.listen_logins(path, "", {os.getuid()})
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        harness = host.harness
        login = LoginSocket(host.sockets, Settings().paths, harness.ledger.logins)
        harness.broker.listeners.append(login.on_topics)
        async with host.connect("login") as one, host.connect("login") as other:
            opened = await ask(one, "OpenLogin", credential=new_link(harness))
            await ask(other, "OpenLogin", credential=new_link(harness))
            row = await ask(one, "CloseLogin")
            assert row["login"] == opened["login"]
            assert await one.is_closed()
            assert (await ask(other, "ListAgents"))["agents"]
            operator = harness.client(OPERATOR)
            operator.ask("RemoveAccount", {"account": "ann"})
            harness.broker.serve_batch()
            assert await other.is_closed()

    with open_broker(folder, load()) as harness:
        run(harness, tmp_path, main)


def test_another_user_is_not_served_whatever_its_credential(folder: Path, tmp_path: Path) -> None:
    async def main(host: SocketHost) -> None:
        await host.sockets.listen_logins(host.path("login"), "", {os.getuid() + 1})
        async with host.connect("login") as wire:
            assert await wire.is_closed()

    with open_broker(folder, load()) as harness:
        run(harness, tmp_path, main)
        harness.run()
        (event,) = harness.events("refusal")
        assert (event.operation, event.target, event.caller) == (
            "connect", "login", f"uid:{os.getuid()}",
        )  # fmt: skip


class HalfStuckJournal(MemoryJournal):
    """Never answers about ann, and at once about others."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Semaphore(0)

    @override
    async def read(self, query: LogQuery) -> Sequence[LogLine]:
        if query.uuid == ANN:
            self.asked.release()
            await asyncio.Event().wait()
        return ()


def test_slow_reads_of_one_account_do_not_hold_up_another(folder: Path, tmp_path: Path) -> None:
    async def main(host: SocketHost) -> None:
        await host.sockets.listen_logins(host.path("login"), "", {os.getuid()})
        host.reads.journal = journal = HalfStuckJournal()
        async with AsyncExitStack() as stack:
            for number in range(5):
                wire = await stack.enter_async_context(host.connect("login"))
                credential, address = new_link(host.harness), f"192.0.2.{number}"
                await ask(wire, "OpenLogin", credential=credential, address=address)
                wire.say(varlink.encode({
                    "method": HIVE + "GetLogs", "parameters": {"agent": "ann"},
                }))  # fmt: skip
            for _ in range(4):
                await asyncio.wait_for(journal.asked.acquire(), 10)
            other = await stack.enter_async_context(host.connect("login"))
            await ask(other, "OpenLogin", credential=new_link(host.harness, "bob"))
            assert (await ask(other, "GetLogs", agent="bob"))["lines"] == []
            assert journal.asked.locked(), "the fifth of one account waits"

    with open_broker(folder, load()) as harness:
        run(harness, tmp_path, main)
