"""Two clients that others wrote introspect and call us: systemd's varlinkctl and asyncvarlink."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import asyncvarlink
import pytest
from asyncvarlink.serviceinterface import VarlinkServiceInterface
from e2e.labhost import in_tree, trixie_tree
from fixtures.broker import BrokerHarness, SlowReads, open_broker, spec
from surfaces.theirs import TheirBroker

from hive_core.host.sockets.server import SocketServer
from hive_core.operations import load
from hive_core.surfaces import idl

REGISTRY = load()
HIVE = "org.hive.Broker"


@pytest.fixture
def folder() -> Iterator[Path]:
    """Outside of what the other system's tree mounts over."""
    with TemporaryDirectory(dir="/var/tmp") as opened:
        yield Path(opened)


@asynccontextmanager
async def serving(harness: BrokerHarness, folder: Path) -> AsyncIterator[Path]:
    faults: list[BaseException] = []
    sockets = SocketServer(harness.broker, SlowReads(), faults.append)
    await sockets.listen(spec("ann").id, folder / "ann.sock", 0)
    try:
        yield folder / "ann.sock"
    finally:
        sockets.stop()
        await asyncio.sleep(0)
        assert not faults


def with_server(folder: Path, main: Callable[[Path], Awaitable[None]]) -> None:
    async def run(harness: BrokerHarness) -> None:
        async with serving(harness, folder) as path:
            await asyncio.wait_for(main(path), 60)

    with open_broker(folder, REGISTRY) as harness:
        asyncio.run(run(harness))


async def varlinkctl(folder: Path, *words: str) -> tuple[int, str, str]:
    """systemd's own client, run in the tree of another Debian; exit status, stdout, stderr."""
    argv = in_tree(["varlinkctl", "--no-pager", *words], str(folder))
    process = await asyncio.create_subprocess_exec(
        *argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


@pytest.fixture(scope="session")
def other_system() -> Path:
    return trixie_tree()


@pytest.mark.usefixtures("other_system")
def test_varlinkctl_lists_and_describes_our_interfaces(folder: Path) -> None:
    async def main(path: Path) -> None:
        status, out, err = await varlinkctl(folder, "info", str(path))
        assert (status, err) == (0, "")
        assert "hived" in out
        status, out, err = await varlinkctl(folder, "list-interfaces", str(path))
        assert (status, out.split()) == (0, [HIVE, "org.varlink.service"])
        status, out, err = await varlinkctl(folder, "introspect", str(path), HIVE)
        assert (status, err) == (0, "")
        for value in REGISTRY.values():
            assert f"method {value.method}" in out

    with_server(folder, main)


@pytest.mark.usefixtures("other_system")
def test_varlinkctl_takes_our_description_for_valid(folder: Path) -> None:
    (folder / "hive.varlink").write_text(idl.interface(REGISTRY))
    (folder / "service.varlink").write_text(idl.SERVICE)

    async def main(_: Path) -> None:
        for name in ("hive", "service"):
            words = ("validate-idl", str(folder / f"{name}.varlink"))
            status, _out, err = await varlinkctl(folder, *words)
            assert (status, err) == (0, "")

    with_server(folder, main)


@pytest.mark.usefixtures("other_system")
def test_varlinkctl_calls_and_streams_and_is_told_errors(folder: Path) -> None:
    async def call(path: Path, method: str, parameters: object, *flags: str) -> tuple[int, Any]:
        words = ("call", *flags, "--json=short", str(path), f"{HIVE}.{method}")
        status, out, err = await varlinkctl(folder, *words, json.dumps(parameters))
        if status:
            return status, err
        return status, [json.loads(line) for line in out.replace("\x1e", "").splitlines()]

    async def main(path: Path) -> None:
        status, replies = await call(path, "Whoami", {})
        assert (status, replies[0]["name"], replies[0]["parent"]) == (0, "ann", "root")
        status, _ = await call(path, "Send", {"to": "bob", "body": "hello"})
        assert status == 0
        status, error = await call(path, "Send", {"to": "nobody", "body": "hello"})
        assert status != 0
        assert f"{HIVE}.NotFound" in error
        status, error = await call(path, "Whoami", {"x": 1})
        assert status != 0
        assert "InvalidParameter" in error
        status, replies = await call(path, "ListAgents", {"limit": 1}, "--more")
        assert status == 0
        assert len(replies) > 1

    with_server(folder, main)


def test_asyncvarlink_introspects_and_calls(folder: Path) -> None:
    async def main(path: Path) -> None:
        transport, protocol = await asyncvarlink.connect_unix_varlink(
            asyncvarlink.VarlinkClientProtocol, path
        )
        service = protocol.make_proxy(VarlinkServiceInterface)
        info = await service.GetInfo()
        assert info["interfaces"] == [HIVE, "org.varlink.service"]
        described = await service.GetInterfaceDescription(interface=HIVE)
        assert described["description"] == idl.interface(REGISTRY)
        broker = protocol.make_proxy(TheirBroker)
        assert (await broker.Whoami())["name"] == "ann"
        assert (await broker.Send(to="bob", body="hello"))["id"]
        with pytest.raises(asyncvarlink.VarlinkErrorReply) as caught:
            await broker.Send(to="nobody", body="hello")
        assert caught.value.name == f"{HIVE}.NotFound"
        transport.close()
        await asyncio.sleep(0)

    with_server(folder, main)


def test_asyncvarlink_pipelines(folder: Path) -> None:
    async def main(path: Path) -> None:
        transport, protocol = await asyncvarlink.connect_unix_varlink(
            asyncvarlink.VarlinkClientProtocol, path
        )
        broker = protocol.make_proxy(TheirBroker)
        result = await asyncio.gather(*(broker.Whoami() for _ in range(100)))
        assert {entry["name"] for entry in result} == {"ann"}
        transport.close()
        await asyncio.sleep(0)

    with_server(folder, main)
