"""Which role may run an operation on which agent, as one line, compared with the recorded one."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Final

from fixtures.topologies import hive_of
from policy.naive import OPERATOR, Question, decide

from hive_core.broker.operation import Operation
from hive_core.model.agents.agent import Role
from hive_core.model.agents.hive import Hive
from hive_core.model.agents.roles import default_capabilities

# As it was when roles still hung on the names of operations: `operation: role=targets ...`.
BEFORE: Final = Path(__file__).with_name("authority.txt")
_TREE: Final = {"top": None, "me": "top", "below": "me", "deep": "below", "beside": "top",
                "far": None}  # fmt: skip
_TARGETS: Final = (None, "me", "below", "deep", "top", "beside", "far", OPERATOR)
# Nothing, the caller itself, and somebody below it.
_SECONDS: Final = (None, "me", "below")
_FACTS: Final = frozenset({"assigner", "asked", "put", "take", "reply", "covered"})


def authority(result: Operation) -> str:
    """Each caller, and for each of its targets how many of the questions are allowed."""
    callers = [(role.value, _hive(role), "me") for role in Role]
    callers.append((OPERATOR, hive_of(_TREE), OPERATOR))
    return " ".join(f"{name}={_row(result, hive, caller)}" for name, hive, caller in callers)


def _hive(role: Role) -> Hive:
    hive = hive_of(_TREE)
    changes = {"role": role, "capabilities": default_capabilities(role)}
    return hive.with_spec("me", hive.spec("me").model_copy(update=changes))


def _row(result: Operation, hive: Hive, caller: str) -> str:
    return "".join(str(_count(result, hive, caller, target)) for target in _TARGETS)


def _count(result: Operation, hive: Hive, caller: str, target: str | None) -> int:
    questions = (
        Question(hive, caller, result.name, target, second, facts)
        for second, facts in product(_SECONDS, (frozenset[str](), _FACTS))
    )
    return sum(decide(result.allow, question).allowed for question in questions)


def read_before() -> dict[str, str]:
    lines = BEFORE.read_text(encoding="utf-8").splitlines()
    return {name: row for name, _, row in (line.partition(": ") for line in lines)}
