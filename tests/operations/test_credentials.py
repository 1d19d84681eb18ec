"""What an agent is connected to, without values, and how an expired one is renewed (Q35, Q36)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from fixtures.world import World, rows, world

from hive_core.model.wire.record import OPERATOR

VALUE = "x-hush-4711-x"
LABEL = {"provider": "github", "alias": "work", "identity": "bot@example.org", "tools": ["bash"]}


@pytest.fixture
def made() -> Iterator[World]:
    with world(None, "root/lead:lead", "lead/ann:worker") as result:
        result.call(OPERATOR, "grant_capability", agent="ann", capability="secret:token")
        yield result


def put(made: World, **more: object) -> None:
    made.call(OPERATOR, "set_secret", agent="ann", key="token", value=VALUE, **more)


def credentials(made: World, caller: str = "ann", **more: object) -> list[dict[str, object]]:
    return [dict(row) for row in rows(made.call(caller, "list_credentials", **more)["credentials"])]


def report(made: World, **more: object) -> dict[str, object]:
    params = {"key": "token", "message": f"401: {VALUE} is expired", **more}
    return dict(made.call("ann", "report_expired_credential", **params))


def test_an_agent_sees_its_accounts_and_no_values(made: World) -> None:
    (missing,) = credentials(made)
    assert (missing["key"], missing["stored"], missing["readable"]) == ("token", False, True)
    put(made, **LABEL)
    (row,) = credentials(made)
    assert row == {**LABEL, "key": "token", "stored": True, "readable": True, "expired": ""}
    assert credentials(made, "lead", agent="ann") == [row]
    assert made.fault("ann", "list_credentials", agent="lead") == "NotAllowed"
    assert made.fault(OPERATOR, "list_credentials") == "InvalidArgument"
    made.call(OPERATOR, "remove_secret", agent="ann", key="token")
    assert credentials(made) == [{**row, "stored": False}]


def test_an_expired_credential_is_asked_about_once_and_a_new_value_answers(made: World) -> None:
    put(made, **LABEL)
    url = "https://example.org/renew"
    first = report(made, reauth_url=url)
    assert first == {
        "error": "credential_expired", "credential_id": "token", "message": first["message"],
        "provider": "github", "alias": "work", "reauth_url": url, "question": first["question"],
    }  # fmt: skip
    assert report(made)["question"] == first["question"]
    (letter,) = [row for row in made.mail(OPERATOR) if row["kind"] == "question"]
    assert "hive secret set ann token" in str(letter["body"])
    assert "github work bot@example.org" in str(letter["body"])
    assert url in str(letter["body"])
    assert VALUE not in str(letter["body"])
    assert credentials(made)[0]["expired"] == "401: *** is expired"
    put(made, **LABEL)
    (answer,) = [row for row in made.mail("ann") if row["kind"] == "answer"]
    assert "the credential token has a new value" in str(answer["body"])
    assert credentials(made)[0]["expired"] == ""
    assert report(made)["question"] != first["question"]


def test_a_new_value_keeps_what_is_not_named(made: World) -> None:
    """The question about an expired credential says `hive secret set NAME KEY`, and no more."""
    put(made, **LABEL)
    put(made)
    assert {key: credentials(made)[0][key] for key in LABEL} == LABEL
    put(made, alias="home", tools=[])
    (row,) = credentials(made)
    assert {key: row[key] for key in LABEL} == {**LABEL, "alias": "home", "tools": []}
    put(made, provider="", identity="")
    (row,) = credentials(made)
    assert {key: row[key] for key in LABEL} == {
        "provider": "", "alias": "home", "identity": "", "tools": [],
    }  # fmt: skip
    made.call(OPERATOR, "remove_secret", agent="ann", key="token")
    put(made)
    assert credentials(made)[0]["alias"] == ""


def test_a_task_waits_for_the_credential_that_it_needs(made: World) -> None:
    put(made)
    task = str(made.call("lead", "assign_task", agent="ann", description="push")["task"])
    report(made, task=task)
    shown = made.call("lead", "get_task", task=task)["task"]
    assert isinstance(shown, dict)
    assert shown["state"] == "awaiting_more_information"
    put(made)
    shown = made.call("lead", "get_task", task=task)["task"]
    assert isinstance(shown, dict)
    assert shown["state"] == "in_progress"


def test_only_its_own_credentials_can_be_reported_and_only_https_links(made: World) -> None:
    reply = {"message": "expired"}
    assert made.fault("ann", "report_expired_credential", key="other", **reply) == "NotFound"
    assert made.fault(OPERATOR, "report_expired_credential", key="token", **reply) == "NotAllowed"
    for url in ("javascript:x", "http://example.org", "https://a b"):
        params = {"key": "token", "reauth_url": url, **reply}
        assert made.fault("ann", "report_expired_credential", **params) == "InvalidArgument"
    assert [row for row in made.mail(OPERATOR) if row["kind"] == "question"] == []


@pytest.mark.parametrize("field", ["provider", "alias", "identity"])
def test_a_label_is_one_line(made: World, field: str) -> None:
    for text in ("two\nlines", "escape \x1b[2J", "x" * 201):
        params = {"agent": "ann", "key": "token", "value": VALUE, field: text}
        assert made.fault(OPERATOR, "set_secret", **params) == "InvalidArgument"
    assert not made.vault.keys(made.uuid("ann"))


def test_an_agent_without_a_session_gets_no_letter_about_its_credentials(made: World) -> None:
    put(made)
    assert [json.dumps(row) for row in made.mail("ann") if row["kind"] == "credentials"] == []
