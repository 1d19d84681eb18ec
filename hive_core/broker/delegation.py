"""Calls on behalf of an agent: with its rights at this time, never with those of the daemon.

A trigger that spawns may do what its owner may do now. When the owner lost the right or was
destroyed, the call gets the refusal that the owner would get.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pydantic import ValidationError

from hive_core.broker.authorize import judge, refusal
from hive_core.broker.call import Call, Outcome
from hive_core.broker.operation import REGISTRY, Operation, Params
from hive_core.errors import InvalidArgument, NotFound
from hive_core.model.wire.record import OPERATOR


def call_as(call: Call, party: str, operation: str, params: Mapping[str, object]) -> Outcome:
    """Run an operation as this party (a UUID, or `operator`); return its outcome.

    Raises what the party would be told. The caller records on whose behalf it acted.
    """
    their_call, declared, parsed = authorize_as(call, party, operation, params)
    return declared.handler(their_call, parsed)


def authorize_as(
    call: Call, party: str, operation: str, params: Mapping[str, object]
) -> tuple[Call, Operation, Params]:
    """The call of this party that may run the operation now, and the parsed parameters."""
    name = OPERATOR if party == OPERATOR else call.hive.name(party)
    if name is None:
        raise NotFound("the agent that requested this was destroyed")
    declared, parsed = REGISTRY[operation], parse_params(operation, params)
    their_call = replace(call, caller=name, uuid=party, uid=-1, more=False)
    target, decision = judge(their_call, declared, parsed, in_phase=False)
    if not decision.allowed:
        raise refusal(declared, parsed, target, decision)
    return their_call, declared, parsed


def parse_params(operation: str, params: Mapping[str, object]) -> Params:
    """The parameters of a call; InvalidArgument names the first wrong one."""
    try:
        return REGISTRY[operation].params.model_validate(dict(params))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise InvalidArgument(f"{where}: {first['msg']}", field=where) from error
