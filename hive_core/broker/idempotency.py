"""Idempotency keys: a repeated call gets its first result, whatever has changed meanwhile."""

from __future__ import annotations

import hashlib

from hive_core.broker.call import Call
from hive_core.broker.operation import Confidential, Operation, Params
from hive_core.errors import Conflict
from hive_core.ledger.core.idempotency_keys import StoredResult

# They say how to answer and not what to do, so a repeat may choose others.
_MANNER = {"idempotency_key", "wait"}


def first_result(call: Call, operation: Operation, params: Params) -> bytes | None:
    """The stored result as JSON; None for a new key or none; Conflict for a key of another call."""
    key = _key(params)
    if key is None:
        return None
    stored = call.ledger.keys.lookup(call.uuid, key)
    if stored is None:
        return None
    if (stored.operation, stored.digest) != (operation.name, _digest(params)):
        reason = f"cannot {operation.verb}: the idempotency key was used for another call"
        raise Conflict(reason)
    return stored.result.encode()


def keep(call: Call, operation: Operation, params: Params, result: bytes) -> None:
    """Remember a success, in the savepoint of its effect."""
    key = _key(params)
    if key is None:
        return
    stored = StoredResult(_digest(params), operation.name, result.decode())
    call.ledger.keys.store(call.uuid, key, stored, call.now)


def _key(params: Params) -> str | None:
    """The key under which a call is remembered; None: it is not."""
    key = getattr(params, "idempotency_key", None)
    return None if key is None or isinstance(params, Confidential) else str(key)


def _digest(params: Params) -> str:
    return hashlib.sha256(params.model_dump_json(exclude=_MANNER).encode()).hexdigest()
