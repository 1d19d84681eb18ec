"""One test over many values, where a test for each would cost more than what it checks.

pytest takes three milliseconds of processor for a test that does nothing, and there are thousands
of operations times rules.
"""

from __future__ import annotations

import functools
import inspect
import traceback
from collections.abc import Callable, Collection
from typing import TypeVar

import pytest

T = TypeVar("T")
Test = Callable[..., None]


def for_each(
    name: str, values: Collection[T], label: Callable[[T], str] = str
) -> Callable[[Test], Test]:
    """Call the test with each value as the argument of this name.

    All values are tried. The test fails with a list of those for which it does not hold, each by
    its label and with its traceback.
    """
    assert values, "a test over no values holds whatever it checks"

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def check_each(**fixtures: object) -> None:
            failures = dict[str, str]()
            for value in values:
                try:
                    test(**fixtures, **{name: value})
                except (Exception, pytest.fail.Exception):  # noqa: BLE001 - reported below
                    failures[label(value)] = traceback.format_exc(limit=-3)
            text = "\n".join(f"{place}: {why}" for place, why in failures.items())
            assert not failures, f"{len(failures)} of {len(values)} do not hold\n{text}"

        signature = inspect.signature(test)
        others = [field for field in signature.parameters.values() if field.name != name]
        del check_each.__wrapped__
        check_each.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return check_each

    return decorate
