"""The dependencies of the deployer, and the values that they return."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from hive_core.host.git.applied_repositories import AppliedRepo, ReviewFiles
from hive_core.model.agents.hive import Hive
from hive_core.model.config.approval import Approval, Binding, Effect
from hive_core.reconcile.deps import Perform, Ports
from hive_core.reconcile.observed import ObservedState

_NOTHING: Mapping[str, object] = MappingProxyType({})


def no_hook(step: str) -> None:
    """The default hook between steps: do nothing. Tests may end the process there."""


@dataclass(frozen=True, slots=True)
class CheckedRequest:
    """The result of a check.

    `request`: the values of `[request]` that an approval grants. `parts`: the files for the agent's
    applied repository; None if there are none.
    """

    binding: Binding
    effect: Effect = Effect.NOTHING
    request: Mapping[str, object] = field(default_factory=lambda: _NOTHING)
    review: Mapping[str, object] = field(default_factory=lambda: _NOTHING)
    parts: ReviewFiles | None = None


@dataclass(frozen=True, slots=True)
class BuiltSystem:
    """The system that an agent of image `nix` would run, and the report of its build."""

    system: str = ""
    report: Mapping[str, object] = field(default_factory=lambda: _NOTHING)


class RequestIntake(Protocol):
    """Checks a request in jobs; refuses it with InvalidArgument or Conflict."""

    async def take_in(self, approval: Approval, hive: Hive) -> CheckedRequest: ...


class SystemBuilder(Protocol):
    """Builds a system in jobs; raises HiveError on failure."""

    async def build(self, approval: Approval, hive: Hive, name: str) -> BuiltSystem: ...


class AppliedRepoSource(Protocol):
    """The applied repositories."""

    def repo(self, uuid: str) -> AppliedRepo: ...

    def nar(self, uuid: str, commit: str, expected: str) -> bytes: ...

    async def follow(
        self, hive: Hive, archived: Collection[str], dead: Callable[[str], bool]
    ) -> None: ...


class InputUpdates(Protocol):
    """Updates of the flake's inputs, checked in jobs; `change` returns the next hive."""

    async def take_in(self, approval: Approval, hive: Hive) -> CheckedRequest: ...

    def change(self, approval: Approval, hive: Hive) -> Hive: ...

    def built_agents(self, hive: Hive) -> list[str]:
        """The agents that are built from the inputs, in the order of the rollout."""
        ...


@dataclass(frozen=True, slots=True)
class DeployContext:
    """Everything that the deployer uses.

    `on_tree_followed` is called when the hive has changed. `release_ballast` frees the ballast of a
    full disk. `step` is called with a name between the deployer's steps.
    """

    ports: Ports
    observed: ObservedState
    hive: Callable[[], Hive]
    perform: Perform
    applied: AppliedRepoSource
    intake: RequestIntake
    builder: SystemBuilder
    inputs: InputUpdates | None = None
    on_tree_followed: Callable[[], None] = lambda: None
    release_ballast: Callable[[], bool] = lambda: False
    step: Callable[[str], None] = no_hook
