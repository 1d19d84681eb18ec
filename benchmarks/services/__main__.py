"""What `serving` starts: KIND FOLDER. All but hive answer every call as hive answers a Whoami."""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final, TypedDict

from typing_extensions import override

from benchmarks.services import AGENTS
from hive_core.varlink import FrameReader, Message, decode, encode

WHOAMI: Final = "org.hive.Broker.Whoami"


class Told(TypedDict):
    """The answer to a Whoami."""

    name: str
    uuid: str
    parent: str | None
    role: str
    title: str
    tier: str
    capabilities: list[str]
    children: list[str]
    limits: dict[str, int]


TOLD: Final[Told] = {
    "name": "a1", "uuid": "00000001-0000-0000-0000-000000000000", "parent": "root",
    "role": "agent", "title": "", "tier": "operational", "capabilities": [], "children": [],
    "limits": {},
}  # fmt: skip


async def hive(folder: Path) -> None:
    """The real thing: broker, ledger, repo and registry behind the real sockets."""
    from fuzz.served import serve  # noqa: PLC0415 - the others must not pay for it

    await serve(folder, AGENTS, 1.0)


class Echo(asyncio.Protocol):
    """A bare Varlink service: cut, decode, look the method up, encode the reply; one write."""

    methods: Final[dict[str, Callable[[object], object]]] = {WHOAMI: lambda _: TOLD}

    def __init__(self) -> None:
        self.reader = FrameReader()
        self.transport: asyncio.Transport | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    @override
    def data_received(self, data: bytes) -> None:
        assert self.transport is not None
        frames = self.reader.feed(data)
        self.transport.write(b"".join([self.answer(decode(frame)) for frame in frames]))

    def answer(self, call: Message) -> bytes:
        method = self.methods[str(call["method"])]
        return encode({"parameters": method(call.get("parameters"))})


class Canned(Echo):
    """Decodes a frame and writes a reply made beforehand: less than any service does."""

    said: Final = encode({"parameters": TOLD})

    @override
    def answer(self, call: Message) -> bytes:
        return self.said


async def echo(folder: Path) -> None:
    await listen(Echo, folder)


async def serve_canned(folder: Path) -> None:
    await listen(Canned, folder)


async def listen(service: Callable[[], asyncio.Protocol], folder: Path) -> None:
    loop = asyncio.get_running_loop()
    for number in range(AGENTS):
        await loop.create_unix_server(service, str(folder / f"a{number}.sock"))
    await forever()


async def asyncvarlink(folder: Path) -> None:
    """The published library, with the same method declared its way: typed, converted."""
    import asyncvarlink as library  # noqa: PLC0415 - the others do not need it

    class Broker(library.VarlinkInterface, name="org.hive.Broker"):
        @library.varlinkmethod(return_parameter="told")
        def Whoami(self) -> Told:  # noqa: N802 - the method's name on the wire
            return TOLD

    registry = library.VarlinkInterfaceRegistry()
    registry.register_interface(Broker())
    for number in range(AGENTS):
        await library.create_unix_server(registry.protocol_factory, str(folder / f"a{number}.sock"))
    await forever()


async def forever() -> None:
    print("ready", flush=True)
    await asyncio.Event().wait()


KINDS: Final[dict[str, Callable[[Path], Coroutine[Any, Any, None]]]] = {
    "hive": hive, "echo": echo, "canned": serve_canned, "asyncvarlink": asyncvarlink,
}  # fmt: skip

if __name__ == "__main__":
    asyncio.run(KINDS[sys.argv[1]](Path(sys.argv[2])))
