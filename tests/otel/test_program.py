"""The program hive-otel: over a socket, with credentials of a unit, until a signal."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.fake_broker import FakeBroker, fake_broker
from fixtures.otlp import otlp_receiver

from hive_core.errors import InvalidArgument
from hive_core.otel.events import KINDS
from hive_core.otel.main import OtelOptions, run
from hive_core.varlink import Message

TOKEN = "token_of_a_test"  # noqa: S105 - of no login
MODEL_CALL = {
    "seq": 8, "kind": "model", "operation": "call", "time": 1000.5, "caller": "ann",
    "caller_uuid": "u1", "fields": {"alias": "big", "reservation": "r1", "status": "done"},
}  # fmt: skip
TURN = {
    "seq": 9, "kind": "record", "operation": "keep_turn", "time": 1001.0, "caller": "ann",
    "caller_uuid": "u1", "fields": {"conversation": "m", "turn": 1, "status": "done"},
}  # fmt: skip


def events(asked: Message) -> Message:
    if "last" in asked:
        return {"events": [{"seq": 7}], "next": None}
    events_after = [MODEL_CALL, TURN] if asked["after"] == "7" else []
    return {"events": events_after, "gap": None, "next": None}


@pytest.fixture(name="hived")
def _hived(tmp_path: Path) -> Iterator[FakeBroker]:
    """hived, as far as hive-otel asks it."""
    with fake_broker(tmp_path / "login.sock") as made:
        made.answers |= {"OpenLogin": lambda _: {"login": "l1"}, "ListEvents": events}
        yield made


@pytest.fixture(name="options")
def _options(hived: FakeBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OtelOptions:
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    (tmp_path / "otel_login").write_text(TOKEN, encoding="utf-8")
    (tmp_path / "otel_headers").write_text("x-key: k1\n", encoding="utf-8")
    return OtelOptions(tmp_path / "hive.toml", Path(hived.path), tmp_path)


def test_the_program_reads_its_files_sends_spans_and_ends_by_a_signal(
    hived: FakeBroker, options: OtelOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hive_core.otel.exporter.EVERY", 0.01)

    async def serve() -> None:
        program = asyncio.create_task(run(options))
        await asyncio.to_thread(hived.wait_for, "ListEvents", 3)  # the step before is saved
        signal.raise_signal(signal.SIGTERM)
        await program

    with otlp_receiver() as otlp:
        text = f'[otel]\nurl = "{otlp.url}"\nservice = "lab"\n'
        options.settings.write_text(text, encoding="utf-8")
        asyncio.run(serve())
    assert hived.params_of("OpenLogin") == [{"credential": TOKEN}]
    assert hived.params_of("ListEvents")[1] == {"after": "7", "kinds": list(KINDS), "limit": 500}
    assert [span.name for span in otlp.spans] == ["chat big", "turn ann"]
    ((headers, body),) = otlp.requests
    assert headers["x-key"] == "k1"
    assert b'"service.name","value":{"stringValue":"lab"}' in body
    assert TOKEN.encode() not in body
    assert '"cursor":"9"' in (options.state / "state.json").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "must name a receiver"), ('[otel]\nurl = "http://a:b@c/"\n', "otel.url"),
        ("[otel]\ntexts = 3\n", "otel.texts"), ("[otel\n", "cannot read"),
        ('[otel]\nurl = "http://127.0.0.1:1"\n', "run `hive setup`"),
    ],
)  # fmt: skip
def test_without_a_receiver_or_its_credential_it_does_not_start(
    options: OtelOptions, text: str, why: str
) -> None:
    options.settings.write_text(text, encoding="utf-8")
    (options.state / "otel_login").unlink()
    with pytest.raises(InvalidArgument, match=why):
        asyncio.run(run(options))
