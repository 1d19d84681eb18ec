"""login.sock: where the services of the operator's side act on behalf of accounts."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from hive_core.host.sockets.server import SocketServer
from hive_core.host.sockets.service_sockets import user_id
from hive_core.ledger.accounts.logins import LoginStore
from hive_core.model.config.settings import Paths
from hive_core.operations.accounts.views import TOPIC

log = logging.getLogger(__name__)
USERS: Final = ("hive-web", "hive-notify", "hive-otel")
GROUP: Final = "hive-login"


@dataclass(frozen=True, slots=True)
class LoginSocket:
    """Opens login.sock, and closes connections whose login has ended.

    A host without these users has no login.sock, because no process could use it.
    """

    sockets: SocketServer
    paths: Paths
    logins: LoginStore

    async def listen(self) -> None:
        uids = frozenset(uid for user in USERS if (uid := user_id(user)) is not None)
        if uids:
            await self.sockets.listen_logins(self.paths.login_socket, GROUP, uids)

    def on_topics(self, topics: frozenset[str]) -> None:
        if TOPIC in topics:
            self.sockets.close_connections_of_ended_logins(
                lambda login: self.logins.get(login) is not None
            )
