"""Models without a known price: hive-model charges them as 0, and the operator has an alarm."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Final

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.operation import Params, Result, operation
from hive_core.ledger.core.ledger import Ledger
from hive_core.policy.rules import MODEL

_MARK: Final = "unpriced_models"
_MOST: Final = 1000
_SHOWN: Final = 20


class NotePricesParams(Params):
    unknown: list[Annotated[str, Field(max_length=64)]] = Field(
        max_length=_MOST, description="Aliases of the models whose price is unknown: all of them."
    )


@operation(action="meter", allow=MODEL)
def note_prices(call: Call, params: NotePricesParams) -> Record[Result] | Result:
    """Say which models have no known price, since hive-model has read its settings."""
    unknown = sorted(set(params.unknown))
    if unknown == unpriced_models(call.ledger):
        return Result()
    call.ledger.marks.put(_MARK, json.dumps(unknown))
    return Record(Result())


def unpriced_models(ledger: Ledger) -> list[str]:
    """The aliases that hive-model has named."""
    return [str(alias) for alias in json.loads(ledger.marks.get(_MARK) or "[]")]


def price_alarms(ledger: Ledger) -> Iterator[str]:
    """The operator's alarm about each of them."""
    unknown = unpriced_models(ledger)
    for alias in unknown[:_SHOWN]:
        yield (
            f"model {alias} has no known price and is charged as 0: set price_in and price_out in"
            " /etc/hive/models.toml"
        )
    if len(unknown) > _SHOWN:
        yield f"{len(unknown) - _SHOWN} more models have no known price"
