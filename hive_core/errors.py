"""Every refusal a caller can see: its wire name, its parameters and its exit code.

Standard library only: the in-container client and the command line import this file too.
"""

from __future__ import annotations

from typing import ClassVar, Self

HIVE = "org.hive.Broker."
VARLINK = "org.varlink.service."


class HiveError(Exception):
    """A refusal with a name on the wire; `fields` go out beside the reason."""

    wire: ClassVar[str] = HIVE + "Internal"
    exit_code: ClassVar[int] = 1
    # What the reason is called on the wire; the service's own errors have one field or none.
    key: ClassVar[str] = "reason"

    def __init__(self, reason: str = "", **fields: object) -> None:
        super().__init__(reason)
        self.reason = reason
        self.fields = fields

    @property
    def parameters(self) -> dict[str, object]:
        return {self.key: self.reason, **self.fields} if self.key else {}

    @classmethod
    def of(cls, parameters: dict[str, object]) -> Self:
        """Rebuild the error on the client's side from what came over the wire."""
        fields = {k: v for k, v in parameters.items() if k != cls.key}
        return cls(str(parameters.get(cls.key, "")), **fields)


class Internal(HiveError):
    """A fault of the daemon; the request may or may not have happened."""


class NotFound(HiveError):
    """No such agent, or none that the caller may see: the two look the same."""

    wire = HIVE + "NotFound"
    exit_code = 4


class NotAllowed(HiveError):
    """The caller sees the target and may not do this to it."""

    wire = HIVE + "NotAllowed"
    exit_code = 5


class InvalidArgument(HiveError):
    """A value that fits the schema and makes no sense; names the `field`."""

    wire = HIVE + "InvalidArgument"
    exit_code = 2

    def __init__(self, reason: str = "", field: str = "", **fields: object) -> None:
        super().__init__(reason, field=field, **fields)
        self.field = field


class Conflict(HiveError):
    """The same key with other parameters, or a state that moved on meanwhile."""

    wire = HIVE + "Conflict"


class LimitReached(HiveError):
    """A quota or a rate is used up."""

    wire = HIVE + "LimitReached"
    exit_code = 75


class InboxFull(HiveError):
    """The recipient has to read first."""

    wire = HIVE + "InboxFull"
    exit_code = 75


class StorageFull(HiveError):
    """The host's disk has no room for this call; nothing was recorded."""

    wire = HIVE + "StorageFull"
    exit_code = 75


class NotRunning(HiveError):
    """The target has to run for this."""

    wire = HIVE + "NotRunning"
    exit_code = 3


class AlreadyExists(HiveError):
    """The name is taken among the living."""

    wire = HIVE + "AlreadyExists"


class Expired(HiveError):
    """Too late: the lease, the approval or the archive has ended."""

    wire = HIVE + "Expired"


class Busy(HiveError):
    """Try again: something that excludes this is under way."""

    wire = HIVE + "Busy"
    exit_code = 75


class Unreachable(HiveError):
    """No daemon behind the socket. Made by clients, never sent."""

    wire = HIVE + "Unreachable"
    exit_code = 69


class TimedOut(HiveError):
    """The answer did not come in time. Made by clients and sent by the root helper alone."""

    wire = HIVE + "TimedOut"
    exit_code = 124


class InvalidParameter(HiveError):
    """A call that does not fit the schema; names the `parameter`, and says why it does not."""

    # The specification gives this error one field. Ours stands beside it, as `reason` does in all
    # others: clients pass over what they do not know.
    wire = VARLINK + "InvalidParameter"
    exit_code = 2
    key = "parameter"

    def __init__(self, parameter: str = "", reason: str = "", **fields: object) -> None:
        super().__init__(parameter, **fields)
        self.why = reason
        if reason:
            self.fields["reason"] = reason

    @property
    def parameter(self) -> str:
        return self.reason

    def __str__(self) -> str:
        why = f": {self.why}" if self.why else ""
        return f"parameter {self.parameter!r} does not fit{why}"


class InterfaceNotFound(HiveError):
    """No such interface behind this socket."""

    wire = VARLINK + "InterfaceNotFound"
    exit_code = 2
    key = "interface"


class MethodNotFound(HiveError):
    """No such method in the interface."""

    wire = VARLINK + "MethodNotFound"
    exit_code = 2
    key = "method"


class MethodNotImplemented(HiveError):
    """The method exists and not in the way it was called (`upgrade`)."""

    wire = VARLINK + "MethodNotImplemented"
    exit_code = 2
    key = "method"


class ExpectedMore(HiveError):
    """The method answers with a stream and was not called with `more`."""

    wire = VARLINK + "ExpectedMore"
    exit_code = 2
    key = ""


class BadFrame(HiveError):
    """Bytes that are no Varlink message; the connection is closed after it."""

    wire = HIVE + "BadFrame"
    exit_code = 2


BY_WIRE: dict[str, type[HiveError]] = {
    kind.wire: kind
    for kind in (
        Internal, NotFound, NotAllowed, InvalidArgument, Conflict, LimitReached, InboxFull,
        StorageFull, NotRunning, AlreadyExists, Expired, Busy, InvalidParameter,
        InterfaceNotFound, MethodNotFound, MethodNotImplemented, ExpectedMore, BadFrame,
    )
}  # fmt: skip


def from_wire(name: str, parameters: dict[str, object]) -> HiveError:
    """The error that a reply names; one from another interface becomes Internal with its name."""
    kind = TimedOut if name == TimedOut.wire else BY_WIRE.get(name)
    return kind.of(parameters) if kind else Internal(f"{name}: {parameters}")
