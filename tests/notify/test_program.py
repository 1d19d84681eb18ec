"""The program hive-notify: over a socket, with credentials of a unit, until a signal."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.fake_broker import FakeBroker, fake_broker

from hive_core.errors import InvalidArgument, Unreachable
from hive_core.notify.main import NotifyOptions, run
from hive_core.notify.source import LoginSource

OPENED = "token_of_a_test"


@pytest.fixture(name="hived")
def _hived(tmp_path: Path) -> Iterator[FakeBroker]:
    """hived, as far as hive-notify asks it."""
    question = {"kind": "question", "id": "q1", "agent": "ann", "text": "why?"}
    with fake_broker(tmp_path / "login.sock") as made:
        made.answers |= {
            "OpenLogin": lambda _: {"login": "l1"},
            "Todo": lambda _: {"todo": [question], "more": 0},
            "ListEvents": lambda _: {"events": [], "gap": None, "next": None},
        }  # fmt: skip
        yield made


def test_each_connection_opens_its_login_first_and_is_made_again(hived: FakeBroker) -> None:
    async def ask() -> None:
        source = LoginSource(Path(hived.path), OPENED)
        assert [row["id"] for row in await source.todo()] == ["q1"]
        assert await source.events("7") == ([], "7")
        hived.stop()
        with pytest.raises(Unreachable):
            await source.todo()
        hived.start()
        assert await source.todo()
        await source.end()

    asyncio.run(ask())
    called = [name for name, _ in hived.calls]
    assert called == ["OpenLogin", "Todo", "ListEvents", "OpenLogin", "Todo"]
    assert hived.params_of("OpenLogin")[0] == {"credential": OPENED}


def test_the_program_reads_its_files_and_ends_by_a_signal(
    hived: FakeBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    monkeypatch.setattr("hive_core.notify.notifier.EVERY", 0.01)
    (tmp_path / "notify_login").write_text(OPENED, encoding="utf-8")
    settings = tmp_path / "hive.toml"
    # Nothing listens there: the notice stays queued.
    settings.write_text(
        '[notify.routes.phone]\ntype = "ntfy"\nurl = "http://127.0.0.1:1"\ntopic = "t"\n',
        encoding="utf-8",
    )
    options = NotifyOptions(settings, Path(hived.path), tmp_path)

    async def serve() -> None:
        program = asyncio.create_task(run(options))
        await asyncio.to_thread(hived.wait_for, "ListEvents", 2)  # the step before is saved
        signal.raise_signal(signal.SIGTERM)
        await program

    asyncio.run(serve())
    assert "question:q1" in (tmp_path / "state.json").read_text(encoding="utf-8")


def test_without_its_credential_it_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    with pytest.raises(InvalidArgument, match="run `hive setup`"):
        asyncio.run(run(NotifyOptions(tmp_path / "none.toml", tmp_path / "x", tmp_path)))
