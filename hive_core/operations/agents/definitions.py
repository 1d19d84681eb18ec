"""Definitions of agents: templates that the operator stores, by name.

The daemon reads no file for it: the operator's command parses the Markdown, and the daemon refuses
what does not fit the schema. Agents create agents from a definition, and cannot write one.
"""

from __future__ import annotations

from typing import Annotated, Final
from uuid import UUID

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.login_rule import EACH
from hive_core.broker.operation import Mutation, Params, Result, operation
from hive_core.errors import InvalidArgument, LimitReached, NotFound
from hive_core.ledger.agents.definitions import StoredDefinition
from hive_core.model.agents.agent import AgentSpec, Role, Tier
from hive_core.model.agents.capability import check_grantable
from hive_core.model.agents.model_catalog import check_spec
from hive_core.model.agents.roles import ROLE_DEFAULTS, TIER_RANK
from hive_core.model.work.tools import normalized_entries
from hive_core.operations.agents.spawn_params import Traits
from hive_core.operations.budgets.initial_budgets import initial_amounts
from hive_core.operations.fields import bounded_text
from hive_core.operations.pages import Page, Paged, reply_bytes, take_fitting
from hive_core.policy.grants import with_network
from hive_core.policy.rules import OPERATOR, SELF

MOST: Final = 1000
BODY_MOST: Final = 60 << 10

Name = Annotated[str, Field(
    pattern=r"^[a-z]([a-z0-9-]{0,62}[a-z0-9])?$", description="Lower case, digits and hyphens."
)]  # fmt: skip


class SetDefinitionParams(Mutation):
    name: Name
    description: str = Field("", max_length=1024, description="Purpose of such an agent.")
    agent: Traits = Field(
        Traits.model_construct(),
        description="Parameters of `spawn` for an agent made from it, where the caller sets none.",
    )
    body: Annotated[str, bounded_text(BODY_MOST)] = Field(
        "", description="Text for the agent: its first message, of kind `definition`."
    )

    warnings: list[Annotated[str, bounded_text(1200)]] = Field(
        [], max_length=64,
        description="What the file says that has no effect, with the reason; shown again with the"
        " definition.",
    )  # fmt: skip


class NamedDefinition(Mutation):
    name: Name


class GetDefinitionParams(Params):
    name: Name


class DefinitionRow(Result):
    name: str = Field(description="Name of the definition.")
    description: str = Field(description="Purpose of such an agent.")
    role: str = Field(description="Role of the agent.")
    set_at: float = Field(description="When it was last set, in seconds since 1970.")


class Definition(DefinitionRow):
    agent: dict[str, object] = Field(description="Its parameters of `spawn`.")
    body: str = Field(description="Text for the agent.")
    warnings: list[str] = Field(description="What its file says that has no effect.")


class DefinitionPage(Page):
    definitions: list[DefinitionRow] = Field(description="The definitions, by name.")


class RemovedDefinition(Result):
    name: str = Field(description="Name of the definition.")


@operation(action="administer", allow=OPERATOR, login=EACH)
def set_definition(call: Call, params: SetDefinitionParams) -> Record[DefinitionRow]:
    """Create or replace a definition of agents.

    Agents that were made from an older version do not change.
    """
    definitions = call.ledger.tools.definitions
    if definitions.get(params.name) is None and definitions.count() >= MOST:
        raise LimitReached(f"cannot set definition {params.name}: limit ({MOST}) reached")
    fields = _checked_fields(call, params.agent)
    definition = StoredDefinition(
        params.name, params.description, fields, params.body, call.now, tuple(params.warnings)
    )
    definitions.put(definition)
    return Record(_row(definition), fields={"definition": params.name})


@operation(action="administer", allow=OPERATOR)
def remove_definition(call: Call, params: NamedDefinition) -> Record[RemovedDefinition]:
    """Remove a definition. Agents that were made from it do not change."""
    if not call.ledger.tools.definitions.drop(params.name):
        raise NotFound(f"no definition {params.name}")
    return Record(RemovedDefinition(name=params.name), fields={"definition": params.name})


@operation(action="read", allow=SELF)
def list_definitions(call: Call, params: Paged) -> DefinitionPage:
    """List the operator's definitions of agents; `spawn` makes an agent from one by its name."""
    definitions = call.ledger.tools.definitions.after(params.after or "", params.most + 1)
    page = map(_row, definitions[: params.most])
    rows = list(take_fitting(page, lambda row: reply_bytes(row.name, row.description)))
    return DefinitionPage(
        definitions=rows, next=rows[-1].name if len(rows) < len(definitions) else None
    )


@operation(action="read", allow=SELF)
def get_definition(call: Call, params: GetDefinitionParams) -> Definition:
    """Show one definition: the parameters of its agents, and the text of their first message."""
    definition = call.ledger.tools.definitions.get(params.name)
    if definition is None:
        raise NotFound(f"no definition {params.name}")
    return Definition(
        **_row(definition).model_dump(), agent=dict(definition.fields), body=definition.body,
        warnings=list(definition.warnings),
    )  # fmt: skip


def _checked_fields(call: Call, traits: Traits) -> dict[str, object]:
    """The fields of the definition; impossible ones are refused now, not when it is used."""
    role, tier = Role(traits.role), Tier(traits.tier)
    if TIER_RANK[tier] > TIER_RANK[ROLE_DEFAULTS[role].most]:
        raise InvalidArgument(f"a {role} is never {tier}", field="agent.tier")
    if traits.profile is not None and role is not Role.DAEMON:
        raise InvalidArgument(f"a {traits.profile} has the role daemon", field="agent.profile")
    list(initial_amounts(call, traits.funds))
    _check_model(call, traits)
    fields = traits.model_dump(exclude_unset=True)
    if traits.capabilities is not None:
        fields["capabilities"] = list(check_grantable(traits.capabilities))
    check_grantable(with_network((), traits.network), field="network")
    if traits.tools is not None:
        fields["tools"] = list(normalized_entries(traits.tools))
    return fields


def _check_model(call: Call, traits: Traits) -> None:
    """Refuse a model, a capability of a model, or a runtime that the host does not have."""
    chosen = {"runtime": traits.runtime, "model": traits.model, "tier": traits.tier}
    capabilities = tuple(traits.capabilities or ())
    spec = AgentSpec.model_validate({**chosen, "uuid": UUID(int=0), "capabilities": capabilities})
    try:
        check_spec(call.models, spec)
    except InvalidArgument as error:
        raise InvalidArgument(error.reason, field=f"agent.{error.field}") from error


def _row(definition: StoredDefinition) -> DefinitionRow:
    role = str(definition.fields.get("role", Role.AGENT.value))
    return DefinitionRow(
        name=definition.name, description=definition.description, role=role, set_at=definition.at
    )
