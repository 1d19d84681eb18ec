"""Messages to the service manager: ready, status, watchdog, stored descriptors, log."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from typing import Final
from uuid import UUID, uuid5

from systemd import daemon, journal
from typing_extensions import override

from hive_core.model.wire.masks import Masks

IDENTIFIER: Final = "hived"
EVENTS: Final = "hive-events"
STEP_SECONDS: Final = 60  # seconds for one step of a start
LINES: Final = UUID("0d5c7a52-8f0c-4a58-9b43-7d1f7a6f3c10")


def starting() -> None:
    """Extend the start timeout: each step may take as long as a whole start otherwise.

    https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html#EXTEND_TIMEOUT_USEC=%E2%80%A6
    """
    daemon.notify(f"EXTEND_TIMEOUT_USEC={STEP_SECONDS * 1_000_000}")


def ready(status: str) -> None:
    daemon.notify(f"READY=1\nSTATUS={status}")


def status(text: str) -> None:
    daemon.notify(f"STATUS={text}")


def stopping() -> None:
    daemon.notify("STOPPING=1\nSTATUS=stopping")


def send_life_sign() -> None:
    daemon.notify("WATCHDOG=1")


def watchdog_seconds() -> float | None:
    """The watchdog timeout; None if there is none."""
    microseconds = os.environ.get("WATCHDOG_USEC", "")
    return int(microseconds) / 1e6 if microseconds.isdigit() else None


class SystemdDescriptorStore:
    """Keeps listening sockets in systemd while the daemon restarts.

    https://www.freedesktop.org/software/systemd/man/latest/systemd.service.html#FileDescriptorStoreMax=
    """

    def store(self, name: str, fd: int) -> None:
        """Store a descriptor; systemd closes a duplicate."""
        # A socket that does not listen yet reports a hang-up, and systemd would drop it.
        daemon.notify(f"FDSTORE=1\nFDNAME={name}\nFDPOLL=0", fds=[fd])

    def drop(self, name: str) -> None:
        daemon.notify(f"FDSTOREREMOVE=1\nFDNAME={name}")


def stored_descriptors() -> Iterator[tuple[str, int]]:
    """Descriptors that the previous daemon stored in systemd, by name. The caller owns them."""
    names = os.environ.get("LISTEN_FDNAMES", "").split(":")
    return zip(names, daemon.listen_fds(unset_environment=True), strict=False)


def event(fields: Mapping[str, str]) -> None:
    """Write an event as an entry of the journal, with a MESSAGE_ID for each kind of event."""
    kind = uuid5(LINES, f"event {fields.get('HIVE_KIND', '')}").hex
    journal_fields = {key: value for key, value in fields.items() if key != "MESSAGE"}
    journal.send(fields["MESSAGE"], MESSAGE_ID=kind, SYSLOG_IDENTIFIER=EVENTS, **journal_fields)


class SecretFilter(logging.Filter):
    """Masks registered secrets in the log of this process."""

    def __init__(self, masks: Masks) -> None:
        super().__init__()
        self._masks = masks

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self._masks.hide(record.getMessage()), ()
        if record.exc_info:
            text = logging.Formatter().formatException(record.exc_info)
            record.msg, record.exc_info = f"{record.msg}\n{self._masks.hide(text)}", None
        return True


def hide(masks: Masks) -> None:
    """Mask secrets in the log from now on. Added last, so that MESSAGE_IDs do not change."""
    for handler in logging.getLogger().handlers:
        handler.addFilter(SecretFilter(masks))


class MessageIdFilter(logging.Filter):
    """Adds a MESSAGE_ID for each kind of line, stable across versions with the same text.

    https://www.freedesktop.org/software/systemd/man/latest/systemd.journal-fields.html
    """

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        if not hasattr(record, "MESSAGE_ID"):
            record.MESSAGE_ID = uuid5(LINES, f"{record.name}: {record.msg}").hex
        return True


def log_to_journal(level: int = logging.INFO) -> None:
    """Send the log of this process to the journal, or to stderr if there is none.

    `extra={"HIVE_UUID": ...}` becomes a field of the entry; `MESSAGE_ID` is its kind.
    """
    handler: logging.Handler
    if os.environ.get("JOURNAL_STREAM"):
        handler = journal.JournalHandler(SYSLOG_IDENTIFIER=IDENTIFIER)
        handler.setFormatter(logging.Formatter("%(message)s"))
        handler.addFilter(MessageIdFilter())
    else:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("watchfiles").setLevel(logging.WARNING)  # logs each change of a file
