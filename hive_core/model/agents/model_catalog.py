"""The models of this host, and which of them an agent may use.

An agent may use its own model, which is that of its spec, otherwise that of its tier, otherwise the
default, and each model for which it holds a capability `model:ALIAS`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from hive_core.errors import InvalidArgument, NotAllowed
from hive_core.model.agents.agent import AgentSpec, Runtime, Tier
from hive_core.model.agents.roles import TIER_RANK
from hive_core.model.config.limits import ModelSettings
from hive_core.model.config.models import ModelsFile, ProviderKind, Wire

CAPABILITY: Final = "model:"
# The wire on which a CLI calls models.
CLI_WIRES: Final[Mapping[Runtime, Wire]] = {
    Runtime.CLAUDE: Wire.MESSAGES, Runtime.CODEX: Wire.RESPONSES, Runtime.OPENCODE: Wire.CHAT,
}  # fmt: skip
# The page of docs/how-to that says how an agent gets such a model.
_PAGES: Final[Mapping[Runtime, str]] = {
    Runtime.CLAUDE: "claude-code", Runtime.CODEX: "codex", Runtime.OPENCODE: "opencode",
}  # fmt: skip
_FILE: Final = "/etc/hive/models.toml"


@dataclass(frozen=True, slots=True)
class ModelCatalog:
    """The models of models.toml, and the models of the tiers in hive.toml."""

    file: ModelsFile = field(default_factory=ModelsFile)
    tiers: ModelSettings = field(default_factory=ModelSettings)

    @property
    def aliases(self) -> tuple[str, ...]:
        return tuple(self.file.models)

    def tier_model(self, tier: Tier) -> str:
        """The model of agents of this tier whose spec names none; empty: none."""
        return self.tiers.of(tier) or self.file.default_alias or ""

    def own_model(self, spec: AgentSpec) -> str:
        """The model that the agent uses by itself; empty: none."""
        return spec.model or self.tier_model(spec.tier)

    def allowed_models(self, spec: AgentSpec) -> tuple[str, ...]:
        """The models that the agent may use, its own first; only models of this host."""
        by_right = (
            word.removeprefix(CAPABILITY)
            for word in spec.capabilities
            if word.startswith(CAPABILITY)
        )
        chosen = dict.fromkeys((self.own_model(spec), *by_right))
        return tuple(alias for alias in chosen if alias in self.file.models)

    def grantable_models(self, giver: AgentSpec) -> tuple[str, ...]:
        """The models that an agent may give to one that it creates.

        Its own ones, and those of the tiers up to its own, which such an agent has by default.
        """
        rank = TIER_RANK[giver.tier]
        tiers = (self.tier_model(tier) for tier in Tier if TIER_RANK[tier] <= rank)
        chosen = dict.fromkeys((*self.allowed_models(giver), *tiers))
        return tuple(alias for alias in chosen if alias in self.file.models)

    def check_alias(self, alias: str, field: str = "model") -> None:
        """Raise InvalidArgument where this host has no such model."""
        if alias not in self.file.models:
            there = ", ".join(self.aliases) or "none"
            raise InvalidArgument(
                f"no model {alias!r}; {_FILE} of this host has {there}; see docs/how-to/models.md",
                field=field,
            )

    def check_capabilities(
        self, capabilities: Iterable[str], held: Iterable[str] = (), field: str = "capabilities"
    ) -> None:
        """Raise InvalidArgument for a capability of a model that this host does not have.

        `held`: what the agent has already, perhaps of a model that was removed.
        """
        for word in sorted(set(capabilities) - set(held)):
            if word.startswith(CAPABILITY):
                self.check_alias(word.removeprefix(CAPABILITY), field)

    def check_given(self, giver: AgentSpec, alias: str) -> None:
        """Raise NotAllowed where an agent may not give this model to one that it creates."""
        grantable = self.grantable_models(giver)
        if alias not in grantable:
            there = ", ".join(grantable) or "none"
            raise NotAllowed(f"cannot spawn with the model {alias}: you may give {there}")

    def check_runtime(self, spec: AgentSpec) -> None:
        """Raise InvalidArgument where the runtime cannot run the model of this spec."""
        if spec.runtime is None:
            return
        alias = self.own_model(spec)
        if not alias:
            raise InvalidArgument(
                f"the runtime {spec.runtime} needs a model, and the agent has none: name one that"
                f" {_FILE} has ({', '.join(self.aliases) or 'none yet'}), or its `default`;"
                " see docs/how-to/models.md", field="model",
            )  # fmt: skip
        self.check_alias(alias)
        kind = self.file.provider_of(alias).kind
        if spec.runtime is Runtime.SCRIPTED and kind is not ProviderKind.SCRIPTED:
            raise InvalidArgument(
                f"the runtime scripted needs a model whose provider is scripted; {alias} is {kind}",
                field="runtime",
            )
        wire, needed = self.file.wire_of(alias), CLI_WIRES.get(spec.runtime)
        if needed is not None and wire is not needed:
            raise InvalidArgument(
                f"the runtime {spec.runtime} needs a model of the wire {needed}; {alias} has"
                f" {wire}: {self._fitting(needed)}; see docs/how-to/{_PAGES[spec.runtime]}.md",
                field="runtime",
            )

    def _fitting(self, wire: Wire) -> str:
        """What the operator does where an agent needs a model of this wire."""
        fitting = [alias for alias in self.aliases if self.file.wire_of(alias) is wire]
        if fitting:
            return f"name one of {_FILE} that fits ({', '.join(fitting)})"
        return f"no model of {_FILE} has it, so declare one there"

    def faults(self) -> list[str]:
        """Tiers whose model models.toml does not have, in words."""
        named = ((tier, self.tiers.of(tier)) for tier in Tier)
        return [
            f"models.{tier} of hive.toml is {alias}, which models.toml does not have"
            for tier, alias in named
            if alias and alias not in self.file.models
        ]


def check_spec(catalog: ModelCatalog, spec: AgentSpec, before: AgentSpec | None = None) -> None:
    """Raise InvalidArgument for a model or a runtime that this host does not have.

    `before`: the spec that it replaces; what it had already stays.
    """
    if spec.model is not None and (before is None or before.model != spec.model):
        catalog.check_alias(spec.model)
    catalog.check_capabilities(spec.capabilities, before.capabilities if before else ())
    if before is None or (before.runtime, before.model) != (spec.runtime, spec.model):
        catalog.check_runtime(spec)
