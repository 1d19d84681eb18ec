"""Secrets of agents. A value comes in and is never answered, recorded or logged."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator, Field, SecretStr

from hive_core.broker.call import Call, Record
from hive_core.broker.operation import Confidential, Mutation, Params, Result, operation
from hive_core.errors import LimitReached
from hive_core.operations.fields import Agent
from hive_core.policy.rules import OPERATOR

MOST: Final = 64  # of one agent
BYTES_MOST: Final = 64 << 10


def _check_value(value: SecretStr) -> SecretStr:
    if not value.get_secret_value():  # a pipe from a program that failed, most of the time
        raise ValueError("is empty")
    if len(value.get_secret_value().encode()) > BYTES_MOST:
        raise ValueError(f"is longer than {BYTES_MOST} bytes")
    return value


Key = Annotated[str, Field(
    pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
    description="Its name, and that of the file; who holds `secret:KEY` reads it.",
)]  # fmt: skip


class SetSecretParams(Confidential):
    agent: Agent = Field(description="Whose it is.")
    key: Key
    value: Annotated[SecretStr, AfterValidator(_check_value)] = Field(
        description="The secret: text, which ends up in the file as UTF-8."
    )


class RemoveSecretParams(Mutation):
    agent: Agent = Field(description="Whose it is.")
    key: Key


class ListSecretsParams(Params):
    agent: Agent = Field(description="Whose they are.")


class Secret(Result):
    agent: str = Field(description="Whose it is.")
    key: str = Field(description="Its name.")
    readable: bool = Field(description="Whether the agent holds the capability for it.")


class Secrets(Result):
    secrets: list[Secret] = Field(description="By key, without their values.")


@operation(action="administer", allow=OPERATOR, target="agent", preposition="of")
def set_secret(call: Call, params: SetSecretParams) -> Record[Secret]:
    """Give an agent a secret, in place of an older one of that key.

    It reads the secret in /run/hive/credentials/KEY when it holds the capability `secret:KEY`, and
    finds the new one there without a restart.
    """
    spec = call.hive.spec(params.agent)
    known = call.vault.keys(spec.id)
    if params.key not in known and len(known) >= MOST:
        raise LimitReached(f"cannot give {params.agent} more secrets: it has {MOST}")
    call.vault.put(spec.id, params.key, params.value.get_secret_value().encode())
    return Record(_secret(call, params.agent, params.key), *_traces(spec.id, params.key))


@operation(action="administer", allow=OPERATOR, target="agent", preposition="of")
def remove_secret(call: Call, params: RemoveSecretParams) -> Record[Secret] | Secret:
    """Take a secret from an agent, at once. What it has read by then it knows."""
    spec = call.hive.spec(params.agent)
    found = _secret(call, params.agent, params.key)
    if not call.vault.remove(spec.id, params.key):
        return found
    return Record(found, *_traces(spec.id, params.key))


@operation(action="administer", allow=OPERATOR, target="agent", preposition="of")
def list_secrets(call: Call, params: ListSecretsParams) -> Secrets:
    """List the keys of an agent's secrets; nobody is ever told a value."""
    keys = call.vault.keys(call.hive.spec(params.agent).id)
    return Secrets(secrets=[_secret(call, params.agent, key) for key in keys])


def _secret(call: Call, agent: str, key: str) -> Secret:
    held = call.hive.spec(agent).capabilities
    return Secret(agent=agent, key=key, readable=f"secret:{key}" in held)


def _traces(uuid: str, key: str) -> tuple[frozenset[str], dict[str, object]]:
    return frozenset({f"secret:{uuid}"}), {"key": key}
