"""Idempotency keys: a repeated call gets the result of the first one, even after other changes."""

from __future__ import annotations

import hashlib

from hive_core.broker.call import Call
from hive_core.broker.operation import Operation, Params
from hive_core.errors import Conflict
from hive_core.ledger.core.idempotency_keys import StoredResult

# Parameters of the reply, not of the effect, so a repeated call may change them.
_MANNER = {"idempotency_key", "wait"}


def first_result(call: Call, operation: Operation, params: Params, key: str) -> bytes | None:
    """The stored result as JSON; None for a new key; Conflict for a key of another call."""
    stored = call.ledger.keys.lookup(call.uuid, _key_of(call, key))
    if stored is None:
        return None
    if (stored.operation, stored.digest) != (operation.name, _digest(params)):
        reason = f"cannot {operation.verb}: the idempotency key was used for another call"
        raise Conflict(reason)
    return stored.result.encode()


def store_result(call: Call, operation: Operation, params: Params, key: str, text: bytes) -> None:
    """Remember a success, in the savepoint of its effect."""
    stored = StoredResult(_digest(params), operation.name, text.decode())
    call.ledger.keys.store(call.uuid, _key_of(call, key), stored, call.now)


def _key_of(call: Call, key: str) -> str:
    """The key as it is stored.

    A sub-agent gets no results of its agent or of another one, and a login none of another login.
    """
    if call.seat is not None:
        return f"login {call.seat.login}/{key}"
    return key if call.sub is None else f"{call.sub.id}/{key}"


def _digest(params: Params) -> str:
    return hashlib.sha256(params.model_dump_json(exclude=_MANNER).encode()).hexdigest()
