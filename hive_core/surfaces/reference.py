"""`docs/reference/operations.md`, generated from the registry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from hive_core import errors
from hive_core.broker.operation import Operation
from hive_core.broker.request import INTERFACE
from hive_core.broker.scopes import OperationClass, class_of
from hive_core.surfaces.shape import Field, NamedType, Shapes, params_schema, result_schema

_HEAD = f"""\
# Operations

Generated from the registry by `python -m hive_core.surfaces`; do not edit.

Every operation is a method of the Varlink interface `{INTERFACE}`, on the socket of each agent and
on the operator's. Types are written as in its interface description: `?` may be absent, `[]` is a
list, `[string]` a map. A parameter of a wrong type is answered with
`org.varlink.service.InvalidParameter` (`parameter` is its path, as `steps.2.title`; `reason` says
what was expected and what was sent), a value of the right type that is invalid with
`InvalidArgument`. An agent that the caller cannot see is answered like one that does not exist:
`NotFound`. About an agent that it cannot see a caller can learn only that its name is taken.
"""


_LOGINS = {
    OperationClass.LOCAL: "none, only the operator's own socket",
    OperationClass.AGENT: "none, it is about an agent itself",
    OperationClass.ANY_LOGIN: "needs no scope",
    OperationClass.VIEWER: "scope `viewer`",
    OperationClass.NOTIFIER: "scope `notifier`",
    OperationClass.OPERATOR: "scope `operator`",
    OperationClass.APPROVER: "scope `approver`, with a second confirmation",
    OperationClass.BY_PARAMS: "scope `operator`, or `approver` with a second confirmation where it"
    " gives more rights",
}


def operations_page(registry: Mapping[str, Operation]) -> str:
    """The whole page."""
    shapes = Shapes(set())
    parts = [_operation(entry, shapes) for _, entry in sorted(registry.items())]
    types = [_type(entry) for _, entry in sorted(shapes.types.items())]
    index = " · ".join(f"[{name}](#{name})" for name in sorted(registry))
    return "\n".join((_HEAD, index, "", *parts, "# Types\n", *types, _errors()))


def _operation(operation: Operation, shapes: Shapes) -> str:
    params = shapes.fields(params_schema(operation), absent=True)
    result = shapes.fields(result_schema(operation), absent=False)
    return "\n".join((
        f"## {operation.name}\n",
        operation.doc + "\n",
        *_facts(operation),
        *_table("Parameters", params),
        *_table("Result", result),
    ))  # fmt: skip


def _facts(operation: Operation) -> Iterator[str]:
    yield f"- Method: `{INTERFACE}.{operation.method}`"
    yield f"- Action: `{operation.action}`"
    yield f"- Allowed: {operation.allow.text}"
    yield f"- Logins: {_LOGINS[class_of(operation)]}"
    if operation.aliases:
        yield f"- Also called: {', '.join(f'`{alias}`' for alias in sorted(operation.aliases))}"
    for name, parameter in operation.shares.items():
        yield f"- Also called: `{name}`, with `{parameter}`"
    if operation.mutates:
        yield "- Recorded in the audit log"
    if operation.streams:
        yield "- Streams when called with `more`"
    yield ""


def _table(title: str, fields: Iterable[Field]) -> Iterator[str]:
    rows = [f"| `{field.name}` | `{field.type}` | {_cell(field.doc)} |" for field in fields]
    if not rows:
        yield f"{title}: none.\n"
        return
    yield from (f"| {title} | Type | |", "| --- | --- | --- |", *rows, "")


def _type(named: NamedType) -> str:
    lines = [f"## {named.name}\n"]
    if named.doc:
        lines.append(named.doc + "\n")
    if named.words:
        lines.append(f"One of {', '.join(f'`{word}`' for word in named.words)}.\n")
    return "\n".join((*lines, *(_table("Member", named.fields) if named.fields else ())))


def _errors() -> str:
    rows = (
        f"| `{name}` | {kind.exit_code} | {_cell(' '.join((kind.__doc__ or '').split()))} |"
        for name, kind in errors.BY_WIRE.items()
    )
    head = "# Errors\n\n| Error | Exit code | |\n| --- | --- | --- |\n"
    return head + "\n".join(rows) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
