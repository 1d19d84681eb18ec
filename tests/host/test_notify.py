"""What the daemon tells its service manager, heard by a socket in its place."""

from __future__ import annotations

import array
import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.service_manager import service_manager
from typing_extensions import override

from hive_core.host.systemd import notify
from hive_core.model.wire.masks import Masks


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    with service_manager(tmp_path, monkeypatch) as receiver:
        yield receiver


def test_states_are_told(manager: socket.socket) -> None:
    notify.ready("3 agents")
    notify.status("4 agents")
    notify.send_life_sign()
    notify.stopping()
    said = [manager.recv(4096).decode() for _ in range(4)]
    assert said == [
        "READY=1\nSTATUS=3 agents", "STATUS=4 agents", "WATCHDOG=1", "STOPPING=1\nSTATUS=stopping",
    ]  # fmt: skip


def test_a_socket_is_handed_over_with_its_name_and_not_watched(manager: socket.socket) -> None:
    """systemd drops a descriptor that hangs up, as a socket does which does not listen yet."""
    keeper = notify.SystemdDescriptorStore()
    with socket.socket(socket.AF_UNIX) as stored:
        keeper.store("operator", stored.fileno())
    data, ancillary, _, _ = manager.recvmsg(4096, 1024)
    assert data.decode() == "FDSTORE=1\nFDNAME=operator\nFDPOLL=0"
    ((_, kind, content),) = ancillary
    assert kind == socket.SCM_RIGHTS
    (fd,) = array.array("i", content)
    os.close(fd)
    keeper.drop("operator")
    assert manager.recv(4096).decode() == "FDSTOREREMOVE=1\nFDNAME=operator"


def test_nothing_is_handed_over_without_a_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"):
        monkeypatch.delenv(name, raising=False)
    assert list(notify.stored_descriptors()) == []


@pytest.mark.parametrize(("text", "seconds"), [("30000000", 30.0), ("", None), ("soon", None)])
def test_how_often_a_life_sign_is_expected(
    monkeypatch: pytest.MonkeyPatch, text: str, seconds: float | None
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", text)
    assert notify.watchdog_seconds() == seconds


def test_without_a_journal_the_log_goes_to_stderr(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("JOURNAL_STREAM", raising=False)
    before = logging.root.handlers[:]
    try:
        notify.log_to_journal()
        logging.getLogger("hived").warning("hear me")
    finally:
        logging.root.handlers[:] = before
    assert "WARNING hived: hear me" in capsys.readouterr().err


def test_each_kind_of_line_has_an_id_of_its_own() -> None:
    """Row H31: `journalctl MESSAGE_ID=...` finds a kind whatever the line is about."""

    def message_id(text: str, name: str, **fields: str) -> str:
        record = logging.LogRecord("hived", logging.INFO, "", 1, text, (name,), None)
        vars(record).update(fields)
        assert notify.MessageIdFilter().filter(record)
        return str(vars(record)["MESSAGE_ID"])

    assert (
        message_id("%s is up", "ann")
        == message_id("%s is up", "bob")
        != message_id("%s is down", "ann")
    )
    assert len(message_id("%s is up", "ann")) == 32
    assert message_id("%s is up", "ann", MESSAGE_ID="its own") == "its own"


def test_no_registered_secret_is_logged() -> None:
    """K29: neither in a line, nor in what it was filled with, nor in a traceback."""
    masks, records = Masks(), list[logging.LogRecord]()
    masks.add(b"hunter22")

    class Kept(logging.Handler):
        @override
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    handler, log = Kept(), logging.getLogger("hive.hidden")
    handler.addFilter(notify.SecretFilter(masks))
    log.addHandler(handler)
    log.warning("it is %s", "hunter22")
    try:
        dict[str, int]()["no hunter22"]
    except LookupError:
        log.exception("failed with %r", b"hunter22")
    log.removeHandler(handler)
    text = str([vars(record) for record in records])
    assert "hunter22" not in text
    assert records[0].getMessage() == "it is ***"
    assert "KeyError: 'no ***'" in records[1].getMessage()
