"""Routes of hive-notify that cannot be used: the operator has an alarm about each of them.

Only hive-notify can read their secrets, so it is the one that says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Final

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.login_rule import LoginRule
from hive_core.broker.operation import Params, Result, operation
from hive_core.ledger.core.ledger import Ledger
from hive_core.model.config.settings import Settings
from hive_core.model.operator.account import Scope
from hive_core.operations.accounts.logins import own_login
from hive_core.operations.questions.letters import shorten
from hive_core.policy.rules import OPERATOR

_MARK: Final = "route_report"
_MOST: Final = 32  # routes of one hive
_REASON_MOST: Final = 300
# systemd gives hive-notify its secrets at its start alone.
_REMEDY: Final = "mend that, then `systemctl restart hive-notify`"

RouteName = Annotated[str, Field(pattern=r"^[ -~]{1,64}$")]
Reason = Annotated[str, Field(max_length=2000)]


@dataclass(frozen=True, slots=True)
class RouteReport:
    """What hive-notify said last, and when the daemon that it said it to had started."""

    faults: Mapping[str, str]
    daemon: float


class NoteRoutesParams(Params):
    faults: dict[RouteName, Reason] = Field(
        max_length=_MOST, description="Why each route that cannot be used cannot: all of them."
    )


@operation(action="administer", allow=OPERATOR, login=LoginRule(scope=Scope.NOTIFIER))
def note_routes(call: Call, params: NoteRoutesParams) -> Record[Result] | Result:
    """Say by which routes hive-notify cannot send, since it has read its settings.

    Each is an alarm of the operator until hive-notify says otherwise.
    """
    own_login(call)
    faults = {name: shorten(reason, _REASON_MOST) for name, reason in params.faults.items()}
    report = RouteReport(faults, call.states.since())
    if report == _stored_report(call.ledger):
        return Result()
    call.ledger.marks.put(_MARK, json.dumps(asdict(report)))
    return Record(Result())


def route_alarms(ledger: Ledger, settings: Settings, daemon: float) -> Iterator[str]:
    """Yield the operator's alarm about each faulty route, while the settings have routes.

    A report to this daemon, which started at `daemon`, counts also where its settings have none:
    hive-notify has read a newer file.
    """
    report = _stored_report(ledger)
    if settings.notify.routes or report.daemon == daemon:
        for name, reason in report.faults.items():
            yield f"hive-notify says that it cannot send by route {name}: {reason}; {_REMEDY}"


def _stored_report(ledger: Ledger) -> RouteReport:
    text = ledger.marks.get(_MARK)
    return RouteReport(**json.loads(text)) if text else RouteReport({}, 0.0)
