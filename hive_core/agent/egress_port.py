"""The network of this agent for its programs: a loopback port that leads to hive-egress."""

from __future__ import annotations

from collections.abc import MutableMapping
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Final

from hive_core.agent.forward import AGENT_USERS, HOST, ForwardPair, ForwardServer
from hive_core.errors import Unreachable

EGRESS: Final = ForwardPair(3128, "/run/hive/egress.sock")
_HERE: Final = f"localhost,{HOST},::1"


def open_egress(
    environment: MutableMapping[str, str], pair: ForwardPair = EGRESS, users: range = AGENT_USERS
) -> None:
    """Serve the port and name it in the environment, where there is a socket to hive-egress.

    The port is served for as long as this process lives; port 0: one that is free.
    """
    if not Path(pair.socket).is_socket():
        return
    port = pair.port
    with suppress(Unreachable):  # another process of this container serves the port
        server = ForwardServer([pair], users=users)
        port = server.ports[0].socket.getsockname()[1]
        Thread(target=server.run, name="egress", daemon=True).start()
    proxy = f"http://{HOST}:{port}"
    environment.update(
        {"HTTPS_PROXY": proxy, "https_proxy": proxy, "NO_PROXY": _HERE, "no_proxy": _HERE}
    )
