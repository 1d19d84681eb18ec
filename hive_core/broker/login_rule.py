"""What an operation declares about the calls of logins on login.sock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from hive_core.model.operator.account import Scope

if TYPE_CHECKING:
    from hive_core.broker.call import Call

Level = Literal["each", "fresh"]
# Which confirmation a call needs; a function says it of the call, None: it needs none.
Confirm = Level | Callable[["Call", Any], "Level | None"]


@dataclass(frozen=True)
class LoginRule:
    """Which logins may call an operation, beside what `broker/scopes.py` derives from it.

    A `local` operation is served on the operator's own socket only. `any_login`: it needs no
    login, or only the caller's own. `scope`: the only scope that has it. `confirm`: a login
    confirms the call first, `each` time or within the last minutes (`fresh`). `bound` gives what
    a confirmation of `each` is bound to beside the params.
    """

    local: bool = False
    any_login: bool = False
    scope: Scope | None = None
    confirm: Confirm | None = None
    bound: Callable[[Call, Any], str] | None = None


DERIVED: Final = LoginRule()
LOCAL: Final = LoginRule(local=True)
ANY_LOGIN: Final = LoginRule(any_login=True)
EACH: Final = LoginRule(confirm="each")
FRESH: Final = LoginRule(confirm="fresh")
