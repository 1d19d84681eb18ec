"""The program: its files, its operator's socket, signals, and what it tells the service manager."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from fixtures.models import KEY, ModelHost, model_host, until
from fixtures.providers import ProviderReply, json_reply
from proxy.calling import MODELS, PATHS, USAGE, WIRES, body, calling

from hive_core.proxy.config import load_config
from hive_core.proxy.main import parse_options

ANSWERS: Mapping[str, dict[str, Any]] = {
    "chat": {"choices": [{"message": {"content": "OK"}}]},
    "responses": {"output": [{"type": "message", "content": [{"text": "OK"}]}]},
    "messages": {"content": [{"type": "text", "text": "OK"}]},
}  # fmt: skip


async def ask_test(host: ModelHost, alias: str) -> Any:  # noqa: ANN401 - JSON
    path = host.folder / "operator.sock"
    return (await host.post("/test", {"alias": alias}, socket=path)).json


@pytest.mark.parametrize("wire", WIRES)
def test_the_operator_tests_a_model(wire: str) -> None:
    async def main() -> None:
        reply = json_reply({**ANSWERS[wire], "usage": USAGE[wire]})
        async with calling(wire, reply) as (host, provider):
            result = await ask_test(host, "m")
            assert result.items() >= {
                "alias": "m", "provider": "p", "name": "provider/name", "wire": wire, "text": "OK",
                "tokens_in": 100, "tokens_out": 7, "estimated": False, "price_known": True,
            }.items()  # fmt: skip
            assert result["cost"] == pytest.approx(94 / 1e6)
            assert provider.requests[0].json["model"] == "provider/name"
            assert not host.hived.calls

    asyncio.run(main())


def test_a_test_says_what_is_wrong() -> None:
    async def main() -> None:
        replies = [json_reply({"error": f"no {KEY}"}, 404), ProviderReply(breaks=True)]
        async with calling("chat", *replies) as (host, provider):
            result = await ask_test(host, "m")
            assert result["error"] == 'provider p answered 404: {"error": "no ***"}'
            assert result["status"] == 404
            broken = await ask_test(host, "m")
            assert broken["error"].startswith("cannot reach the provider: peer closed connection")
            assert broken["status"] == 502
            message = (await ask_test(host, "x"))["error"]["message"]
            assert message == "no model 'x'; `hive model list` lists all"
            path = host.folder / "operator.sock"
            assert (await host.post(PATHS["chat"], body("chat"), socket=path)).status == 404
            assert stat.S_IMODE(path.stat().st_mode) in (0o600, 0o660)
            del provider

    asyncio.run(main())


def test_a_test_says_why_the_provider_cannot_be_reached_and_agents_are_not_told() -> None:
    async def main() -> None:
        models = MODELS.replace("{wire}", "chat").replace("{url}", "http://127.0.0.1:9/v1")
        async with model_host(models, keys={"p": KEY}) as host:
            result = await ask_test(host, "m")
            assert result["error"] == "cannot reach the provider: All connection attempts failed"
            reply = (await host.post(PATHS["chat"], body("chat"))).json["error"]["message"]
            assert reply == "cannot reach the provider"

    asyncio.run(main())


def test_a_test_names_the_refused_key_and_says_nothing_of_what_the_provider_quotes() -> None:
    async def main() -> None:
        reply = json_reply({"error": f"bad key {KEY[:6]}...{KEY[-4:]}"}, 401)
        async with calling("chat", reply) as (host, _):
            result = await ask_test(host, "m")
            reason = "it refuses the key p; `hive model key set p` stores another"
            assert result["error"] == f"provider p answered 401: {reason}"
            assert result["status"] == 401

    asyncio.run(main())


def test_a_test_says_what_else_the_provider_refuses() -> None:
    async def main() -> None:
        async with calling("chat", json_reply({"error": "no credit"}, 402)) as (host, _):
            result = await ask_test(host, "m")
            assert result["error"] == 'provider p answered 402: {"error": "no credit"}'

    asyncio.run(main())


def test_new_settings_count_from_the_next_call_and_bad_ones_change_nothing() -> None:
    async def main() -> None:
        async with calling("chat", json_reply({})) as (host, provider):
            text = host.models.read_text()
            host.models.write_text(text.replace("[models.m]", "[models.n]"))
            (host.folder / "keys" / "p").write_text("new-key-0123456789")
            assert (await host.post(PATHS["chat"], body("chat"))).status == 200
            assert host.program.reload()
            assert (await host.post(PATHS["chat"], body("chat"))).status == 404
            assert (await host.post(PATHS["chat"], {**body("chat"), "model": "n"})).status == 200
            keys = [request.headers["authorization"] for request in provider.requests]
            assert keys == [f"Bearer {KEY}", "Bearer new-key-0123456789"]
            host.models.write_text("[models.broken]\n")
            assert not host.program.reload()
            assert (await host.post(PATHS["chat"], {**body("chat"), "model": "n"})).status == 200

    asyncio.run(main())


@pytest.mark.parametrize("key", ["", "two\nlines", "with space", "\xe4", "a" * 9000])
def test_a_call_without_a_usable_key_says_who_sets_it(
    key: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        models = MODELS.replace("{wire}", "chat").replace("{url}", "http://127.0.0.1:9/v1")
        async with model_host(models, keys={"p": key}) as host:
            result = await host.post(PATHS["chat"], body("chat"))
            assert result.status == 502
            assert "the key p of provider p is not set" in result.json["error"]["message"]
            assert (await host.settlements())[0]["status"] == "error"
        assert "Cannot use key p" in caplog.text
        assert not key or key not in caplog.text

    asyncio.run(main())


def test_a_key_is_read_from_a_plain_file_only(tmp_path: Path) -> None:
    models = tmp_path / "models.toml"
    models.write_text(MODELS.replace("{wire}", "chat").replace("{url}", "https://example.org"))
    (tmp_path / "real").write_text(KEY)
    keys = tmp_path / "keys"
    keys.mkdir()
    (keys / "p").symlink_to(tmp_path / "real")
    assert load_config(models, keys).keys == {}
    (keys / "p").unlink()
    os.mkfifo(keys / "p")
    assert load_config(models, keys).keys == {}
    (keys / "p").unlink()
    (keys / "p").write_text(f" {KEY}\r\n")
    assert load_config(models, keys).keys == {"p": KEY}


class RunningProgram:
    """hive-model as its service starts it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.manager.bind(str(folder / "notify"))
        self.manager.settimeout(30)
        names = ("models", "keys", "control", "hand", "operator", "small")
        options = [part for name in names for part in (f"--{name}", str(folder / name))]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "hive_core.proxy.main", *options],
            env={**os.environ, "NOTIFY_SOCKET": str(folder / "notify")},
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def last_notice(self) -> str:
        return self.manager.recv(1000).decode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "keys").mkdir()
    return tmp_path


def test_the_program_says_when_it_serves_reloads_and_stops(folder: Path) -> None:
    program = RunningProgram(folder)
    try:
        assert program.last_notice().startswith("READY=1")
        program.process.send_signal(signal.SIGHUP)
        assert program.last_notice().startswith("RELOADING=1\nMONOTONIC_USEC=")
        assert program.last_notice() == "READY=1\nSTATUS=serving"
        (folder / "models").write_text("x = 1")
        program.process.send_signal(signal.SIGHUP)
        assert program.last_notice().startswith("RELOADING=1")
        assert "invalid" in program.last_notice()
        program.process.terminate()
        assert program.last_notice().startswith("STOPPING=1")
        _, errors = program.process.communicate(timeout=30)
        assert program.process.returncode == 0
        assert "models.toml: x: unknown key" in errors
    finally:
        program.process.kill()
        program.manager.close()
        program.process.wait()


def test_a_bad_file_at_the_start_ends_the_program_with_its_name(folder: Path) -> None:
    (folder / "models").write_text("[providers.p]\n")
    program = RunningProgram(folder)
    _, errors = program.process.communicate(timeout=30)
    assert program.process.returncode == 78
    assert errors == (
        'hive-model: models.toml: providers.p.base_url: is missing; a provider of kind "http"'
        " needs it\n"
    )
    program.manager.close()


def test_a_stop_lets_running_calls_end() -> None:
    async def main() -> None:
        gate = asyncio.Semaphore(0)
        data = json.dumps({"usage": USAGE["chat"]}).encode()
        reply = ProviderReply(pieces=[data], gate=gate.acquire)
        async with calling("chat", reply) as (host, provider):
            asked = asyncio.create_task(host.post(PATHS["chat"], body("chat")))
            await until(lambda: len(provider.requests) == 1)
            stopping = asyncio.create_task(host.program.stop())
            await until(lambda: len(host.program.listeners) == 0)
            gate.release()
            assert (await asked).status == 200
            await stopping
            assert host.hived.settled[0]["tokens_out"] == 7

    asyncio.run(main())


def test_the_options_have_the_paths_of_the_host() -> None:
    options = parse_options(["--models", "/x"])
    assert options.models == Path("/x")
    assert options.operator == Path("/run/hive-model/operator.sock")


def test_hived_is_told_which_prices_are_unknown() -> None:
    async def main() -> None:
        async with calling("chat", json_reply({})) as (host, _):

            def notes() -> list[object]:
                return [row["unknown"] for _, row in host.hived.price_notes]

            await until(lambda: bool(notes()))
            text = host.models.read_text()
            host.models.write_text(f"{text}\n[models.mine]\nprovider = 'p'\nname = 'own'\n")
            assert host.program.reload()
            await until(lambda: "mine" in list(notes()[-1]))  # type: ignore[call-overload]

    asyncio.run(main())
