"""Reads frames into calls: the Varlink envelope, the method, parameters that fit its schema."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from math import inf
from typing import Final

from pydantic import ValidationError

from hive_core import errors, varlink
from hive_core.broker.connection import ClientConnection, PendingCall, without_traceback
from hive_core.broker.operation import Operation, camel
from hive_core.broker.validation import NAMED, shown_value, validation_error
from hive_core.errors import BadFrame, HiveError, InvalidParameter

INTERFACE: Final = "org.hive.Broker"
# Of a call: names and values in its frame, and its parameters. What is refused costs time too.
VALUES: Final = 10_000
PARAMETERS: Final = 64
_SMALLEST: Final = 5  # bytes of a parameter, as `"":1,`
# Bytes of a frame that may hold many values.
_LARGE: Final = 4096
FLAGS: Final = ("oneway", "more", "upgrade")
_ENVELOPE: Final = frozenset({"method", "parameters", *FLAGS})

Fixed = Callable[[Mapping[str, object]], bytes]


class RequestReader:
    """Knows every method: those of the registry, and those with a fixed reply."""

    def __init__(
        self, registry: Mapping[str, Operation], fixed: Mapping[str, Fixed],
        monotonic: Callable[[], float] = lambda: 0.0,
    ) -> None:  # fmt: skip
        self._methods = {
            f"{INTERFACE}.{camel(name)}": operation
            for operation in registry.values()
            for name in (operation.name, *operation.aliases)
        }
        # Names that two share: the parameter that tells, and whose call it is with and without it.
        self._shared = {
            f"{INTERFACE}.{camel(name)}": (parameter, operation)
            for operation in registry.values()
            for name, parameter in operation.shares.items()
        }
        self._owners = {name: self._methods.pop(name) for name in self._shared}
        self._fixed = fixed
        self.monotonic = monotonic
        self._interfaces = {INTERFACE, *(name.rpartition(".")[0] for name in fixed)}

    def read(self, connection: ClientConnection, most: int, until: float = inf) -> None:
        """Parse frames until the connection has `most` calls ready, but none after `until`."""
        calls, frames = connection.calls, connection.frames
        while frames and (not calls or len(calls) < most):
            frame = frames.popleft()
            call = PendingCall(connection)
            if type(frame) is BadFrame:
                call.fault = frame
            else:
                self._parse(call, frame)
            calls.append(call)
            if frames and self.monotonic() > until:
                return

    def _parse(self, call: PendingCall, frame: bytes) -> None:
        """Fill in the call that a frame asks for; what is wrong with it is its `fault`."""
        call.size = len(frame)
        try:
            if call.size < _LARGE:
                self._fill(call, varlink.decode(frame, VALUES))
            else:
                with _no_garbage_collection():
                    self._fill(call, varlink.decode(frame, VALUES))
        except HiveError as fault:
            call.fault = without_traceback(fault)

    def _fill(self, call: PendingCall, message: varlink.Message) -> None:
        method, parameters = message.get("method"), message.get("parameters")
        if len(message) > (method is not None) + (parameters is not None):
            _check_envelope(call, message)
        if type(method) is not str:
            raise InvalidParameter("method", _expectation("text", method))
        if parameters is None:
            parameters = {}
        elif type(parameters) is not dict:
            raise InvalidParameter("parameters", _expectation("an object", parameters))
        operation = self._methods.get(method) or self._of_several(method, parameters)
        if operation is None:
            call.reply = self._fixed_reply(method, parameters)
            return
        # No operation has as many, so that one is unknown.
        if call.size > _SMALLEST * PARAMETERS and len(parameters) > PARAMETERS:
            parameters = dict(islice(parameters.items(), PARAMETERS))
        try:
            params = operation.validate(parameters)
        except ValidationError as error:
            raise validation_error(error, parameters, operation.params) from None
        call.request = (operation, params)
        call.writes, call.changes = operation.writes, operation.changes
        call.streams = call.more and operation.streams

    def _of_several(self, method: str, parameters: Mapping[str, object]) -> Operation | None:
        shared = self._shared.get(method)
        if shared is None:
            return None
        parameter, other = shared
        return other if parameter in parameters else self._owners[method]

    def _fixed_reply(self, method: str, parameters: Mapping[str, object]) -> bytes:
        if method in self._fixed:
            return self._fixed[method](parameters)
        interface = method.rpartition(".")[0]
        if interface in self._interfaces:
            raise errors.MethodNotFound(method[:NAMED])
        raise errors.InterfaceNotFound(interface[:NAMED])


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Pause the collector: the values of a refused frame are not cyclic and are freed without it.

    Otherwise the thousands of values in a large frame would soon make it examine everything that
    the daemon has in memory, while all other calls wait (attack 66).
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _check_envelope(call: PendingCall, message: varlink.Message) -> None:
    for name, value in message.items():
        if name not in _ENVELOPE:
            raise InvalidParameter(name[:NAMED], "a call has no such field")
        if name in FLAGS and not isinstance(value, bool | None):
            raise InvalidParameter(name, _expectation("true or false", value))
    # The flag decides whether a fault is answered, so it is set before anything else can fail.
    call.oneway = message.get("oneway") is True
    call.more = message.get("more") is True
    if message.get("upgrade") is True:
        raise errors.MethodNotImplemented(str(message.get("method"))[:NAMED])


def _expectation(expected: str, value: object) -> str:
    return f"expected {expected}, not {shown_value(value)}"
