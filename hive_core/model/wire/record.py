"""What the ledger stores: messages, events, jobs, log lines. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

OPERATOR = "operator"
DAEMON = "daemon"
# The party of hive-model, the service that calls models for agents. Its name as a caller cannot be
# that of an agent.
MODEL = "model"
MODEL_CALLER = "(model)"
# The same of hive-egress, the service that connects agents to the internet.
EGRESS = "egress"
EGRESS_CALLER = "(egress)"
# The party of all connections of login.sock: the operator on behalf of accounts.
LOGIN = "login"


# The kind with which readers get an event whose text in the ledger was changed into none.
DAMAGED_EVENT = "damaged"
# Every kind of event that the daemon writes; notes of agents have kinds `own.WORD`.
EVENT_KINDS = (
    "change", "record", "refusal", "adopt", "start", "exit", "crash", "activity", "limit", "task",
    "question", "escalation", "trigger", "budget", "reminder", "tool", "model", "subagent",
    "egress", "phase", "approval", "revoked", "revocation_left",
)  # fmt: skip


class Relation(StrEnum):
    """What the sender is to the recipient at the time of sending."""

    SELF = "self"
    SUBAGENT = "subagent"
    PARENT = "parent"
    CHILD = "child"
    SIBLING = "sibling"
    ANCESTOR = "ancestor"
    DESCENDANT = "descendant"
    ALLOWED = "allowed"
    OPERATOR = "operator"
    DAEMON = "daemon"


@dataclass(slots=True)
class Message:
    """One message. `sender` and `recipient` are UUID texts, or `operator` or `daemon`.

    `source`: what caused a wake, in the words of the agent that woke itself, or the task that an
    injected message is for. `hops`: how many messages of agents it follows from.
    """

    id: str
    sender: str
    sender_name: str
    recipient: str
    recipient_name: str
    relation: Relation
    body: str
    kind: str
    thread: str
    reply_to: str | None
    priority: int
    sent_at: float
    expires_at: float | None
    attempt: int = 0
    dead_why: str | None = None
    source: str | None = None
    hops: int = 0


@dataclass(frozen=True, slots=True)
class Event:
    """One event of the audit log; `digest` chains it to the one before."""

    seq: int
    time: float
    kind: str
    caller: str
    operation: str
    target: str
    allowed: bool | None
    rule: str
    reason: str
    commit: str
    request: str
    fields: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    digest: str = ""


@dataclass(frozen=True, slots=True)
class JobRecord:
    """Work that takes time: the call returns at once, and the change path finishes the job."""

    id: str
    operation: str
    caller: str
    agents: tuple[str, ...]
    state: str
    started: float
    ended: float | None = None
    error: str = ""
    progress: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    goals: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Which lines of which agent; `uuid` is matched on trusted journal fields only."""

    uuid: str
    unit: str
    lines: int = 100
    since: float | None = None
    grep: str = ""
    after: str = ""
    boot: bool = False  # lines start with the name of the guest's own unit
    invocation: str = ""  # only lines of one start of the unit


@dataclass(frozen=True, slots=True)
class LogLine:
    """`unit` is the agent's unit, or the inner unit's name as a booted guest claims it."""

    time: float
    unit: str
    text: str
    cursor: str = ""
