"""The program `hive`. `hive top` on a terminal starts without click, which takes longer to load."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hive_core.cli.core.session import Session

SOCKET: Final = "/run/hive/operator.sock"
EVERY: Final = 0.5  # seconds between two screens of `hive top`
_INTERRUPTED: Final = 130
_SWITCH: Final = 0.0005  # seconds that a thread runs while another one waits


def socket_of_top(arguments: Sequence[str], environment: Mapping[str, str]) -> str | None:
    """The socket of a `hive top` that has no options of its own; None: click has to read it."""
    if "_HIVE_COMPLETE" in environment:
        return None
    match arguments:
        case ["top"]:
            return environment.get("HIVE_OPERATOR_SOCKET") or SOCKET
        case ["--socket", socket, "top"]:
            return socket
        case _:
            return None


def main() -> None:
    """Entry point."""
    socket = socket_of_top(sys.argv[1:], os.environ)
    streams = (sys.stdin, sys.stdout, sys.stderr)
    if socket is None or not all(stream and stream.isatty() for stream in streams):
        from hive_core.cli.main import main as run_command  # noqa: PLC0415 - loads click

        run_command()
    else:
        _show_top(socket)


def _show_top(socket: str) -> None:
    from hive_core.cli.agents.agent_follower import AgentFollower  # noqa: PLC0415 - for `hive top`

    # Importing holds the interpreter's lock; the thread is to get it between two modules.
    sys.setswitchinterval(_SWITCH)
    follower = AgentFollower(socket, EVERY)
    follower.start()

    @cache
    def open_session() -> Session:
        from hive_core.cli.core.session import Session  # noqa: PLC0415 - loads click

        return Session(socket)

    status = 0
    try:
        # hived answers while this is imported.
        from hive_core.cli.agents.top_terminal import TopTerminal  # noqa: PLC0415

        TopTerminal(follower, open_session, list).run()
    except KeyboardInterrupt:
        status = _INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the top: a fault of ours becomes a line
        from hive_core.cli.main import report_fault  # noqa: PLC0415 - loads click

        report_fault(error)
        status = 1
    sys.stdout.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
