"""Actions of hived itself in an agent's socket directory: its socket, and what it shows there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from hive_core.host.config.deployed_configs import show_config
from hive_core.host.storage.credentials import Credentials
from hive_core.host.storage.views import Views, show_identity
from hive_core.model.config.settings import Paths
from hive_core.plan.daemon_actions import (
    DaemonAction,
    Forget,
    Listen,
    RequestRestart,
    ShowConfig,
    ShowIdentity,
    ShowView,
    StopListening,
)


def _capabilities(action: ShowIdentity) -> list[str]:
    """The capabilities of the agent in the identity document of the action."""
    capabilities = action.document.get("capabilities")
    return (
        [str(capability) for capability in capabilities] if isinstance(capabilities, list) else []
    )


class AgentSockets(Protocol):
    """The part of the socket server that the change path uses."""

    async def listen(self, uuid: str, path: Path, uid_base: int) -> None: ...
    def close(self, party: str) -> None: ...


class SocketDirectories:
    """Applies the daemon's own actions. `nar` returns the files of a deployed commit.

    `nar` is called with the agent, the commit and the expected hash.
    """

    def __init__(
        self, sockets: AgentSockets, paths: Paths, nar: Callable[[str, str, str], bytes],
        credentials: Credentials,
    ) -> None:  # fmt: skip
        self._sockets, self._paths, self._nar = sockets, paths, nar
        self._credentials = credentials
        self._views = Views()

    async def apply(self, action: DaemonAction) -> None:
        match action:
            case Listen(uuid, base):
                await self._sockets.listen(uuid, self._paths.socket(uuid), base)
            case StopListening(uuid):
                self._sockets.close(uuid)
            case ShowIdentity(uuid):
                place = self._paths.identity(uuid)
                self._credentials.show(uuid, place.parent, _capabilities(action))
                show_identity(place, action)
            case ShowView(uuid):
                await self._views.show(self._paths.view(uuid), action)
            case ShowConfig(uuid, commit, nar):
                room = self._paths.identity(uuid).parent
                show_config(room, commit, lambda: self._nar(uuid, commit, nar))
            case RequestRestart() | Forget():
                pass  # rows of the ledger only

    def forget(self, uuid: str) -> None:
        """Forget what was shown, because the socket directory was created again or removed."""
        self._views.forget(uuid)
