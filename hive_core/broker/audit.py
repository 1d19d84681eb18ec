"""Audit records of calls: every mutation, and every refusal up to a rate."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from hive_core.broker.call import Call, Change, EventTarget, Record
from hive_core.errors import StorageFull
from hive_core.ledger.audit.event_json import Form, form
from hive_core.ledger.audit.events import AuditEntry
from hive_core.model.agents.hive import Hive
from hive_core.model.agents.subagent import split_address
from hive_core.model.wire.record import OPERATOR

if TYPE_CHECKING:
    from hive_core.broker.operation import Result
    from hive_core.broker.outcome import AuthorizedCall
    from hive_core.ledger.core.ledger import Ledger

log = logging.getLogger(__name__)
_NAMED = 64
_FORMS = 2048
_NONE: Mapping[str, object] = MappingProxyType({})
CONNECT = "connect"
CHANGED, RECORDED, REFUSED, ADOPTED = "change", "record", "refusal", "adopt"


class Judgement(NamedTuple):
    """The decision on a call. `target` is a name, which may not exist."""

    operation: str
    target: str | None
    rule: str
    reason: str


def call_entry(
    kind: str, call: Call, judged: Judgement, commit: str = "", extra: Mapping[str, object] = _NONE
) -> AuditEntry:
    """The entry for one call. The operator's uid names the person for whom the operator acts."""
    operation, target, rule, reason = judged
    party = ""
    fields: dict[str, object] = {"caller_name": call.address, **extra}
    if call.sub is not None:
        fields["sub"] = call.sub.id
    if target:
        spec = call.hive.specs.get(target)
        party = spec.id if spec else target[:_NAMED]
        fields["target_name"] = target[:_NAMED]
    if call.by_operator:
        fields["uid"] = call.uid
    if call.seat is not None:
        fields = {"account": "", **fields, **_login_fields(call)}
    return AuditEntry(
        kind, call.uuid, operation, party, kind != REFUSED, rule, reason,
        commit or call.hive.commit, call.request, call.now, fields,
    )  # fmt: skip


def _retarget(entry: AuditEntry, target: EventTarget) -> AuditEntry:
    """The entry with this target; `judged` names the agent against which the call was judged."""
    judged = entry.fields.get("target_name", "")
    fields = {**entry.fields, "judged": judged, "target_name": target.name}
    return entry._replace(target=target.uuid, fields=fields)


def _login_fields(call: Call) -> dict[str, object]:
    """For whom the operator acts. `confirmed` is there only where the call was confirmed."""
    login = call.login
    if login is None:
        return {}
    fields: dict[str, object] = {
        "account": login.account, "login": login.id, "via": login.via.value,
    }  # fmt: skip
    return {**fields, "confirmed": call.confirmed} if call.confirmed else fields


def rejected_peer_entry(party: str, uid: int, hive: Hive, now: float) -> AuditEntry:
    """The entry for a peer outside of the uid range of its socket (attacks 33 and 34)."""
    agent, sub = split_address(party)
    fields = {"uid": uid, "target_name": hive.names.get(agent, "")}
    whose = f"sub-agent {sub}" if sub else "this agent"
    return AuditEntry(
        kind=REFUSED,
        caller=f"uid:{uid}",
        operation=CONNECT,
        target=agent,
        allowed=False,
        rule="uid range",
        reason=f"uid {uid} is not one of {whose}",
        commit=hive.commit,
        request="",
        now=now,
        fields={**fields, "sub": sub} if sub else fields,
    )


def adoption_entry(commit: str, reason: str, now: float) -> AuditEntry:
    """The entry for a commit that was made by hand in the meta repo."""
    return AuditEntry(
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


class RefusalBucket:
    """Refusals of one caller: a burst of a minute's share, then one at a time."""

    __slots__ = ("at", "dropped", "left")

    def __init__(self, burst: float, now: float) -> None:
        self.left, self.at, self.dropped = burst, now, 0

    def take(self, burst: float, now: float) -> bool:
        # A clock that was set back changes nothing.
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
        self._buckets: dict[str, RefusalBucket] = {}
        self._forms: dict[tuple[object, ...], Form] = {}

    def admits(self, caller: str, now: float) -> bool:
        """Whether another refusal of this caller is recorded; counts it when it is not."""
        bucket = self._buckets.get(caller)
        if bucket is None:
            bucket = self._buckets[caller] = RefusalBucket(self._burst, now)
        return bucket.take(self._burst, now)

    def admits_rejected_peer(self, party: str, now: float) -> bool:
        """The same for peers that may not use the socket of this party."""
        return self.admits(_connect_key(party), now)

    def record(
        self, case: AuthorizedCall, outcome: Change[Result] | Record[Result], commit: str
    ) -> None:
        """Record an effect. A repeated call has the same line except for request and time."""
        call, decision, kind, fields = case.call, case.decision, outcome.kind, outcome.fields
        if fields or outcome.target or call.uuid == OPERATOR or call.sub is not None:
            entry = call_entry(kind, call, case.judgement, commit, fields)
            self.write(entry if outcome.target is None else _retarget(entry, outcome.target))
            return
        target = case.target
        specs = call.hive.specs
        uuid = specs[target].id if target is not None and target in specs else ""
        key = (
            kind, call.uuid, call.caller, case.operation.name, target, decision.rule,
            decision.reason, commit, uuid,
        )  # fmt: skip
        try:
            known = self._forms[key]
        except KeyError:
            if len(self._forms) >= _FORMS:
                self._forms.clear()
            known = self._forms[key] = form(call_entry(kind, call, case.judgement, commit))
        self._ledger.events.fill(known, call.request, call.now)

    def write_refusals(self, entries: Sequence[AuditEntry]) -> None:
        """Record refusals of calls that only read.

        On a full disk the callers are answered without a record.
        """
        if not entries:
            return
        try:
            with self._ledger.transaction():
                for refused in entries:
                    self.write(refused)
        except StorageFull:
            log.warning("disk full: %d refusals are not recorded", len(entries))

    def write(self, entry: AuditEntry) -> None:
        """Add an event; a refusal says how many like it were not recorded."""
        if entry.kind == REFUSED:
            entry = self._with_drop_count(entry)
        self._ledger.events.append(entry)

    def _with_drop_count(self, entry: AuditEntry) -> AuditEntry:
        bucket = self._buckets.get(_bucket_key(entry))
        if bucket is None or not bucket.dropped:
            return entry
        dropped, bucket.dropped = bucket.dropped, 0
        self._ledger.connection.undo.note(setattr, bucket, "dropped", dropped)
        return entry._replace(fields={**entry.fields, "not_kept": dropped})

    def forget(self, party: str) -> None:
        """Forget a party that was destroyed."""
        self._buckets.pop(party, None)
        self._buckets.pop(_connect_key(party), None)


def refused_party(call: Call) -> str:
    """The party whose refusals are counted: the caller, or the account of a login.

    A service without a login cannot use up what is recorded of the operator's own refusals.
    """
    if call.seat is None:
        return call.uuid
    return _login_key(call.login.account if call.login is not None else "")


def _bucket_key(entry: AuditEntry) -> str:
    if entry.operation == CONNECT:
        return _connect_key(entry.target)
    return _login_key(str(entry.fields["account"])) if "account" in entry.fields else entry.caller


def _login_key(account: str) -> str:
    return f"login {account}"


def _connect_key(party: str) -> str:
    """The bucket of all rejected peers of a socket, apart from that of the socket's own party."""
    return f"{CONNECT} {party}"
