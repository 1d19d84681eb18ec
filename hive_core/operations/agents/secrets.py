"""Secrets of agents. A value is never returned, recorded or logged."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator, Field, SecretStr

from hive_core.broker.call import Call, Record
from hive_core.broker.login_rule import LOCAL
from hive_core.broker.operation import Confidential, Mutation, Params, Result, operation
from hive_core.errors import LimitReached
from hive_core.model.agents.credential import LabelChange, StoredCredential
from hive_core.operations.credentials.renewal import forget_credential, renew_credential
from hive_core.operations.fields import Agent
from hive_core.policy.rules import OPERATOR

MOST: Final = 64  # of one agent
BYTES_MOST: Final = 64 << 10


def _check_value(value: SecretStr) -> SecretStr:
    if not value.get_secret_value():  # usually a pipe from a program that failed
        raise ValueError("is empty; a secret has at least one character")
    if len(value.get_secret_value().encode()) > BYTES_MOST:
        raise ValueError(f"is longer than {BYTES_MOST} bytes")
    return value


Key = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
        description="Name of the secret, and of its file; an agent with the capability"
        " `secret:KEY` can read it.",
    ),
]


LabelText = Annotated[
    str, Field(max_length=200, pattern=r"^[^\x00-\x1f\x7f\u2028\u2029]*$")
]  # one line


class SetSecretParams(Confidential):
    agent: Agent = Field(description="The agent.")
    key: Key
    value: Annotated[SecretStr, AfterValidator(_check_value)] = Field(
        description="The secret: text, stored as UTF-8."
    )
    provider: LabelText | None = Field(
        None, description="Service that accepts the secret, such as `github`; absent: as before."
    )
    alias: LabelText | None = Field(
        None, description="Short name of the account, such as `work`; absent: as before."
    )
    identity: LabelText | None = Field(
        None, description="The account itself, such as `bot@example.org`; absent: as before."
    )
    tools: list[LabelText] | None = Field(
        None, max_length=32,
        description="Tools that use it, by their names in the agent's toolset; absent: as before.",
    )  # fmt: skip


class RemoveSecretParams(Mutation):
    agent: Agent = Field(description="The agent.")
    key: Key


class ListSecretsParams(Params):
    agent: Agent = Field(description="The agent.")


class Secret(Result):
    agent: str = Field(description="The agent.")
    key: str = Field(description="Name of the secret.")
    readable: bool = Field(description="Whether the agent holds the capability for it.")
    provider: str = Field(description="Service that accepts it; empty: not stated.")
    alias: str = Field(description="Short name of the account; empty: not stated.")
    identity: str = Field(description="The account itself; empty: not stated.")
    expired: str = Field(
        description="What the agent reported of its expiry since the value was set; untrusted text."
    )


class Secrets(Result):
    secrets: list[Secret] = Field(description="The secrets by key, without their values.")


@operation(action="administer", allow=OPERATOR, target="agent", preposition="of", login=LOCAL)
def set_secret(call: Call, params: SetSecretParams) -> Record[Secret]:
    """Create or replace a secret of an agent.

    The agent reads it in /run/hive/credentials/KEY when it holds the capability `secret:KEY`, and
    finds a new value there without a restart. `provider`, `alias`, `identity` and `tools` are shown
    to its model; of a new value those that are absent stay. A question about the expired value is
    answered.
    """
    spec = call.hive.spec(params.agent)
    keys = call.vault.keys(spec.id)
    if params.key not in keys and len(keys) >= MOST:
        raise LimitReached(f"cannot set a secret of {params.agent}: limit ({MOST}) reached")
    call.vault.put(spec.id, params.key, params.value.get_secret_value().encode())
    call.notify(f"secret:{spec.id}")
    renew_credential(
        call, spec.id, params.key, _changed_label(params, is_new=params.key not in keys)
    )
    return Record(_secret(call, params.agent, params.key), fields={"key": params.key})


@operation(action="administer", allow=OPERATOR, target="agent", preposition="of")
def remove_secret(call: Call, params: RemoveSecretParams) -> Record[Secret] | Secret:
    """Remove a secret of an agent, at once. The agent may have kept a copy of the value."""
    spec = call.hive.spec(params.agent)
    secret = _secret(call, params.agent, params.key)
    if not call.vault.remove(spec.id, params.key):
        return secret
    call.notify(f"secret:{spec.id}")
    forget_credential(call, spec.id, params.key)
    return Record(secret, fields={"key": params.key})


@operation(action="administer", allow=OPERATOR, target="agent", preposition="of")
def list_secrets(call: Call, params: ListSecretsParams) -> Secrets:
    """List the keys of an agent's secrets; values are never returned."""
    keys = call.vault.keys(call.hive.spec(params.agent).id)
    return Secrets(secrets=[_secret(call, params.agent, key) for key in keys])


def _changed_label(params: SetSecretParams, *, is_new: bool) -> LabelChange:
    """What changes; of a secret that has no value now, nothing of its label stays."""
    if is_new:
        return LabelChange(
            params.provider or "", params.alias or "", params.identity or "",
            tuple(params.tools or ()),
        )  # fmt: skip
    tools = None if params.tools is None else tuple(params.tools)
    return LabelChange(params.provider, params.alias, params.identity, tools)


def _secret(call: Call, agent: str, key: str) -> Secret:
    spec = call.hive.spec(agent)
    known = call.ledger.credentials.of_agent(spec.id).get(key) or StoredCredential(key)
    return Secret(
        agent=agent, key=key, readable=f"secret:{key}" in spec.capabilities,
        provider=known.label.provider, alias=known.label.alias, identity=known.label.identity,
        expired=known.expired.message if known.expired else "",
    )  # fmt: skip
