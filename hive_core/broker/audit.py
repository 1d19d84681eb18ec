"""What is kept of calls: every mutation, and every refusal up to a rate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from hive_core.broker.call import Call
from hive_core.model.hive import Hive
from hive_core.model.record import OPERATOR

if TYPE_CHECKING:
    from hive_core.ledger.store import Ledger

_NAMED = 64
_NONE: Mapping[str, object] = MappingProxyType({})
CHANGED, RECORDED, REFUSED, ADOPTED = "change", "record", "refusal", "adopt"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line for the audit log. Parties are UUIDs; the names of that time stand in `fields`."""

    kind: str
    caller: str
    operation: str
    target: str
    allowed: bool
    rule: str
    reason: str
    commit: str
    request: str
    now: float
    fields: Mapping[str, object] = field(default_factory=dict)


class Judged(NamedTuple):
    """What was decided of a call. `target` is a name, known or not."""

    operation: str
    target: str | None
    rule: str
    reason: str


def entry(
    kind: str, call: Call, judged: Judged, commit: str = "", extra: Mapping[str, object] = _NONE
) -> Entry:
    """The line for one call. The operator's uid says on whose behalf the operator acts."""
    target = judged.target
    spec = call.hive.specs.get(target) if target else None
    fields: dict[str, object] = {"caller_name": call.caller, **extra}
    if target:
        fields["target_name"] = target[:_NAMED]
    if call.by_operator:
        fields["uid"] = call.uid
    return Entry(
        kind=kind,
        caller=call.uuid,
        operation=judged.operation,
        target=spec.id if spec else (target or "")[:_NAMED],
        allowed=kind != REFUSED,
        rule=judged.rule,
        reason=judged.reason,
        commit=commit or call.hive.commit,
        request=call.request,
        now=call.now,
        fields=fields,
    )


def stranger(party: str, uid: int, hive: Hive, now: float) -> Entry:
    """A peer outside of the uid range of the socket that it opened (attacks 33 and 34)."""
    return Entry(
        kind=REFUSED,
        caller=f"uid:{uid}",
        operation="connect",
        target=party,
        allowed=False,
        rule="uid range",
        reason=f"uid {uid} is not of this agent's range",
        commit=hive.commit,
        request="",
        now=now,
        fields={"uid": uid, "target_name": hive.names.get(party, "")},
    )


def adopted(commit: str, reason: str, now: float) -> Entry:
    """A commit that people made in the meta repo."""
    return Entry(
        kind=ADOPTED,
        caller=OPERATOR,
        operation="hand",
        target="",
        allowed=True,
        rule="hand commit",
        reason=reason,
        commit=commit,
        request="",
        now=now,
    )


class Bucket:
    """Refusals of one caller: a burst of a minute's share, then one at a time."""

    __slots__ = ("at", "dropped", "left")

    def __init__(self, burst: float, now: float) -> None:
        self.left, self.at, self.dropped = burst, now, 0

    def take(self, burst: float, now: float) -> bool:
        # A clock that went back gives nothing and takes nothing.
        self.left = min(burst, self.left + max(0.0, now - self.at) * burst / 60)
        self.at = now
        if self.left < 1:
            self.dropped += 1
            return False
        self.left -= 1
        return True


class Audit:
    """Writes entries inside the current transaction; a flood of refusals cannot fill the disk."""

    def __init__(self, ledger: Ledger, refusals_a_minute: int) -> None:
        self._ledger = ledger
        self._burst = float(refusals_a_minute)
        self._buckets: dict[str, Bucket] = {}

    def admits(self, caller: str, now: float) -> bool:
        """Whether another refusal of this caller is kept; counts it when not."""
        bucket = self._buckets.get(caller)
        if bucket is None:
            bucket = self._buckets[caller] = Bucket(self._burst, now)
        return bucket.take(self._burst, now)

    def write(self, found: Entry) -> None:
        if found.kind == REFUSED:
            found = self._with_dropped(found)
        self._ledger.events.append(
            kind=found.kind, caller=found.caller, operation=found.operation, target=found.target,
            allowed=found.allowed, rule=found.rule, reason=found.reason, commit=found.commit,
            request=found.request, fields=found.fields, now=found.now,
        )  # fmt: skip

    def _with_dropped(self, found: Entry) -> Entry:
        bucket = self._buckets.get(found.caller)
        if bucket is None or not bucket.dropped:
            return found
        dropped, bucket.dropped = bucket.dropped, 0
        return replace(found, fields={**found.fields, "not_kept": dropped})

    def forget(self, party: str) -> None:
        """The party is gone."""
        self._buckets.pop(party, None)
