"""The models of this host, and which of them an agent may call."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from hive_core.broker.call import Call
from hive_core.broker.operation import Result, operation
from hive_core.model.agents.agent import Tier
from hive_core.operations.models.prices import unpriced_models
from hive_core.operations.pages import Page, Paged, reply_bytes, take_fitting
from hive_core.policy.rules import MODEL, OPERATOR, SELF

_SIZE: Final = 400  # bytes of the figures of one row


class ListModelsParams(Paged):
    agent: str | None = Field(
        None,
        max_length=64,
        description="Only what this agent may call, its own model first. Absent:"
        " the caller; of the operator: all models.",
    )


class ModelRow(Result):
    alias: str = Field(description="The name by which agents call it.")
    provider: str = Field(description="Its provider.")
    kind: str = Field(description="Kind of the provider: http, gguf or scripted.")
    wire: str = Field(description="Wire of the provider: chat, responses or messages.")
    name: str = Field(description="Name of the model at its provider.")
    context: int = Field(description="Size of its context in tokens.")
    max_output: int = Field(description="Maximum size of an answer in tokens.")
    fallback: list[str] = Field(description="Models that are asked where it fails.")
    tiers: list[str] = Field(description="Tiers whose agents have it by default.")
    price_in: float | None = Field(
        description="Price of a million tokens of input; null: as listed for the provider."
    )
    price_out: float | None = Field(description="Price of a million tokens of output.")
    price_known: bool = Field(
        description="False: neither models.toml nor the list has its price; its calls cost 0."
    )


class ModelPage(Page):
    models: list[ModelRow] = Field(description="The models.")


@operation(action="read", allow=SELF | OPERATOR | MODEL, target="agent", preposition="for")
def list_models(call: Call, params: ListModelsParams) -> ModelPage:
    """List the models of this host, or those that one agent may call, with their figures.

    An agent may call its own model, and each for which it holds a capability `model:ALIAS`.
    """
    aliases = call.models.aliases
    if params.agent is not None or not call.by_operator:
        aliases = call.models.allowed_models(call.hive.spec(params.agent or call.caller))
    start = aliases.index(params.after) + 1 if params.after in aliases else 0
    page = (_row(call, alias) for alias in aliases[start : start + params.most])
    rows = list(take_fitting(page, lambda row: _SIZE + reply_bytes(row.name, *row.fallback)))
    is_whole = start + len(rows) >= len(aliases)
    return ModelPage(models=rows, next=None if is_whole else rows[-1].alias)


def _row(call: Call, alias: str) -> ModelRow:
    entry, provider = call.models.file.models[alias], call.models.file.provider_of(alias)
    return ModelRow(
        alias=alias, provider=entry.provider, kind=provider.kind, wire=provider.wire,
        name=entry.name, context=entry.context, max_output=entry.max_output,
        fallback=list(entry.fallback), price_in=entry.price_in, price_out=entry.price_out,
        price_known=alias not in unpriced_models(call.ledger),
        tiers=[tier.value for tier in Tier if call.models.tier_model(tier) == alias],
    )  # fmt: skip
