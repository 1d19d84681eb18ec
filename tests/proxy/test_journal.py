"""What a provider has counted outlives hive-model: the next process settles it."""

from __future__ import annotations

import asyncio
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fixtures.models import KEY, FakeHived
from fixtures.providers import event_reply, fake_provider
from proxy.calling import MODELS, USAGE, body, request_bytes, stream

from hive_core.services.journal import ReportJournal
from hive_core.varlink import Message

USED: Message = {"tokens_in": 100}
SECONDS = 60


@contextmanager
def running_program(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """hive-model in a process of its own, killed at the end."""
    names = ("control", "hand", "operator", "small")
    sockets = [part for name in names for part in (f"--{name}", str(folder / f"{name}.sock"))]
    files = ["--models", str(folder / "models.toml"), "--keys", str(folder / "keys"),
             "--journal", str(folder / "unsettled")]  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-m", "hive_core.proxy.main", *sockets, *files], stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def settled_rows(hived: FakeHived) -> list[Message]:
    async with asyncio.timeout(SECONDS):
        while not hived.settled:  # noqa: ASYNC110 - the other process has no event for it
            await asyncio.sleep(0.01)
    return list(hived.settled)


def test_a_count_survives_a_kill_between_the_answer_and_its_settlement(tmp_path: Path) -> None:
    """The provider leaves its answer open behind the last event, so the call is not settled yet."""

    async def main() -> None:
        hived = FakeHived(tmp_path)
        await hived.start()
        hived.listen_for_hands()
        path = hived.hand_over()
        async with fake_provider(event_reply(*stream("chat"), hangs=True)) as provider:
            text = MODELS.replace("{wire}", "chat").replace("{url}", provider.base_url)
            (tmp_path / "models.toml").write_text(text)
            with running_program(tmp_path) as program:
                reader, writer = await asyncio.open_unix_connection(str(path))
                writer.write(request_bytes("chat", body("chat", stream=True)))
                async with asyncio.timeout(SECONDS):
                    await reader.readuntil(b"[DONE]")
                assert hived.settled == []
                program.kill()
                program.wait()
                writer.close()
            with running_program(tmp_path):
                (row,) = await settled_rows(hived)
        await hived.stop()
        for _, listening in hived.doors.values():
            listening.close()
        used = USAGE["chat"]
        assert (row["reservation"], row["estimated"], row["status"]) == ("r1", False, "broken")
        assert (row["tokens_in"], row["tokens_out"]) == (
            used["prompt_tokens"], used["completion_tokens"],
        )  # fmt: skip

    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "p").write_text(KEY)
    asyncio.run(main())


def reopen_journal(path: Path) -> dict[str, Message]:
    journal = ReportJournal(path)
    try:
        return journal.start()
    finally:
        journal.close()


def test_a_journal_gives_what_was_kept_and_not_dropped(tmp_path: Path) -> None:
    path = tmp_path / "unsettled"
    journal = ReportJournal(path)
    assert journal.start() == {}
    for key in ("a", "b", "a"):
        journal.keep(key, {**USED, "key": key})
    journal.drop("b")
    journal.drop("unknown")
    journal.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert reopen_journal(path) == {"a": {**USED, "key": "a"}}


def test_a_journal_of_which_nothing_is_open_is_empty_and_a_long_one_is_written_anew(
    tmp_path: Path,
) -> None:
    path = tmp_path / "unsettled"
    journal = ReportJournal(path)
    journal.start()
    journal.keep("old", USED)
    for number in range(300):
        journal.keep(str(number), {"text": "x" * 8192})
        journal.drop(str(number))
    assert path.stat().st_size < 2 << 20
    journal.drop("old")
    journal.close()
    assert path.read_bytes() == b""


@pytest.mark.parametrize("line", [b"{", b"\xff\xfe", b"[" * 5000, b'["x"]', b'[1, {"a": 1}]', b"7"])
def test_a_torn_or_damaged_line_of_a_journal_counts_for_nothing(
    tmp_path: Path, line: bytes
) -> None:
    path = tmp_path / "unsettled"
    path.write_bytes(b'["a",{"tokens_in":100}]\n' + line)
    assert reopen_journal(path) == {"a": USED}


def test_a_journal_that_cannot_be_written_loses_no_call(tmp_path: Path) -> None:
    journal = ReportJournal(tmp_path / "absent" / "unsettled")
    assert journal.start() == {}
    journal.keep("a", USED)
    journal.drop("a")
    journal.close()


def test_the_file_of_a_journal_is_not_followed_to_another_one(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("kept")
    (tmp_path / ".unsettled.new").symlink_to(tmp_path / "target")
    assert reopen_journal(tmp_path / "unsettled") == {}
    assert (tmp_path / "target").read_text() == "kept"
