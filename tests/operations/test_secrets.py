"""Row H28 and attack 48: secrets are the operator's to give, and their values are kept nowhere."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from fixtures.world import World, rows, world

from hive_core.errors import HiveError, InvalidArgument, LimitReached
from hive_core.model.wire.record import OPERATOR
from hive_core.operations.agents.secrets import BYTES_MOST, MOST, SetSecretParams

VALUE = "x-hush-4711-x"


@pytest.fixture
def made() -> Iterator[World]:
    with world(None, "root/ann", "root/bob") as result:
        yield result


def put(made: World, key: str = "token", value: str = VALUE, **more: object) -> dict[str, object]:
    return made.call(OPERATOR, "set_secret", agent="ann", key=key, value=value, **more)


def fields(row: Mapping[str, object]) -> dict[str, object]:
    return {key: row[key] for key in ("agent", "key", "readable")}


def everything(folder: Path, but: Path) -> Iterator[tuple[Path, bytes]]:
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_relative_to(but):
            yield path, path.read_bytes()


def test_it_is_kept_for_the_agent_and_listed_without_its_value(made: World) -> None:
    assert fields(put(made)) == {"agent": "ann", "key": "token", "readable": False}
    made.call(OPERATOR, "grant_capability", agent="ann", capability="secret:token")
    listed = rows(made.call(OPERATOR, "list_secrets", agent="ann")["secrets"])
    assert list(map(fields, listed)) == [{"agent": "ann", "key": "token", "readable": True}]
    assert made.vault.read(made.uuid("ann"), "token") == VALUE.encode()
    assert rows(made.call(OPERATOR, "list_secrets", agent="bob")["secrets"]) == []


def test_attack_48_the_value_is_nowhere_but_in_its_file(
    made: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Events, idempotency keys, the meta repository, the log, errors, and the parameters' repr."""
    caplog.set_level(logging.DEBUG)
    answers = [str(put(made, idempotency_key="k1")), str(put(made, idempotency_key="k1"))]
    odd = (
        {"key": "..", "value": VALUE}, {"key": "x", "value": VALUE * 9999},
        {"key": "x", "value": [VALUE]}, {"key": "x", "value": VALUE, "odd": 1},
    )  # fmt: skip
    for params in odd:
        with pytest.raises(HiveError) as caught:
            made.call(OPERATOR, "set_secret", agent="ann", **params)
        answers.append(f"{caught.value!r} {caught.value.__dict__}")
    assert made.fault("root", "set_secret", agent="ann", key="x", value=VALUE) == "NotAllowed"
    (params_,) = [SetSecretParams.model_validate({"agent": "ann", "key": "x", "value": VALUE})]
    answers += [repr(params_), str(params_), params_.model_dump_json(), str(params_.model_dump())]
    answers += [str(made.events()), caplog.text]
    assert not [answer for answer in answers if VALUE in answer]
    result = dict(everything(made.folder, made.vault.folder))
    assert any(path.name == "hive.db" for path in result)
    assert not [path for path, data in result.items() if VALUE.encode() in data]
    with made.ledger.transaction():
        assert made.ledger.connection.rows("SELECT * FROM keys WHERE key = 'k1'") == []


def test_the_same_call_again_sets_it_again(made: World) -> None:
    """It is not remembered under its key: the second value counts."""
    put(made, idempotency_key="k1")
    put(made, value="another", idempotency_key="k1")
    assert made.vault.read(made.uuid("ann"), "token") == b"another"


def test_the_setter_is_recorded_with_the_key(made: World) -> None:
    put(made)
    made.call(OPERATOR, "remove_secret", agent="ann", key="token")
    made.call(OPERATOR, "remove_secret", agent="ann", key="token")
    entries = [event for event in made.events() if "secret" in str(event["operation"])]
    assert [event["operation"] for event in entries] == ["set_secret", "remove_secret"]
    assert [event["fields"]["key"] for event in entries] == ["token"] * 2  # type: ignore[index]
    assert made.vault.keys(made.uuid("ann")) == ()


def test_agents_may_neither_set_nor_list_nor_remove(made: World) -> None:
    for operation, params in (
        ("set_secret", {"key": "x", "value": "y"}), ("remove_secret", {"key": "x"}),
        ("list_secrets", {}),
    ):  # fmt: skip
        assert made.fault("root", operation, agent="ann", **params) == "NotAllowed"
        assert made.fault("ann", operation, agent="ann", **params) == "NotAllowed"


def test_they_are_bounded_in_size_and_number(made: World) -> None:
    put(made, value="x" * BYTES_MOST)
    with pytest.raises(InvalidArgument, match="is empty"):
        put(made, value="")
    with pytest.raises(InvalidArgument):
        put(made, value="é" * (BYTES_MOST // 2 + 1))
    for number in range(MOST - 1):
        put(made, key=f"k{number}")
    with pytest.raises(LimitReached):
        put(made, key="one-more")
    put(made)  # in place of an older one
