"""What hive-model says about the models of this agent: wire, context, name."""

from __future__ import annotations

import http.client
import json
import socket
from dataclasses import dataclass
from typing import Final

from hive_core.errors import NotFound, Unreachable

_SECONDS: Final = 30.0
_ANSWER_MOST: Final = 1 << 20
_CONTEXT: Final = 32_768  # of a model whose context hive-model does not know


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model by its alias. `name`: the provider's own; `max_output` 0: unknown."""

    alias: str
    wire: str
    context: int
    name: str = ""
    max_output: int = 0


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("hive-model", timeout=_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(_SECONDS)
        self.sock.connect(self._path)


class ModelsRequest:
    """Asks hive-model which models this agent may use: `with` sends the request, `find` waits.

    Between the two its caller asks others. Unreachable while hive-model is away.
    """

    def __init__(self, path: str) -> None:
        self._connection = _UnixConnection(path)

    def __enter__(self) -> ModelsRequest:
        try:
            self._connection.request("GET", "/v1/models")
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise _unreachable(error) from None
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def find(self, alias: str) -> ModelInfo:
        """The model of this alias; the first where none is named."""
        models = self._read()
        for model in models:
            if alias in ("", model.alias):
                return model
        names = ", ".join(model.alias for model in models) or "none"
        raise NotFound(f"no model {alias} for this agent; it may use {names}")

    def _read(self) -> list[ModelInfo]:
        try:
            reply = self._connection.getresponse()
            data = reply.read(_ANSWER_MOST)
        except (OSError, http.client.HTTPException) as error:
            raise _unreachable(error) from None
        try:
            rows = json.loads(data).get("data")
        except (ValueError, AttributeError):
            rows = None
        if reply.status != http.client.OK or not isinstance(rows, list):
            raise _unreachable(f"hive-model said {reply.status}")
        return [_model_info(row) for row in rows if isinstance(row, dict)]


def find_model(path: str, alias: str) -> ModelInfo:
    """The model of this alias; the first where none is named."""
    with ModelsRequest(path) as models:
        return models.find(alias)


def _unreachable(reason: object) -> Unreachable:
    return Unreachable(f"cannot read the models of this agent: {reason}")


def _model_info(row: dict[str, object]) -> ModelInfo:
    def size(key: str) -> int:
        value = row.get(key)
        return value if isinstance(value, int) and value > 0 else 0

    return ModelInfo(
        str(row.get("id") or ""), str(row.get("wire") or "chat"), size("context") or _CONTEXT,
        str(row.get("name") or ""), size("max_output"),
    )  # fmt: skip
