"""The HTTP interface that agents see."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from hive_core.errors import HiveError
from hive_core.proxy.accounts import refusal
from hive_core.proxy.client import ClientGone, ClientSide, Receive, Send
from hive_core.proxy.config import ProxyConfig
from hive_core.proxy.failure import CallFailed
from hive_core.proxy.meter import list_of
from hive_core.proxy.model_call import CallServices, ModelCall
from hive_core.proxy.route import Purpose, find_route, wire_of_path
from hive_core.services.packets import HandedSocket

_MODELS_MOST: Final = 1000
log = logging.getLogger(__name__)


@dataclass(slots=True)
class ModelApp:
    """`config` is replaced when the files are read again."""

    services: CallServices
    config: ProxyConfig

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        client = ClientSide(scope["headers"], receive, send)
        agent_socket: HandedSocket = scope["state"]["agent_socket"]
        limits = self.services.limits
        if wait := limits.pace(agent_socket.agent, self.config.models.limits):
            await asyncio.sleep(wait)
        try:
            await self._serve(scope, agent_socket, client)
        except ClientGone:
            pass
        except CallFailed as failure:
            await self._fail(client, failure, scope)
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("A fault of hive-model")
            await self._fail(client, CallFailed(500, "a fault of hive-model"), scope)

    async def _serve(
        self, scope: dict[str, Any], agent_socket: HandedSocket, client: ClientSide
    ) -> None:
        route = find_route(scope["method"], scope["raw_path"], scope["query_string"])
        if route.purpose is Purpose.PROBE:
            await client.reply(200, [], b"")
        elif route.purpose is Purpose.LIST:
            with self.services.limits.admit(agent_socket.agent, self.config.models.limits):
                await client.reply_json(await self._models(agent_socket))
        else:
            await ModelCall(self.services, self.config, agent_socket, route, client).run()

    async def _models(self, agent_socket: HandedSocket) -> dict[str, Any]:
        """The models that this agent may call, in the forms of all wires at once."""
        aliases = await self._allowed_aliases(agent_socket.name)
        data = [self._row(alias) for alias in aliases if alias in self.config.models.models]
        ends = {"first_id": data[0]["id"], "last_id": data[-1]["id"]} if data else {}
        return {"object": "list", "data": data, "has_more": False, **ends}

    async def _allowed_aliases(self, agent: str) -> list[str]:
        aliases: list[str] = []
        parameters: dict[str, object] = {"agent": agent}
        while len(aliases) <= _MODELS_MOST:
            try:
                page = await self.services.accounts.call("ListModels", parameters)
            except HiveError as error:
                raise refusal(error) from error
            aliases += [str(row.get("alias")) for row in list_of(page, "models")]
            if not page.get("next"):
                break
            parameters = {"agent": agent, "after": page["next"]}
        return aliases

    def _row(self, alias: str) -> dict[str, Any]:
        model = self.config.models.models[alias]
        return {
            "id": alias, "object": "model", "type": "model", "display_name": alias, "created": 0,
            "created_at": "1970-01-01T00:00:00Z", "owned_by": model.provider,
            "name": model.name, "wire": str(self.config.models.wire_of(alias)),
            "context": model.context, "max_output": model.max_output,
        }  # fmt: skip

    async def _fail(self, client: ClientSide, failure: CallFailed, scope: dict[str, Any]) -> None:
        if client.is_started:
            raise failure  # the connection is closed, so that the client sees a broken answer
        agent_socket: HandedSocket = scope["state"]["agent_socket"]
        may_drop = partial(
            self.services.limits.may_drop, agent_socket.agent, self.config.models.limits
        )
        await client.fail(failure, wire_of_path(scope["raw_path"]), may_drop)
