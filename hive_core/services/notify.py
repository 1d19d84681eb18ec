"""Notifications to the service manager: sd_notify(3)."""

from __future__ import annotations

import logging
import os
import socket

log = logging.getLogger(__name__)


def notify(state: str) -> None:
    """Tell the service manager, where there is one."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    address = "\0" + address[1:] if address.startswith("@") else address
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        try:
            sender.sendto(state.encode(), address)
        except OSError as error:
            log.warning("Cannot notify the service manager: %s", error)
