"""Requests and results of tasks as the JSON of their columns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from functools import lru_cache
from typing import Final

from hive_core.model.work.task import ResultStatus, TaskRequest, TaskResult

_REQUEST_DEFAULTS: Final = asdict(TaskRequest(""))


def request_to_json(request: TaskRequest) -> str:
    """A request, without what has its default."""
    said = {
        key: value for key, value in _fields_of(request).items() if value != _REQUEST_DEFAULTS[key]
    }
    return json.dumps({"description": request.description, **said}, separators=(",", ":"))


@lru_cache(maxsize=64)  # one operation reads it several times
def request_from_json(text: str) -> TaskRequest:
    """The request in its column."""
    values = json.loads(text)
    for name in ("after", "artifacts", "without_tools"):
        if name in values:
            values[name] = tuple(values[name])
    return TaskRequest(**values)


def result_to_json(result: TaskResult) -> str:
    """A result as its column has it."""
    return json.dumps(_fields_of(result))


@lru_cache(maxsize=64)
def result_from_json(text: str) -> TaskResult:
    """The result in its column."""
    values = json.loads(text)
    values["status"] = ResultStatus(values["status"])
    values["artifacts"] = tuple(values["artifacts"])
    return TaskResult(**values)


def _fields_of(value: TaskRequest | TaskResult) -> Mapping[str, object]:
    return {column.name: getattr(value, column.name) for column in fields(value)}
