"""Approvals: what agents request, how it ended, and the generations of each agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from hive_core.model.states import StateMachine, Transition

SHOWN_DIGITS: Final = 8  # of the commit, which the operator types to approve it
_NOTHING: Final[Mapping[str, object]] = MappingProxyType({})


class ApprovalKind(StrEnum):
    """What is requested."""

    CONFIG = "config"  # a commit of an agent's configuration
    INPUTS = "inputs"  # newer inputs of the generated flake
    ROLLBACK = "rollback"  # an earlier generation of the agent
    UPDATE = "update"  # the same commit, built from the current inputs


class Effect(StrEnum):
    """What a deploy does to a running agent, the strongest last."""

    NOTHING = "nothing"
    LIVE = "live"
    SWITCH = "switch"
    RESTART = "restart"


class ApprovalState(StrEnum):
    RECEIVED = "received"
    PENDING = "pending"
    APPROVED = "approved"
    BUILDING = "building"
    DEPLOYING = "deploying"
    WATCHING = "watching"
    DEPLOYED = "deployed"
    REFUSED = "refused"
    DENIED = "denied"
    EXPIRED = "expired"
    VOID = "void"
    FAILED = "failed"


_S = ApprovalState
FINALS: Final = frozenset({_S.DEPLOYED, _S.REFUSED, _S.DENIED, _S.EXPIRED, _S.VOID, _S.FAILED})
COURSE: Final = StateMachine(
    noun="approval",
    start=_S.RECEIVED,
    finals=FINALS,
    transitions=(
        Transition(_S.RECEIVED, "check", _S.PENDING, "the intake", "the commit is well-formed"),
        Transition(_S.RECEIVED, "refuse", _S.REFUSED, "the intake", "the commit breaks a rule"),
        Transition(_S.RECEIVED, "deny", _S.DENIED, "the operator", "the operator does not want it"),
        Transition(_S.PENDING, "approve", _S.APPROVED, "the operator", "exactly this commit"),
        Transition(_S.PENDING, "deny", _S.DENIED, "the operator", "the operator does not want it"),
        Transition(
            _S.PENDING, "expire", _S.EXPIRED, "the clock", "the operator did not decide in time"
        ),
        Transition(
            _S.PENDING, "void", _S.VOID, "the daemon", "what it was compared with has changed"
        ),
        Transition(_S.APPROVED, "build", _S.BUILDING, "the daemon", "it is the next in the queue"),
        Transition(
            _S.APPROVED, "deny", _S.DENIED, "the operator", "the operator withdraws the approval"
        ),
        Transition(
            _S.APPROVED, "void", _S.VOID, "the daemon", "the approved commit or lock has changed"
        ),
        Transition(_S.BUILDING, "deploy", _S.DEPLOYING, "the daemon", "the build succeeded"),
        Transition(_S.BUILDING, "fail", _S.FAILED, "the daemon", "the build failed"),
        Transition(
            _S.BUILDING, "deny", _S.DENIED, "the operator", "the operator withdraws the approval"
        ),
        Transition(
            _S.BUILDING, "void", _S.VOID, "the daemon", "the approved commit or lock has changed"
        ),
        Transition(_S.DEPLOYING, "watch", _S.WATCHING, "the daemon", "it is deployed"),
        Transition(_S.DEPLOYING, "fail", _S.FAILED, "the daemon", "the deploy failed"),
        Transition(
            _S.WATCHING, "confirm", _S.DEPLOYED, "the daemon", "healthy for the whole window"
        ),
        Transition(
            _S.WATCHING, "fail", _S.FAILED, "the daemon", "not healthy: the daemon rolled back"
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Binding:
    """What an approval is bound to; a change of any of it makes the approval void (attack 21).

    `commit`, `tree`: what was proposed. `nar`: SHA-256 of its files as a NAR, as in `sha256-...`.
    `base`: the commit that was deployed when it was checked. `lock`: SHA-256 of flake.lock, empty
    where there is no lock. `meta`: the meta commit at that time, for the record.
    """

    commit: str
    tree: str = ""
    nar: str = ""
    base: str = ""
    lock: str = ""
    meta: str = ""


@dataclass(frozen=True, slots=True)
class Approval:
    """One row. Parties are UUID texts (or `operator`); times are seconds since 1970.

    `requested`: values of `[request]`, checked. `effect`: what a deploy would do. `review`: figures
    of the review (files, bytes, changed lines); the diff itself is stored beside the repository.
    """

    id: str
    kind: ApprovalKind
    agent: str
    requester: str
    source: str
    message: str
    binding: Binding
    state: ApprovalState
    created: float
    expires: float
    job: str = ""
    effect: Effect = Effect.NOTHING
    requested: Mapping[str, object] = field(default_factory=lambda: _NOTHING)
    review: Mapping[str, object] = field(default_factory=lambda: _NOTHING)
    decided_by: str = ""
    decided: float | None = None
    ended: float | None = None
    reason: str = ""

    @property
    def open(self) -> bool:
        return self.state not in FINALS


@dataclass(frozen=True, slots=True)
class Generation:
    """What an agent ran with from some time on. Numbers count from 1 for each agent.

    `fields`: the values of the spec that a deploy may change, as they were from then on.
    """

    agent: str
    number: int
    commit: str
    approval: str
    at: float
    system: str = ""
    fields: Mapping[str, object] = field(default_factory=lambda: _NOTHING)
    failed: str = ""
