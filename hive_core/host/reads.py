"""What slow reads of operations may reach."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from hive_core.plan.desired import Plan
from hive_core.ports import Journal


@dataclass
class Reads:
    """As `broker/call.py` names it."""

    journal: Journal
    fresh_plan: Callable[[], Coroutine[Any, Any, Plan]]
    diff: Callable[[str, str, int], Coroutine[Any, Any, tuple[bytes, bool]]]
