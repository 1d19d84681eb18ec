"""Connections of agents through hive-egress, over real sockets, with hived deciding (H29)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from fixtures.egress import (
    AGENT,
    BYSTANDER,
    OTHER_PUBLIC,
    PUBLIC,
    PUBLIC_6,
    EgressHost,
    Stream,
    run_egress,
)
from fixtures.models import until

from hive_core.egress.addresses import parse_address
from hive_core.egress.route import ConnectRate, RouteTimeouts
from hive_core.egress.tunnel import CONNECTIONS_MOST
from hive_core.model.wire.record import EGRESS


async def round_trip(stream: Stream, data: bytes) -> bytes:
    reader, writer = stream
    writer.write(data)
    return await asyncio.wait_for(reader.readexactly(len(data)), 20)


def decision(event: Mapping[str, object]) -> tuple[object, ...]:
    return event["rule"], event["status"], event["allowed"]


async def end_of(stream: Stream) -> bytes:
    """What comes until the end of the connection."""
    try:
        return await asyncio.wait_for(stream[0].read(), 20)
    except OSError:
        return b""


def test_an_agent_talks_to_what_the_rules_allow_and_the_connection_is_an_event(
    tmp_path: Path,
) -> None:
    async def main(host: EgressHost) -> None:
        await host.serve()
        status, stream = await host.tunnel("WWW.example.org.:443", rest=b"early ")
        assert status == 200
        assert await asyncio.wait_for(stream[0].readexactly(6), 20) == b"early "
        assert await round_trip(stream, b"x" * 1_000_000) == b"x" * 1_000_000
        stream[1].write_eof()
        assert await end_of(stream) == b""
        event = await host.event()
        assert (event["host"], event["port"], event["address"]) == ("www.example.org", 443, PUBLIC)
        assert (event["sent"], event["received"]) == (1_000_006, 1_000_006)
        assert decision(event) == ("*.example.org:443", "done", True)
        assert event["seconds"] > 0
        assert event["caller_name"] == AGENT
        assert host.network.connected == [(PUBLIC, 443)]

    run_egress(tmp_path, main)


@pytest.mark.parametrize("target", [
    "example.org:443", "www.example.org:80", "www.example.com:443", "xwww-example.org:443",
    "93.184.216.34:443", "[2606:4700::6810:1]:443", "localhost:443", "example.org.evil.com:443",
])  # fmt: skip
def test_what_no_rule_allows_is_refused_and_not_even_resolved(tmp_path: Path, target: str) -> None:
    async def main(host: EgressHost) -> None:
        await host.serve()
        status, reason = await host.refusal(target)
        assert status == 403
        assert "no egress rule of [egress] in hive.toml allows" in reason
        event = await host.event()
        assert decision(event) == ("allow-list", "refused", False)
        assert f"{event['host']}:{event['port']}" in target.replace("]", "").replace("[", "")
        assert (host.network.resolved, host.network.connected) == ([], [])

    run_egress(tmp_path, main)


def test_the_rules_of_an_agent_narrow_those_of_the_host(tmp_path: Path) -> None:
    async def main(host: EgressHost) -> None:
        await host.serve()
        await host.operator("set_agent", agent=AGENT, egress=["api.example.org:443", "x.com:443"])
        await until(lambda: len(host.program.listeners) == 1)
        status, reason = await host.refusal("www.example.org:443")
        assert (status, "no egress rule of a allows" in reason) == (403, True)
        assert (await host.refusal("x.com:443"))[0] == 403
        await host.operator("set_agent", agent=AGENT, egress=[])
        assert (await host.tunnel("www.example.org:443"))[0] == 200

    run_egress(tmp_path, main)


FORBIDDEN = (
    "127.0.0.1", "10.1.2.3", "172.31.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
    "0.1.2.3", "224.0.0.1", "255.255.255.255", "198.18.0.1", "168.63.129.16", "192.0.0.170",
    "::1", "::", "fe80::1", "fd00::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:93.184.216.34",
    "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::a00:1", "2002:7f00:1::1", "2001:0:7f00:1::1",
    "2001:db8::1", "fec0::1", "100::1",
)  # fmt: skip


def test_a_name_with_addresses_outside_of_the_internet_is_refused(tmp_path: Path) -> None:
    async def main(host: EgressHost) -> None:
        for number, address in enumerate(FORBIDDEN):
            name = f"n{number}.example.org"
            host.network.names[name] = [[address]]
            host.network.servers[address, 443] = "never"
            status, reason = await host.refusal(f"{name}:443")
            assert (status, "has no address on the internet" in reason) == (403, True), address
            event = await host.event(number)
            assert decision(event) == ("address", "refused", False)
            assert parse_address(event["address"]) == parse_address(address)
        assert host.network.connected == []

    run_egress(tmp_path, main)


def test_an_address_of_the_host_itself_is_refused(tmp_path: Path) -> None:
    async def main(host: EgressHost) -> None:
        await host.serve()
        host.network.own.add(PUBLIC)
        status, reason = await host.refusal("www.example.org:443")
        assert (status, "of this host" in reason) == (403, True)
        assert host.network.connected == []

    run_egress(tmp_path, main)


def test_the_address_that_was_checked_is_the_one_that_is_connected(tmp_path: Path) -> None:
    """A name that resolves to another address the next time gains nothing: it is asked once."""

    async def main(host: EgressHost) -> None:
        await host.serve()
        host.network.names["www.example.org"] = [[PUBLIC], ["127.0.0.1"], [PUBLIC]]
        assert (await host.tunnel("www.example.org:443"))[0] == 200
        assert host.network.resolved == ["www.example.org"]
        assert (await host.refusal("www.example.org:443"))[0] == 403
        assert (await host.tunnel("www.example.org:443"))[0] == 200
        assert host.network.connected == [(PUBLIC, 443)] * 2

    run_egress(tmp_path, main)


def test_of_several_addresses_only_those_of_the_internet_are_tried(tmp_path: Path) -> None:
    async def main(host: EgressHost) -> None:
        await host.serve()
        addresses = ["127.0.0.1", OTHER_PUBLIC, PUBLIC_6, "10.0.0.1", PUBLIC]
        host.network.names["www.example.org"] = [addresses]
        status, stream = await host.tunnel("www.example.org:443")
        assert (status, await round_trip(stream, b"hello")) == (200, b"hello")
        assert [address for address, _ in host.network.connected] == [
            OTHER_PUBLIC,
            PUBLIC_6,
            PUBLIC,
        ]

    run_egress(tmp_path, main)


def test_the_profile_host_reaches_any_host_and_no_address_outside_of_the_internet(
    tmp_path: Path,
) -> None:
    async def main(host: EgressHost) -> None:
        await host.serve(port=22, name="anything.com")
        for target in ("anything.com:22", f"{PUBLIC}:22"):
            assert (await host.tunnel(target))[0] == 200
        for address in FORBIDDEN:
            text = f"[{address}]" if ":" in address else address
            assert (await host.refusal(f"{text}:22"))[0] == 403, address
        assert host.network.connected == [(PUBLIC, 22)] * 2
        assert {event["rule"] for event in host.events()} <= {"any", "address"}

    run_egress(tmp_path, main, profile="host", allow=())


def test_a_capability_that_is_taken_away_ends_connections_and_the_socket(tmp_path: Path) -> None:
    async def main(host: EgressHost) -> None:
        await host.serve()
        _, stream = await host.tunnel("www.example.org:443")
        assert await round_trip(stream, b"hello") == b"hello"
        half = await host.connect()  # its request has not come yet
        await host.operator("revoke_capability", agent=AGENT, capability="network:egress-allowlist")
        assert await end_of(stream) == b""
        assert await end_of(half) == b""
        assert (await host.event())["status"] == "ended"
        assert not host.path().exists()
        with pytest.raises(OSError, match="No such file"):
            await host.connect()

    run_egress(tmp_path, main)


@pytest.mark.parametrize("change", ["rules", "quarantine"])
def test_connections_end_where_less_is_allowed(tmp_path: Path, change: str) -> None:
    async def main(host: EgressHost) -> None:
        await host.serve()
        _, stream = await host.tunnel("www.example.org:443")
        assert await round_trip(stream, b"hello") == b"hello"
        if change == "rules":
            await host.operator("set_agent", agent=AGENT, egress=["api.example.org:443"])
        else:
            await host.operator("quarantine", agent=AGENT, reason="odd")
        assert await end_of(stream) == b""
        status, reason = await host.refusal("www.example.org:443")
        assert status == 403
        assert ("held by a quarantine" in reason) is (change == "quarantine")
        if change == "quarantine":
            await host.operator("lift_quarantine", agent=AGENT)
            assert (await host.tunnel("www.example.org:443"))[0] == 200

    run_egress(tmp_path, main)


def test_a_capability_that_is_granted_opens_the_socket_at_once(tmp_path: Path) -> None:
    async def main(host: EgressHost) -> None:
        await host.serve()
        assert not host.path(BYSTANDER).exists()
        await host.operator("grant_capability", agent=BYSTANDER, capability="network:host")
        await until(host.path(BYSTANDER).exists)
        assert (await host.tunnel("www.example.org:443", BYSTANDER))[0] == 200

    run_egress(tmp_path, main)


def test_more_connections_than_the_limit_wait_and_other_agents_are_served(tmp_path: Path) -> None:
    async def main(host: EgressHost) -> None:
        await host.serve()
        await host.operator("grant_capability", agent=BYSTANDER, capability="network:host")
        await until(lambda: len(host.program.listeners) == 2)
        streams = [(await host.tunnel("www.example.org:443"))[1] for _ in range(CONNECTIONS_MOST)]
        late = asyncio.create_task(host.tunnel("www.example.org:443"))
        assert (await host.tunnel("www.example.org:443", BYSTANDER))[0] == 200
        assert not late.done()
        streams[0][1].close()
        assert (await late)[0] == 200

    run_egress(tmp_path, main)


def test_a_flood_of_requests_is_refused_and_does_not_fill_the_log(tmp_path: Path) -> None:
    async def main(host: EgressHost) -> None:
        now = asyncio.get_running_loop().time()
        host.program.router.rates[host.world.uuid(AGENT)] = ConnectRate(left=3, at=now)
        answers = [(await host.refusal("www.example.com:443"))[0] for _ in range(100)]
        assert set(answers) == {403, 429}
        assert len(host.events()) == answers.count(403) < 100

    run_egress(tmp_path, main)


def test_refusals_beyond_the_rate_are_counted_and_displace_no_connection(tmp_path: Path) -> None:
    async def main(host: EgressHost) -> None:
        most = host.world.settings.limits.refusals_kept
        uuid, ledger = host.world.uuid(AGENT), host.world.ledger
        while ledger.egress_refusals.take(uuid, host.world.clock.now()) == 0:
            pass  # a program that was refused all the time
        for _ in range(3):
            assert (await host.refusal("www.example.com:443"))[0] == 403
        assert host.events() == []
        _, (_, writer) = await host.tunnel("www.example.org:443")
        writer.close()
        assert (await host.event())["allowed"]
        host.world.clock.advance(60 / most)
        assert (await host.refusal("www.example.com:443"))[0] == 403
        event = await host.event(1)
        assert (event["allowed"], event["not_kept"]) == (False, 3)

    run_egress(tmp_path, main)


@pytest.mark.parametrize(("limits", "status"), [
    ({"idle": 1}, "idle"), ({"longest": 1}, "longest"), ({"bytes": 1 << 20}, "bytes"),
])  # fmt: skip
def test_a_connection_ends_at_its_limits(
    tmp_path: Path, limits: dict[str, Any], status: str
) -> None:
    async def main(host: EgressHost) -> None:
        await host.serve()
        _, stream = await host.tunnel("www.example.org:443")
        if status == "bytes":
            stream[1].write(b"x" * (1 << 20))
        await end_of(stream)
        assert (await host.event())["status"] == status

    run_egress(tmp_path, main, **limits)


def test_a_client_that_sends_its_request_slowly_is_answered_in_time(tmp_path: Path) -> None:
    async def main(host: EgressHost) -> None:
        assert (await host.talk(b"CONNECT www.exam")).startswith(b"HTTP/1.1 408 ")
        assert host.events() == []

    run_egress(tmp_path, main, timeouts=RouteTimeouts(head=0.05))


def test_a_name_that_is_never_resolved_is_given_up(tmp_path: Path) -> None:
    async def main(host: EgressHost) -> None:
        host.network.is_silent = True
        answers = await asyncio.gather(*(host.refusal("www.example.org:443") for _ in range(8)))
        assert {status for status, _ in answers} == {504}
        assert len(host.network.resolved) == 4  # the others wait for a thread of the agent's own
        names = [getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks()]
        assert sum("resolve" in name for name in names) == 4, "nothing is left of those that waited"
        assert (await host.event(7))["status"] == "failed"

    run_egress(tmp_path, main, timeouts=RouteTimeouts(resolve=0.05))


def test_what_cannot_be_reached_is_said_and_recorded(tmp_path: Path) -> None:
    async def main(host: EgressHost) -> None:
        host.network.names["gone.example.org"] = [[PUBLIC]]
        for name, reason in (("gone", "Connection refused"), ("unknown", "not known")):
            status, text = await host.refusal(f"{name}.example.org:443")
            assert (status, reason in text) == (502, True)
        assert [event["status"] for event in host.events()] == ["failed", "failed"]

    run_egress(tmp_path, main)


def test_without_hived_nothing_is_allowed(tmp_path: Path) -> None:
    async def main(host: EgressHost) -> None:
        await host.serve()
        host.program.router.permits.link.patience = 0.05
        host.sockets.close(EGRESS)
        await until(lambda: host.program.router.permits.link.connection is None)
        status, reason = await host.refusal("www.example.org:443")
        assert (status, "hived does not say" in reason) == (503, True)
        assert host.network.resolved == []
        await host.sockets.listen_service(
            EGRESS, host.egress.paths.egress_control_socket, os.getuid()
        )
        assert (await host.event())["status"] == "failed"

    run_egress(tmp_path, main)


def test_a_server_that_closes_ends_the_connection_after_its_last_byte(tmp_path: Path) -> None:
    async def speak(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"y" * 3_000_000)
        writer.close()

    async def main(host: EgressHost) -> None:
        await host.serve(handler=speak)
        _, stream = await host.tunnel("www.example.org:443")
        assert len(await end_of(stream)) == 3_000_000
        stream[1].close()
        assert (await host.event())["received"] == 3_000_000

    run_egress(tmp_path, main)


def test_a_client_that_does_not_read_is_not_read_for(tmp_path: Path) -> None:
    """The bytes stay with the server, not in the memory of hive-egress."""
    written = 0

    async def flood(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        with suppress(OSError):
            while True:
                writer.write(b"z" * 65_536)
                await writer.drain()
                written += 65_536
        writer.close()

    async def main(host: EgressHost) -> None:
        await host.serve(handler=flood)
        _, writer = await host.connect()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(b"CONNECT www.example.org:443 HTTP/1.1\r\n\r\n")
        await until(lambda: written > 0)
        before = -1
        while before != written:
            before = written
            await asyncio.sleep(0.05)
        assert written < 8 << 20
        writer.close()

    run_egress(tmp_path, main)
