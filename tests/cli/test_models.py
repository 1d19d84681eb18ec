"""`hive model`: what is listed, keys that go into one file only, tests and calls."""

from __future__ import annotations

import grp
import io
import json
import os
import stat
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import UnixStreamServer
from typing import Any

import pytest
from cli.run import Hive
from each import for_each
from typing_extensions import override

KEY = b"sk-secret-0123456789"
GROUP = grp.getgrgid(os.getgid()).gr_name
ROW = {
    "alias": "sonnet", "provider": "one", "kind": "http", "wire": "messages", "name": "middle",
    "context": 200_000, "max_output": 32_000, "fallback": [], "tiers": ["tactical"],
    "price_in": 3.0, "price_out": None,
}  # fmt: skip
EVENT = {
    "seq": 7, "time": 1_700_000_000.0, "kind": "model", "caller": "alice", "caller_uuid": "u",
    "operation": "", "target": "", "target_uuid": "", "allowed": None, "rule": "", "reason": "",
    "commit": "", "request": "", "digest": "",
    "fields": {"model": "sonnet", "status": "done", "tokens_in": 12_345, "tokens_out": 67,
               "cost": 38_040, "latency_ms": 900, "source": "measured"},
}  # fmt: skip


def pipe_stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    folder = tmp_path / "keys"
    folder.mkdir()
    return folder


def test_models_are_listed(hive: Hive) -> None:
    hive.peer.answers["ListModels"] = lambda _: {"models": [dict(ROW)]}
    done = hive("model", "list", "--agent", "alice", "-o", "wide")
    assert done.status == 0
    assert done.out.splitlines()[1].split() == [
        "sonnet", "one", "middle", "messages", "200,000", "3", "listed", "tactical", "-",
    ]  # fmt: skip
    assert hive.peer.params_of("ListModels")[0]["agent"] == "alice"


def test_a_price_that_nobody_knows_is_unknown(hive: Hive) -> None:
    row = {**ROW, "price_in": None, "price_known": False}
    hive.peer.answers["ListModels"] = lambda _: {"models": [row]}
    done = hive("model", "list", "-o", "wide")
    assert done.out.splitlines()[1].split()[5:7] == ["unknown", "unknown"]
    assert json.loads(hive("model", "list", "-o", "json").out)[0]["price_in"] is None


def test_a_key_goes_into_a_file_of_its_group_and_nowhere_else(
    hive: Hive, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for data in (b"old-key-000000", KEY + b"\n"):
        pipe_stdin(monkeypatch, data)
        done = hive("model", "key", "set", "one", "--folder", str(keys), "--group", GROUP)
        assert (done.status, done.out) == (0, "")
        assert data.decode().strip() not in done.err
    file = keys / "one"
    assert file.read_bytes() == KEY + b"\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert [path.name for path in keys.iterdir()] == ["one"]
    assert hive.peer.calls == []
    listed = hive("model", "key", "list", "--folder", str(keys), "-o", "name")
    assert (listed.status, listed.out) == (0, "one\n")
    assert hive("model", "key", "rm", "one", "--folder", str(keys)).status == 0
    assert hive("model", "key", "rm", "one", "--folder", str(keys)).status == 4
    assert list(keys.iterdir()) == []


def test_a_terminal_is_asked_whose_key_it_is(
    hive: Hive, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe_stdin(monkeypatch, b"")
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    asked: list[str] = []

    def answer(prompt: str) -> str:
        asked.append(prompt)
        return KEY.decode()

    monkeypatch.setattr("click.termui.hidden_prompt_func", answer)
    done = hive("model", "key", "set", "openai", "--folder", str(keys), "--group", GROUP)
    assert (done.status, (done.err + "".join(asked)).strip()) == (0, "Key of openai:")
    assert (keys / "openai").read_bytes() == KEY + b"\n"


@pytest.mark.parametrize("data", [b"", b"\n", b"two\nlines", b"a b", b"\xff-hush", b"x" * 9000])
def test_what_is_no_key_is_refused_and_not_shown(
    hive: Hive, keys: Path, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    pipe_stdin(monkeypatch, data)
    done = hive("model", "key", "set", "one", "--folder", str(keys), "--group", GROUP)
    assert (done.status, done.out) == (2, "")
    assert "hush" not in done.err
    assert list(keys.iterdir()) == []


@pytest.mark.parametrize("name", ["../x", "X", "", "a/b", ".x", "a" * 65])
def test_the_name_of_a_key_is_a_plain_word(
    hive: Hive, keys: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    pipe_stdin(monkeypatch, KEY)
    done = hive("model", "key", "set", name, "--folder", str(keys), "--group", GROUP)
    assert done.status == 2
    assert list(keys.iterdir()) == []


def test_a_key_cannot_be_an_argument(hive: Hive) -> None:
    done = hive("model", "key", "set", "one", "sk-value")
    assert done.status == 2


def test_a_failed_write_leaves_nothing(
    hive: Hive, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, group in ((keys / "none", GROUP), (keys, "no-such-group")):
        pipe_stdin(monkeypatch, KEY)
        done = hive("model", "key", "set", "one", "--folder", str(folder), "--group", group)
        assert done.status == 4
        assert "hive setup" in done.err
    assert list(keys.iterdir()) == []


def test_calls_are_shown(hive: Hive) -> None:
    hive.peer.answers["ListEvents"] = lambda _: {"events": [dict(EVENT)]}
    done = hive("model", "calls", "--agent", "alice", "-o", "jsonl")
    assert json.loads(done.out).items() >= {
        "agent": "alice", "model": "sonnet", "tokens_in": 12_345, "cache_read": 0, "cost": 38_040,
    }.items()  # fmt: skip
    asked = hive.peer.params_of("ListEvents")[0]
    assert (asked["kinds"], asked["agents"]) == (["model"], ["alice"])
    table = hive("model", "calls").out
    assert "12,345" in table
    assert "0.03804" in table
    of_sub = {**EVENT, "fields": {"model": "sonnet", "sub": "5ub"}}
    hive.peer.answers["ListEvents"] = lambda _: {"events": [of_sub]}
    assert "alice/5ub" in hive("model", "calls").out


class Answers(BaseHTTPRequestHandler):
    """hive-model as the operator sees it."""

    def do_POST(self) -> None:
        size = int(self.headers["content-length"])
        alias = json.loads(self.rfile.read(size))["alias"]
        status, answer = ANSWERS[alias]
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    @override
    def address_string(self) -> str:
        return "operator"

    @override
    def log_message(self, format: str, *args: object) -> None:
        del format, args


WHY = "cannot reach the provider: Name or service not known"
HEAD = {"provider": "one", "name": "middle", "wire": "messages", "price_known": False}
ANSWERS: dict[str, tuple[int, dict[str, Any]]] = {
    "good": (200, {**HEAD, "alias": "good", "text": "OK", "tokens_in": 9, "tokens_out": 2,
                   "estimated": False, "cost": 0.0, "ttft_ms": 20, "latency_ms": 30}),
    "bad": (200, {**HEAD, "alias": "bad", "error": WHY, "status": 502}),
    "key": (200, {**HEAD, "alias": "key", "error": "it refuses the key one", "status": 401}),
    "busy": (200, {**HEAD, "alias": "busy", "error": "too many", "status": 429}),
    "late": (200, {**HEAD, "alias": "late", "error": "no first byte", "status": 504}),
    "odd": (200, {**HEAD, "alias": "odd", "error": "provider one answered 500", "status": 500}),
    "old": (200, {**HEAD, "alias": "old", "error": "of an earlier hive-model"}),
    "none": (404, {"error": {"message": "there is no model 'none'"}}),
    "full": (503, {"error": {"message": "hive-model has too much to do"}}),
}  # fmt: skip


@pytest.fixture
def operator_socket(tmp_path: Path) -> Iterator[str]:
    path = str(tmp_path / "hive-model.sock")
    with UnixStreamServer(path, Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield path
        server.shutdown()
        thread.join()


def test_a_model_is_tested(hive: Hive, operator_socket: str) -> None:
    done = hive("model", "test", "good", "--socket", operator_socket)
    assert (done.status, done.out.splitlines()) == (0, [
        "good: one middle messages", "answer: OK", "tokens: 9 in, 2 out",
        "cost: 0.000000 (no known price: set price_in and price_out)",
        "time: 30 ms, first byte 20 ms",
    ])  # fmt: skip


@pytest.mark.parametrize("style", ["table", "json", "name"])
@for_each("alias, status", [
    ("bad", 69), ("key", 5), ("busy", 75), ("late", 124), ("odd", 1), ("old", 1), ("none", 4),
    ("full", 69),
])  # fmt: skip
def test_a_test_that_failed_says_why_and_ends_with_the_status_of_its_error(
    hive: Hive, operator_socket: str, alias: str, status: int, style: str
) -> None:
    answer = ANSWERS[alias][1]["error"]
    why = answer["message"] if isinstance(answer, dict) else answer
    done = hive("model", "test", alias, "--socket", operator_socket, "-o", style)
    assert (done.status, done.err) == (status, f"hive: cannot call model {alias}: {why}\n")
    if style == "json" and not isinstance(answer, dict):
        assert json.loads(done.out)["error"] == why


def test_a_hive_model_that_is_not_there_is_named_and_not_hived(
    hive: Hive, operator_socket: str
) -> None:
    done = hive("model", "test", "good", "--socket", operator_socket + "x")
    assert done.status == 69
    assert "is hive-model running? (`systemctl status hive-model`" in done.err
