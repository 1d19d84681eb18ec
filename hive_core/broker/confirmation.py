"""Second confirmations: a login says again, with a passkey or a code, that it wants one call.

The daemon verifies them alone; hive-web only carries them. One is bound to the operation, to its
parameters, and to the state of the thing that it decides about.
"""

from __future__ import annotations

import hashlib
import json
from typing import Final

from hive_core.broker.call import Call
from hive_core.broker.operation import Operation, Params
from hive_core.broker.scopes import level_of
from hive_core.model.operator.account import Login
from hive_core.policy.algebra import Decision

RULE: Final = "confirm"
# Seconds for which one counts for operations that ask for a fresh one.
FRESH: Final = 300.0
# What says how a call is answered, and not what it does.
_NOT_BOUND: Final = frozenset({"idempotency_key", "wait"})
_NO_CONFIRMATION: Final = Decision.denial(
    RULE, "the login has to confirm it with a passkey or a code"
)


def request_digest(call: Call, operation: Operation, params: Params) -> str:
    """The digest of what a confirmation is for.

    It has the UUIDs of the agents too: another one may get the name of one that was destroyed.
    """
    wanted = params.model_dump(mode="json", exclude=set(_NOT_BOUND))
    bind = operation.login.bound
    bound = bind(call, params) if bind is not None else ""
    names = (str(wanted.get(param)) for param in (operation.target, operation.second) if param)
    agents = [call.hive.specs[name].id for name in names if name in call.hive.specs]
    request = [operation.name, wanted, bound, agents]
    text = json.dumps(request, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def challenge_of(nonce: str, request: str) -> bytes:
    """What an authenticator signs."""
    return hashlib.sha256(f"{nonce} {request}".encode()).digest()


def take_confirmation(
    call: Call, login: Login, operation: Operation, params: Params, decision: Decision
) -> tuple[Decision, str]:
    """The decision on a call that may need a confirmation, and the method of the one it took."""
    level = level_of(call, operation, params)
    if level is None:
        return decision, ""
    if level == "fresh":
        method = "fresh" if login.confirmed > call.now else ""
    else:
        request = request_digest(call, operation, params)
        method = call.ledger.confirmations.take_given(login.id, request, call.now)
    return (decision, method) if method else (_NO_CONFIRMATION, "")
