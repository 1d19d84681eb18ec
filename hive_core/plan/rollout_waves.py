"""Many agents in waves: a few first, then a share of them, then the rest (attack 51). Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence


def waves(agents: Sequence[str], first: int, share: float) -> tuple[tuple[str, ...], ...]:
    """The agents in their order, cut into at most three waves; none of them is empty."""
    second = first + math.ceil(len(agents) * share)
    cuts = (agents[:first], agents[first:second], agents[second:])
    return tuple(tuple(wave) for wave in cuts if wave)
