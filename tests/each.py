"""One test over many values, where a test for each would cost more than what it checks.

pytest takes three milliseconds of processor for a test that does nothing, and there are thousands
of operations times rules. Its own subtests say which values do not hold, and go on to the next.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from typing import TypeVar

import pytest

T = TypeVar("T")
Test = Callable[..., None]


def for_each(
    names: str, values: Collection[T], label: Callable[[T], str] = str
) -> Callable[[Test], Test]:
    """Call the test with each value as the argument of this name, or with the parts of each value.

    All calls have the same fixtures, so what a test does with one value may not change what it says
    of the next.
    """
    assert values, "a test over no values holds whatever it checks"
    keys = [name.strip() for name in names.split(",")]

    def arguments(value: T) -> dict[str, object]:
        if len(keys) == 1:
            return {names: value}
        assert isinstance(value, tuple)
        return dict(zip(keys, value, strict=True))

    def decorate(test: Test) -> Test:
        def check_each(subtests: pytest.Subtests, **fixtures: object) -> None:
            for value in values:
                with subtests.test(label(value)):
                    test(**fixtures, **arguments(value))

        check_each.__name__, check_each.__doc__ = test.__name__, test.__doc__
        check_each.__module__ = test.__module__
        parameters = inspect.signature(test).parameters.values()
        others = [parameter for parameter in parameters if parameter.name not in keys]
        first = inspect.Parameter("subtests", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        check_each.__signature__ = inspect.Signature([first, *others])  # type: ignore[attr-defined]
        return check_each

    return decorate
