"""What must hold for every frame, from its bytes to a call that is ready for its decision."""

from __future__ import annotations

import json
import time
from collections import deque

from long import at_most

from hive_core import errors, varlink
from hive_core.broker.connection import ClientConnection, PendingCall
from hive_core.broker.request import RequestReader
from hive_core.operations import load
from hive_core.surfaces.service import introspection_methods

REGISTRY = load()
READER = RequestReader(REGISTRY, introspection_methods(REGISTRY, "1"))
DECLARED = frozenset(errors.BY_WIRE) - {errors.Internal.wire}
# Row R12. CPU of this thread, so that a busy machine is no finding.
SLOWEST = 0.25


def examine(frame: bytes) -> PendingCall:
    """The call in the frame, or its fault; AssertionError for a fault that is not declared."""
    start = time.thread_time()
    ask = parse(frame)
    assert time.thread_time() - start < at_most(SLOWEST, slack=0)
    if ask.fault is not None:
        assert ask.fault.wire in DECLARED
        assert varlink.decode(varlink.encode(ask.fault.parameters)[:-1]) == ask.fault.parameters
    if isinstance(ask.fault, errors.BadFrame):
        return ask
    message = varlink.decode(frame)
    assert message == reference(frame)
    assert varlink.decode(varlink.encode(message)[:-1]) == message
    if ask.request is not None:
        operation, params = ask.request
        result = message.get("parameters") or {}
        assert isinstance(result, dict)
        assert set(result) <= set(operation.params.model_fields)
        assert params.model_fields_set == set(result)
    return ask


def parse(frame: bytes) -> PendingCall:
    line = ClientConnection("somebody", 0, lambda _, __: None)
    line.frames = deque([frame])
    READER.read(line, 1)
    (ask,) = line.calls
    return ask


def reference(frame: bytes) -> object:
    """The same by the plain library, with the rule on keys written down a second time."""

    def pairs(members: list[tuple[str, object]]) -> dict[str, object]:
        assert len({name for name, _ in members}) == len(members), "a key twice"
        return dict(members)

    def constant(name: str) -> object:
        raise AssertionError(f"{name} was taken")

    return json.loads(frame.decode(), object_pairs_hook=pairs, parse_constant=constant)
