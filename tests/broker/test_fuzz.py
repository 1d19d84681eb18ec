"""Attack 36 on the whole request path: whatever one connection says, the others are served."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from fixtures.broker import BrokerClient, BrokerHarness, lend_broker
from hypothesis import given
from hypothesis import strategies as st

from hive_core import varlink
from hive_core.errors import BadFrame
from hive_core.operations import load

REGISTRY = load()
NAMES = ["root", "ann", "bob", "cat", "dan", "lone", "operator", "nobody", "", "-", "x" * 40]

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT | st.sampled_from(NAMES),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)


@st.composite
def calls(draw: st.DrawFn) -> bytes:
    """A call that is nearly right: a method that exists, some of its parameters."""
    declared = REGISTRY[draw(st.sampled_from(sorted(REGISTRY)))]
    fields = sorted(declared.params.model_fields)
    chosen = draw(st.lists(st.sampled_from(fields), max_size=4)) if fields else []
    message: dict[str, Any] = {"method": f"org.hive.Broker.{declared.method}"}
    message["parameters"] = {name: draw(VALUES) for name in chosen}
    message |= draw(st.dictionaries(st.sampled_from(["more", "oneway", "x"]), VALUES, max_size=1))
    return json.dumps(message).encode("utf-8", "surrogatepass")


FRAMES = st.one_of(
    calls(),
    st.binary(max_size=60).map(lambda data: data.replace(b"\0", b"")),
    VALUES.map(lambda value: json.dumps(value).encode()),
)


@pytest.fixture(scope="module")
def harness() -> Iterator[BrokerHarness]:
    with lend_broker(REGISTRY) as opened:
        yield opened


@given(st.lists(st.tuples(st.sampled_from(["ann", "cat", "lone", "operator"]), FRAMES), max_size=8))
def test_attack_36_no_frame_stops_the_broker_or_another_caller(
    harness: BrokerHarness, said: list[tuple[str, bytes]]
) -> None:
    clients = {name: harness.client(name) for name in ("ann", "cat", "lone", "operator")}
    other = harness.client("root")
    for name, frame in said:
        clients[name].say(frame)
        other.ask("Whoami")
    for _ in range(200):  # a stream that always has more would go on for ever
        if not harness.transport.woken:
            break
        harness.turn()
    assert len([reply for reply in other.replies if "parameters" in reply]) == len(said)
    for name, client in clients.items():
        asked = [frame for caller, frame in said if caller == name]
        check(client, asked)
        harness.broker.drop(client.line)
    harness.broker.drop(other.line)
    harness.transport.reads.clear()
    assert harness.ledger.events.verify() is None
    assert harness.repo.head() == harness.ledger.head == harness.hive.commit


def check(client: BrokerClient, asked: list[bytes]) -> None:
    """At most one last reply for each call, in order, all of them well formed."""
    last = [reply for reply in client.replies if not reply.get("continues")]
    assert len(last) <= len(asked)
    for reply in client.replies:
        assert set(reply) <= {"parameters", "error", "continues"}
        assert isinstance(reply["parameters"], dict)
    for frame in asked:
        try:
            varlink.decode(frame)
        except BadFrame:
            assert client.closed or client.line.busy
