"""Every error that a caller can see: its wire name, its parameters and its exit code.

Standard library only: the in-container client and the command line import this file too.
"""

from __future__ import annotations

from typing import ClassVar, Self, final

HIVE = "org.hive.Broker."
VARLINK = "org.varlink.service."


class HiveError(Exception):
    """An error with a name on the wire; `fields` are sent beside the reason."""

    wire: ClassVar[str] = HIVE + "Internal"
    exit_code: ClassVar[int] = 1
    # The wire name of the reason; the errors of the Varlink service have one field or none.
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
        """Rebuild the error on the client's side from the parameters of a reply."""
        fields = {k: v for k, v in parameters.items() if k != cls.key}
        return cls(str(parameters.get(cls.key, "")), **fields)


class Internal(HiveError):
    """A fault of the daemon. It is unknown whether the request took effect."""


class NotFound(HiveError):
    """The agent does not exist, or the caller may not see it; the two cannot be told apart."""

    wire = HIVE + "NotFound"
    exit_code = 4


class NotAllowed(HiveError):
    """The caller sees the target, but may not do this to it."""

    wire = HIVE + "NotAllowed"
    exit_code = 5


class InvalidArgument(HiveError):
    """A value that fits the schema but is not valid here; names the `field`."""

    wire = HIVE + "InvalidArgument"
    exit_code = 2

    def __init__(self, reason: str = "", field: str = "", **fields: object) -> None:
        super().__init__(reason, field=field, **fields)
        self.field = field


class Conflict(HiveError):
    """The same key was used with other parameters, or the state has changed meanwhile."""

    wire = HIVE + "Conflict"


class LimitReached(HiveError):
    """A quota or a rate limit is used up."""

    wire = HIVE + "LimitReached"
    exit_code = 75


class InboxFull(HiveError):
    """The inbox is full: the recipient has to read first."""

    wire = HIVE + "InboxFull"
    exit_code = 75


class StorageFull(HiveError):
    """The host's disk has no space for this call; nothing was recorded."""

    wire = HIVE + "StorageFull"
    exit_code = 75


class NotRunning(HiveError):
    """The target must be running for this call."""

    wire = HIVE + "NotRunning"
    exit_code = 3


class AlreadyExists(HiveError):
    """A living agent, or another object, has this name already."""

    wire = HIVE + "AlreadyExists"


class Expired(HiveError):
    """Too late: the lease, the approval or the archive has ended."""

    wire = HIVE + "Expired"


class Busy(HiveError):
    """A conflicting operation is in progress: try again."""

    wire = HIVE + "Busy"
    exit_code = 75


class Unreachable(HiveError):
    """No daemon answers on the socket. Raised by clients, never sent."""

    wire = HIVE + "Unreachable"
    exit_code = 69


class TimedOut(HiveError):
    """The answer did not come in time. Raised by clients, and sent only by the root helper."""

    wire = HIVE + "TimedOut"
    exit_code = 124


class InvalidParameter(HiveError):
    """A call that does not fit the schema; names the `parameter`, and gives the reason."""

    # The Varlink specification gives this error one field. hive adds `reason`, as in all other
    # errors: clients ignore unknown fields.
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
    """The socket does not offer this interface."""

    wire = VARLINK + "InterfaceNotFound"
    exit_code = 2
    key = "interface"


class MethodNotFound(HiveError):
    """The interface does not have this method."""

    wire = VARLINK + "MethodNotFound"
    exit_code = 2
    key = "method"


class MethodNotImplemented(HiveError):
    """The method exists, but not for this kind of call (`upgrade`)."""

    wire = VARLINK + "MethodNotImplemented"
    exit_code = 2
    key = "method"


class ExpectedMore(HiveError):
    """The method answers with a stream, but was called without `more`."""

    wire = VARLINK + "ExpectedMore"
    exit_code = 2
    key = ""


@final
class BadFrame(HiveError):
    """The bytes are not a Varlink message; the connection is closed."""

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
    """The error that a reply names.

    An error of another interface becomes Internal with its name.
    """
    kind = TimedOut if name == TimedOut.wire else BY_WIRE.get(name)
    return kind.of(parameters) if kind else Internal(f"{name}: {parameters}")
