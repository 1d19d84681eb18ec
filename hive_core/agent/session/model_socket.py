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


def read_models(path: str) -> list[ModelInfo]:
    """The models that this agent may use; Unreachable while hive-model is away."""
    connection = _UnixConnection(path)
    try:
        connection.request("GET", "/v1/models")
        reply = connection.getresponse()
        data = reply.read(_ANSWER_MOST)
    except (OSError, http.client.HTTPException) as error:
        raise Unreachable(f"cannot read the models of this agent: {error}") from None
    finally:
        connection.close()
    try:
        rows = json.loads(data).get("data")
    except (ValueError, AttributeError):
        rows = None
    if reply.status != http.client.OK or not isinstance(rows, list):
        raise Unreachable(f"cannot read the models of this agent: hive-model said {reply.status}")
    return [_model_info(row) for row in rows if isinstance(row, dict)]


def find_model(path: str, alias: str) -> ModelInfo:
    """The model of this alias; the first where none is named."""
    models = read_models(path)
    for model in models:
        if alias in ("", model.alias):
            return model
    names = ", ".join(model.alias for model in models) or "none"
    raise NotFound(f"no model {alias} for this agent; it may use {names}")


def _model_info(row: dict[str, object]) -> ModelInfo:
    def size(key: str) -> int:
        value = row.get(key)
        return value if isinstance(value, int) and value > 0 else 0

    return ModelInfo(
        str(row.get("id") or ""), str(row.get("wire") or "chat"), size("context") or _CONTEXT,
        str(row.get("name") or ""), size("max_output"),
    )  # fmt: skip
