"""The description of the HTTP API (OpenAPI 3.1) and its page, from the registry."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any, Final

from hive_core.broker.operation import Operation
from hive_core.broker.scopes import OperationClass, class_of
from hive_core.surfaces.shape import Schema, params_schema, result_schema

SERVED: Final = (OperationClass.VIEWER, OperationClass.OPERATOR, OperationClass.BY_PARAMS)
_ERRORS: Final = {
    "400": "The request does not fit the schema.",
    "401": "The request has no valid token.",
    "403": "The token may not do this.",
    "404": "The operation, the agent or the thing does not exist.",
    "409": "The state of the thing does not allow it.",
    "422": "A value is not valid here.",
    "429": "A limit is reached; see `Retry-After`.",
    "503": "hived is busy, full or away; try again.",
}
_LOCAL: Final = "#/$defs/"


class _Schemas:
    """The named schemas of the document. Where two differ, the later one has a number."""

    def __init__(self) -> None:
        self.named: dict[str, Schema] = {}

    def add(self, schema: Schema) -> Schema:
        """The schema with references into the document; its own definitions are moved there."""
        definitions = schema.get("$defs", {})
        names = {name: name for name in definitions}
        for name in definitions:
            names[name] = self._free_name(name, definitions, names)
        for name, definition in definitions.items():
            self.named[names[name]] = _rewrite(definition, names)
        return dict(_rewrite({key: schema[key] for key in schema if key != "$defs"}, names))

    def _free_name(self, name: str, definitions: Schema, names: Mapping[str, str]) -> str:
        for number in count(1):
            free = name if number == 1 else f"{name}{number}"
            if self.named.get(free) in (None, _rewrite(definitions[name], names)):
                return free
        raise AssertionError


def _rewrite(value: Any, names: Mapping[str, str]) -> Any:  # noqa: ANN401 - JSON
    """The same with each reference to a definition of its own pointing into the document."""
    if isinstance(value, list):
        return [_rewrite(part, names) for part in value]
    if not isinstance(value, dict):
        return value
    return {
        key: f"#/components/schemas/{names[part.removeprefix(_LOCAL)]}"
        if key == "$ref"
        else _rewrite(part, names)
        for key, part in value.items()
        if key != "title" or not isinstance(part, str)
    }


def served_operations(registry: Mapping[str, Operation]) -> Iterator[Operation]:
    """The operations that a token can call, by name."""
    for _, operation in sorted(registry.items()):
        if class_of(operation) in SERVED:
            yield operation


def openapi_json(registry: Mapping[str, Operation]) -> str:
    """The text of the file."""
    schemas = _Schemas()
    paths: dict[str, Any] = {
        f"/{operation.name}": {"post": _path(operation, schemas)}
        for operation in served_operations(registry)
    }
    paths["/events"] = {"get": _EVENTS_PATH}
    error = {
        "type": "object", "required": ["error", "reason"],
        "properties": {"error": {"type": "string"}, "reason": {"type": "string"}},
    }  # fmt: skip
    schemas.named["Error"] = error
    document = {
        "openapi": "3.1.0",
        "info": {"title": "hive", "version": "1", "description": _DESCRIPTION},
        "servers": [{"url": "/api/v1"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": dict(sorted(schemas.named.items())),
            "responses": {f"Error{status}": _error(doc) for status, doc in _ERRORS.items()},
        },
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _error(doc: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Error"}
    return {"description": doc, "content": {"application/json": {"schema": schema}}}


_DESCRIPTION: Final = (
    "Operations of hive for programs. A token comes from `hive web token create`; its scope"
    " bounds what it may call, and what takes a second confirmation it may not do at all."
)
_ERROR_RESPONSES: Final = {
    status: {"$ref": f"#/components/responses/Error{status}"} for status in _ERRORS
}


def _path(operation: Operation, schemas: _Schemas) -> dict[str, Any]:
    params = schemas.add(params_schema(operation))
    result = schemas.add(result_schema(operation))
    content = {"application/json": {"schema": result}}
    if operation.streams:
        content["application/jsonl"] = content["text/event-stream"] = {"schema": result}
    path: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.doc.partition("\n")[0],
        "description": operation.doc,
        "tags": [operation.handler.__module__.split(".")[2]],
        "x-hive-scope": class_of(operation).value,
        "requestBody": {"content": {"application/json": {"schema": params}}},
        "responses": {
            "200": {"description": "The result.", "content": content},
            **_ERROR_RESPONSES,
        },
    }
    return {**path, "x-hive-stream": True} if operation.streams else path


def _query(name: str, doc: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": doc, "schema": {"type": "string"}}


_EVENTS_PATH: Final[dict[str, Any]] = {
    "operationId": "events",
    "summary": "Follow the audit log as server-sent events.",
    "description": "Each event has its number as id and its kind as name; `data` is an event of"
    " `list_events`. An event `gap` says that those from one number to another were pruned. The"
    " header `Last-Event-ID` resumes.",
    "tags": ["audit"],
    "x-hive-scope": "viewer",
    "parameters": [
        _query("kinds", "Only these kinds, separated by commas; `*` at the end of one matches any"
               " rest."),
        _query("agents", "Only events of these agents, separated by commas."),
        _query("after", "Only events after this number; absent: from now on."),
    ],
    "responses": {
        "200": {"description": "The events.", "content": {
            "text/event-stream": {"schema": {"type": "string"}},
        }},
        **_ERROR_RESPONSES,
    },
}  # fmt: skip


_HEAD: Final = """\
# HTTP API

Generated from the registry by `python -m hive_core.surfaces`; do not edit.

hive-web serves `POST /api/v1/OPERATION` with the parameters as a JSON object, at the addresses of
`[web] origins`. Programs give a token of `hive web token create`
(`Authorization: Bearer token_...`); cookies do not count. The reply is the result as JSON.
`GET /api/v1/openapi.json` describes it all (OpenAPI 3.1).

    curl -sS http://localhost:4483/api/v1/list_agents -d '{}' \\
      -H 'Content-Type: application/json' -H "Authorization: Bearer $TOKEN"

- A body has at most 128 KiB; a longer one is refused with 413, one of another type with 415.
- An error is `{"error", "reason", ...}` with the status of the table below.
- An operation that streams does so with `Accept: application/jsonl` or `text/event-stream`: one
  reply a line, or an event. Otherwise it returns its first page.
- `GET /api/v1/events?kinds=&agents=&after=` follows the audit log as server-sent events. `id` is
  the number of the event; the header `Last-Event-ID` or `after` resumes, and an event `gap` says
  which numbers were pruned.
- `GET /metrics` has the metrics of `hive metrics`, and `hive_web_streams` and
  `hive_web_lag_seconds`, for Prometheus.
- A token has 20 requests a second, 60 in a burst, 16 calls at once, and 4 of them as streams. It
  may do nothing that takes a second confirmation.
"""


def http_api_page(registry: Mapping[str, Operation]) -> str:
    """The whole page."""
    errors = "\n".join(f"| {status} | {doc} |" for status, doc in _ERRORS.items())
    rows = "\n".join(_row(operation) for operation in served_operations(registry))
    return (
        f"{_HEAD}\n| Status | |\n| --- | --- |\n{errors}\n\n"
        f"| Operation | Scope | Streams | |\n| --- | --- | --- | --- |\n{rows}\n"
    )


def _row(operation: Operation) -> str:
    name, doc = operation.name, operation.doc.partition("\n")[0].replace("|", "\\|")
    streams = "yes" if operation.streams else ""
    return f"| [`{name}`](operations.md#{name}) | {class_of(operation).value} | {streams} | {doc} |"
