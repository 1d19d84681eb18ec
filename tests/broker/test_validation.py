"""A parameter that does not fit: the error says where, what was expected and what came."""

from __future__ import annotations

from typing import Annotated, Literal

import pytest
from each import for_each
from pydantic import Field, SecretStr, ValidationError

from hive_core.broker.operation import Confidential, Params
from hive_core.broker.validation import validation_error
from hive_core.errors import HiveError, InvalidArgument, InvalidParameter, from_wire


class Step(Params):
    title: Annotated[str, Field(max_length=9)]
    tools: list[str] = Field([])


class Bounds(Params):
    memory_max: int | None = None
    tasks_max: int | None = None


class Given(Params):
    agent: str
    times: int = Field(1, ge=1, le=9)
    wait: float = 0.0
    wide: bool = False
    role: Literal["lead", "worker"] | None = None
    steps: list[Annotated[str, Field(max_length=9)] | Step] = Field([])
    data: dict[str, int] | None = None
    limits: Bounds | None = None
    where: str | None = Field(None, alias="in")


class Kept(Confidential):
    value: Annotated[SecretStr, Field(max_length=9)]
    key: int = 0


def fault(values: dict[str, object], model: type[Params] = Given) -> HiveError:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(values)
    return validation_error(caught.value, values, model)


@for_each(
    "values, place, why",
    [
        ({}, "agent", "it is missing"),
        ({"agent": 5}, "agent", "expected text, not 5"),
        ({"times": "x"}, "times", 'expected a whole number, not "x"'),
        ({"times": 1.5}, "times", "expected a whole number, not 1.5"),
        ({"wait": True}, "wait", "expected a number, not true"),
        ({"wide": None}, "wide", "expected true or false, not null"),
        ({"role": "boss"}, "role", "expected 'lead' or 'worker', not \"boss\""),
        ({"steps": {"a": 1}}, "steps", "expected a list, not an object"),
        ({"steps": ["x", 7]}, "steps.1", "expected text or an object, not 7"),
        ({"steps": ["x", {}]}, "steps.1.title", "it is missing"),
        ({"steps": [{"title": "x", "tools": ["y", [1, 2]]}]}, "steps.0.tools.1",
         "expected text, not a list of 2"),
        ({"data": {"a": "b"}}, "data.a", 'expected a whole number, not "b"'),
        ({"steps": [{"title": "x", "tool": 1}]}, "steps.0.tool", "there is none of this name"),
        ({"colour": 1}, "colour", "there is none of this name, only agent, times, wait, wide,"
         " role, steps, data, limits, in"),
        ({"limits": {"memory": 1}}, "limits.memory",
         "there is none of this name, only memory_max, tasks_max"),
    ],
)  # fmt: skip
def test_a_wrong_shape_says_what_was_expected(
    values: dict[str, object], place: str, why: str
) -> None:
    error = fault({"agent": "a", **values} if values else values)
    assert isinstance(error, InvalidParameter)
    assert (error.parameter, error.why) == (place, why)
    again = from_wire(error.wire, error.parameters)
    assert str(again) == f"parameter {place!r} does not fit: {why}"


@for_each(
    "values, place, why",
    [
        ({"times": 10}, "times", "should be less than or equal to 9, not 10"),
        ({"steps": ["ten letters"]}, "steps.0",
         'String should have at most 9 characters, not "ten letters"'),
        ({"steps": [{"title": "t" * 99}]}, "steps.0.title",
         f'String should have at most 9 characters, not "{"t" * 40}"... (99 characters)'),
    ],
)  # fmt: skip
def test_a_value_out_of_bounds_says_the_bound_and_what_came(
    values: dict[str, object], place: str, why: str
) -> None:
    error = fault({"agent": "a", **values})
    assert isinstance(error, InvalidArgument)
    assert (error.field, error.reason) == (place, why)


def test_a_name_that_is_wrong_is_told_before_the_one_that_is_missing() -> None:
    error = fault({"agnet": "bob"})
    assert isinstance(error, InvalidParameter)
    assert error.parameter == "agnet"


def test_nothing_in_it_acts_on_a_terminal() -> None:
    error = fault({"agent": "a", "times": "\x1b[2J\u202e" + "x" * 1000})
    assert isinstance(error, InvalidParameter)
    assert error.why.isprintable()
    assert "\\u001b[2J\\u202e" in error.why
    assert len(error.why) < 120


def test_what_may_be_a_secret_is_not_repeated() -> None:
    for values in ({"value": "hunter2-hunter2"}, {"value": "x", "key": "hunter2"}):
        error = fault({**values}, Kept)
        assert "hunter2" not in str(error.parameters)
        assert "a text of" in str(error.parameters)
    assert "not 1.5" in str(fault({"value": "x", "key": 1.5}, Kept).parameters)
