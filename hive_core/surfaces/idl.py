"""The interface descriptions for Varlink introspection, generated from the registry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from hive_core import errors
from hive_core.broker.operation import Operation, camel
from hive_core.broker.request import INTERFACE
from hive_core.surfaces.shape import Field, NamedType, Shapes, params_schema, result_schema

SERVICE_INTERFACE: Final = "org.varlink.service"
# https://varlink.org/Service
SERVICE: Final = """\
# The Varlink Service Interface is provided by every varlink service. It
# describes the service and the interfaces it implements.
interface org.varlink.service

# Get a list of all the interfaces a service provides and information
# about the implementation.
method GetInfo() -> (
  vendor: string,
  product: string,
  version: string,
  url: string,
  interfaces: []string
)

# Get the description of an interface that is implemented by this service.
method GetInterfaceDescription(interface: string) -> (description: string)

# The requested interface was not found.
error InterfaceNotFound (interface: string)

# The requested method was not found
error MethodNotFound (method: string)

# The interface defines the requested method, but the service does not
# implement it.
error MethodNotImplemented (method: string)

# One of the passed parameters is invalid.
error InvalidParameter (parameter: string)

# Client is denied access
error PermissionDenied ()

# Method is expected to be called with 'more' set to true, but wasn't
error ExpectedMore ()
"""
_REASON: Final = Field("reason", "string", "What was refused and why, for people.")
_BESIDE: Final = (
    Field("agent", "?string", "The agent that it is about."),
    Field("job", "?string", "The job that failed."),
    Field("rule", "?string", "The rule that denied it."),
    Field("retry_after", "?float", "Seconds after which to try again."),
)
_FIELD: Final = Field("field", "string", "The parameter with the invalid value.")


def interface(registry: Mapping[str, Operation]) -> str:
    """`org.hive.Broker` in the Varlink interface definition language."""
    kinds = [kind for name, kind in errors.BY_WIRE.items() if name.startswith(errors.HIVE)]
    names = {
        camel(name)
        for operation in registry.values()
        for name in (operation.name, *operation.aliases)
    }
    shapes = Shapes(names | {kind.__name__ for kind in kinds})
    shared = {name: operation for operation in registry.values() for name in operation.shares}
    methods = [_method(operation, shapes, shared) for _, operation in sorted(registry.items())]
    return "\n".join((
        "# A tree of agents: list and change it, send messages, assign tasks, approve changes.",
        f"interface {INTERFACE}",
        "",
        *(_type(operation) for _, operation in sorted(shapes.types.items())),
        *methods,
        *(_error(kind) for kind in kinds),
    ))  # fmt: skip


def _method(operation: Operation, shapes: Shapes, shared: Mapping[str, Operation]) -> str:
    params = shapes.fields(params_schema(operation), absent=True)
    result = shapes.fields(result_schema(operation), absent=False)
    takes, gives = _struct(params), _struct(result)
    doc = _comment(f"{operation.doc}\nAllowed: {operation.allow.text}.")
    lines = [f"{doc}method {operation.method}{takes} -> {gives}\n"]
    for alias in operation.aliases:
        if alias in shared:
            lines.append(_shared_alias(alias, operation, shared[alias], shapes))
            continue
        doc = _comment(f"The same as {operation.method}.")
        lines.append(f"{doc}method {camel(alias)}{takes} -> {gives}\n")
    return "\n".join(lines)


def _shared_alias(alias: str, first: Operation, other: Operation, shapes: Shapes) -> str:
    """A name of two operations: the parameters and results of both, all optional."""
    params = (shapes.fields(params_schema(operation), absent=True) for operation in (first, other))
    results = (
        shapes.fields(result_schema(operation), absent=False) for operation in (first, other)
    )
    takes, gives = (_struct(_either(*sides)) for sides in (params, results))
    doc = _comment(f"{other.method} when it names `{other.shares[alias]}`, else {first.method}.")
    return f"{doc}method {camel(alias)}{takes} -> {gives}\n"


def _either(*sides: Iterable[Field]) -> list[Field]:
    fields = {field.name: field for side in sides for field in side}
    return [replace(field, type=f"?{field.type.removeprefix('?')}") for field in fields.values()]


def _type(named: NamedType) -> str:
    doc = _comment(named.doc) if named.doc else ""
    body = f" ({', '.join(named.words)})" if named.words else f" {_struct(named.fields)}"
    return f"{doc}type {named.name}{body}\n"


def _error(kind: type[errors.HiveError]) -> str:
    fields = (_REASON, _FIELD) if kind is errors.InvalidArgument else (_REASON,)
    return f"{_comment(kind.__doc__ or '')}error {kind.__name__} {_struct((*fields, *_BESIDE))}\n"


def _struct(fields: Iterable[Field]) -> str:
    members = list(_members(list(fields)))
    return "(\n" + "\n".join(members) + "\n)" if members else "()"


def _members(fields: list[Field]) -> Iterator[str]:
    for number, field in enumerate(fields, 1):
        if field.doc:
            yield _comment(field.doc, "  ").rstrip("\n")
        yield f"  {field.name}: {field.type}{',' if number < len(fields) else ''}"


def _comment(text: str, indent: str = "") -> str:
    lines = (f"{indent}# {line}".rstrip() for line in text.strip().splitlines())
    return "\n".join(lines) + "\n"
