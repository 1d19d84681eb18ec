"""Definitions of agents: what the operator wrote down once, for every agent of that kind.

The daemon reads no file for it: the operator's command takes the Markdown apart, and what arrives
here fits the schema or is refused. Agents make others from a definition, and cannot write one.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.operation import Mutation, Params, Result, operation
from hive_core.errors import InvalidArgument, LimitReached, NotFound
from hive_core.ledger.agents.definitions import StoredDefinition
from hive_core.model.agents.agent import Role, Tier
from hive_core.model.agents.capability import check_grantable
from hive_core.model.agents.roles import ROLE_DEFAULTS, TIER_RANK
from hive_core.model.work.tools import normalized_entries
from hive_core.operations.agents.spawn_params import Traits
from hive_core.operations.budgets.initial_budgets import initial_amounts
from hive_core.operations.fields import bounded_text
from hive_core.operations.pages import Page, Paged, fitting, written
from hive_core.policy.grants import with_network
from hive_core.policy.rules import OPERATOR, SELF

MOST: Final = 1000
BODY_MOST: Final = 60 << 10

Name = Annotated[str, Field(
    pattern=r"^[a-z]([a-z0-9-]{0,62}[a-z0-9])?$", description="Lower case, digits and hyphens."
)]  # fmt: skip


class SetDefinitionParams(Mutation):
    name: Name
    description: str = Field("", max_length=1024, description="What such an agent is good for.")
    agent: Traits = Field(
        Traits.model_construct(), description="What an agent made from it is, unless said."
    )
    body: Annotated[str, bounded_text(BODY_MOST)] = Field(
        "", description="Text for the agent: its first message, of kind `definition`."
    )


class NamedDefinition(Mutation):
    name: Name


class GetDefinitionParams(Params):
    name: Name


class DefinitionRow(Result):
    name: str = Field(description="Its name.")
    description: str = Field(description="What such an agent is good for.")
    role: str = Field(description="Its role.")
    set_at: float = Field(description="Since when it is so; seconds since 1970.")


class Definition(DefinitionRow):
    agent: dict[str, object] = Field(description="What it says, as parameters of `spawn`.")
    body: str = Field(description="Text for the agent.")


class DefinitionPage(Page):
    definitions: list[DefinitionRow] = Field(description="By name.")


class RemovedDefinition(Result):
    name: str = Field(description="Its name.")


@operation(action="administer", allow=OPERATOR)
def set_definition(call: Call, params: SetDefinitionParams) -> Record[DefinitionRow]:
    """Keep a definition of agents, in place of an older one of that name.

    Agents that were made from the older one stay as they are.
    """
    known = call.ledger.tools.definitions
    if known.get(params.name) is None and known.count() >= MOST:
        raise LimitReached(f"cannot keep {params.name}: there are {MOST} definitions")
    said = _checked_fields(call, params.agent)
    kept = StoredDefinition(params.name, params.description, said, params.body, call.now)
    known.put(kept)
    return Record(_row(kept), fields={"definition": params.name})


@operation(action="administer", allow=OPERATOR)
def remove_definition(call: Call, params: NamedDefinition) -> Record[RemovedDefinition]:
    """Forget a definition. Agents that were made from it stay as they are."""
    if not call.ledger.tools.definitions.drop(params.name):
        raise NotFound(f"no definition {params.name}")
    return Record(RemovedDefinition(name=params.name), fields={"definition": params.name})


@operation(action="read", allow=SELF)
def list_definitions(call: Call, params: Paged) -> DefinitionPage:
    """List what kinds of agents the operator has defined; `spawn` makes one by its name."""
    found = call.ledger.tools.definitions.after(params.after or "", params.most + 1)
    page = map(_row, found[: params.most])
    rows = list(fitting(page, lambda row: written(row.name, row.description)))
    return DefinitionPage(definitions=rows, next=rows[-1].name if len(rows) < len(found) else None)


@operation(action="read", allow=SELF)
def get_definition(call: Call, params: GetDefinitionParams) -> Definition:
    """Read one definition: what an agent made from it is, and what it is told first."""
    kept = call.ledger.tools.definitions.get(params.name)
    if kept is None:
        raise NotFound(f"no definition {params.name}")
    return Definition(**_row(kept).model_dump(), agent=dict(kept.fields), body=kept.body)


def _checked_fields(call: Call, said: Traits) -> dict[str, object]:
    """What no agent could be is refused when it is written, not when it is used."""
    role, tier = Role(said.role), Tier(said.tier)
    if TIER_RANK[tier] > TIER_RANK[ROLE_DEFAULTS[role].most]:
        raise InvalidArgument(f"a {role} is never {tier}", field="agent.tier")
    list(initial_amounts(call, said.funds))
    found = said.model_dump(exclude_unset=True)
    if said.capabilities is not None:
        found["capabilities"] = list(check_grantable(said.capabilities))
    check_grantable(with_network((), said.network), field="network")
    if said.tools is not None:
        found["tools"] = list(normalized_entries(said.tools))
    return found


def _row(kept: StoredDefinition) -> DefinitionRow:
    role = str(kept.fields.get("role", Role.AGENT.value))
    return DefinitionRow(name=kept.name, description=kept.description, role=role, set_at=kept.at)
