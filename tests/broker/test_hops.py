"""What a call costs in function calls: figures that do not depend on the machine, and stay."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fixtures.world import World

from benchmarks.hops import (
    MOVE_MOST,
    SendCalls,
    calls_of_sends,
    crowd,
    frames_to_handler,
    python_calls_of_move,
)


@pytest.fixture(name="hive", scope="module")
def _hive() -> Iterator[World]:
    with crowd() as hive:
        yield hive


def test_a_handler_is_at_most_five_frames_below_its_batch(hive: World) -> None:
    assert frames_to_handler(hive) <= 5


@pytest.fixture(name="sends", scope="module")
def _sends(hive: World) -> SendCalls:
    return calls_of_sends(hive)


def test_a_send_in_a_batch_takes_at_most_75_python_calls(sends: SendCalls) -> None:
    assert sends.python <= 75


def test_a_send_in_a_batch_takes_at_most_120_calls_with_built_in_ones(sends: SendCalls) -> None:
    assert sends.all <= 120


def test_no_batch_takes_more_than_135_calls_for_a_send(sends: SendCalls) -> None:
    """Also one in which the bytes of all senders are summed up."""
    assert sends.most <= 135


def test_a_move_takes_at_most_half_of_the_python_calls_that_it_took(hive: World) -> None:
    assert python_calls_of_move(hive) <= MOVE_MOST
