"""Webhooks at addresses that were chosen, and signatures over all of a request (Q32)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fixtures.webhooks import WebhookHost, _street, hook, signed_headers  # noqa: F401
from fixtures.world import rows
from operations.test_triggers import SAY, bodies, put, start_agent

from hive_core.errors import AlreadyExists, InvalidArgument
from hive_core.host.sockets.webhooks import EVEN
from hive_core.model.work.webhook import WINDOW

SECRET = "a secret of the sender's"  # noqa: S105 - of this test


def create_trigger(street: WebhookHost, **more: object) -> str:
    return hook(street, when={"webhook": {"secret": SECRET, "path": "ci/push", **more}})


def test_an_address_is_chosen_below_the_name_of_the_agent(street: WebhookHost) -> None:
    path = create_trigger(street)
    assert path == "/hook/a/ci/push"
    assert street.send_signed(path).status == 202
    (row,) = rows(street.hive.call("a", "list_triggers")["triggers"])
    assert (row["path"], row["explained"]) == (path, f"When POST comes to {path}")


def test_the_address_with_the_id_is_as_good(street: WebhookHost) -> None:
    create_trigger(street)
    (trigger,) = street.hive.ledger.triggers.page(None, 0, 10)
    assert street.send_signed(f"/hook/{trigger.hook}").status == 202


def test_an_address_is_one_trigger_s_and_the_same_one_keeps_it(street: WebhookHost) -> None:
    path = create_trigger(street)
    assert create_trigger(street, methods=["PUT"]) == path
    with pytest.raises(AlreadyExists, match="/hook/a/ci/push is that of"):
        put(street.hive, "root", agent="a", name="mine", action=SAY,
            when={"webhook": {"path": "ci/push"}})  # fmt: skip
    when = {"webhook": {"secret": SECRET, "path": "ci/push"}}
    put(street.hive, "root", agent="a1", name="mine", action=SAY, when=when)
    assert street.send_signed("/hook/a1/ci/push").status == 202
    assert (len(bodies(street.hive, "a1")), bodies(street.hive, "a")) == (1, [])


def test_an_address_goes_with_its_agent_and_is_no_heirloom(street: WebhookHost) -> None:
    path, uuid = create_trigger(street), street.hive.uuid("a")
    street.hive.call("operator", "destroy", agent="a")
    assert street.send_signed(path).status == 404
    street.hive.call("operator", "spawn", name="a", parent="root")
    assert street.send_signed(path).status == 404
    street.hive.call("operator", "destroy", agent="a")
    street.hive.call("operator", "restore", id=uuid)
    start_agent(street.hive, "a")
    assert street.send_signed(path).status == 202


UNFIT = (
    "/x", "x/", "a//b", "..", "a/../b", "a/.b", "%61", "A", "\u00e9", "a b", "a/b/c/d/e", "a?b",
    "a#b", "x" * 65,
)  # fmt: skip


def test_a_path_that_could_be_read_two_ways_is_refused(street: WebhookHost) -> None:
    for path in UNFIT:
        with pytest.raises(InvalidArgument):
            put(street.hive, when={"webhook": {"path": path}})


TRICKS = (
    "/hook/a/ci/./push", "/hook/a/ci//push", "/hook/a/x/../ci/push", "/hook/a/ci/push/",
    "/hook/%61/ci/push", "/hook/a/ci%2fpush", "/hook/a/ci/%70ush", "//hook/a/ci/push",
    "/HOOK/a/ci/push", "/hook/A/ci/push", "http://x/hook/a/ci/push", "/hook/a/ci/push%00",
    "/hook/a/ci/push;x", "/hook/a%2fci/push", "/hook/./a/ci/push", "*",
)  # fmt: skip


def test_an_address_has_no_second_spelling(street: WebhookHost) -> None:
    create_trigger(street)
    assert {path: street.send_signed(path).status for path in TRICKS} == dict.fromkeys(TRICKS, 404)
    assert bodies(street.hive, "a") == []


def test_the_wrong_method_is_told_to_a_caller_that_knows_the_secret(street: WebhookHost) -> None:
    path = create_trigger(street, methods=["PUT", "GET"])
    now = street.hive.clock.now()
    for answer in (street.send_signed(path), street.ask(path, headers=signed_headers(path, now))):
        assert (answer.status, answer.headers["allow"]) == (405, "put, get")
    assert street.ask(path).status == 404
    head = street.ask(path, b"", method="HEAD", headers=signed_headers(path, now, b"", "HEAD"))
    assert head.status == 405


def test_all_but_post_have_to_be_signed_with_all_that_they_say(street: WebhookHost) -> None:
    path = create_trigger(street, methods=["PUT", "GET"])
    now = street.hive.clock.now()
    assert street.send_signed(path, method="PUT").status == 404
    assert street.send_signed(path, b"", method="GET").status == 404
    assert (
        street.ask(path, method="PUT", headers=signed_headers(path, now, method="PUT")).status
        == 202
    )
    asked = f"{path}?ref=main"
    headers = signed_headers(asked, now, b"", "GET")
    assert street.ask(asked, b"", method="GET", headers=headers).status == 202
    assert street.ask(path, b"", method="GET", headers=headers).status == 404
    (fire,) = json.loads(bodies(street.hive, "a")[-1].partition("\n\n")[0])["fires"]
    assert fire["delivery"]["query"] == "ref=main"


def test_a_query_that_is_not_signed_reaches_no_agent(street: WebhookHost) -> None:
    path = create_trigger(street)
    assert street.send_signed(f"{path}?ref=evil").status == 202
    assert "evil" not in bodies(street.hive, "a")[0]


def test_a_strict_one_takes_no_signature_of_the_body_alone(street: WebhookHost) -> None:
    path = create_trigger(street, strict=True)
    (row,) = rows(street.hive.call("a", "list_triggers")["triggers"])
    assert row["explained"] == f"When POST comes to {path}, all of it signed"
    assert street.send_signed(path).status == 404
    assert street.ask(path, headers=signed_headers(path, street.hive.clock.now())).status == 202


CHANGES: tuple[dict[str, Any], ...] = (
    {"body": b"[]"}, {"method": "PUT"}, {"path": "/hook/a1/ci/push"}, {"idempotency_key": "k2"},
    {"idempotency_key": ""}, {"path": "/hook/a/ci/push?x"},
)  # fmt: skip


def test_whatever_is_changed_the_signature_is_none(street: WebhookHost) -> None:
    hook_ = {"secret": SECRET, "path": "ci/push", "methods": ["POST", "PUT"]}
    put(street.hive, when={"webhook": hook_}, action=SAY)
    put(street.hive, "root", agent="a1", when={"webhook": hook_}, action=SAY)
    path, now = "/hook/a/ci/push", street.hive.clock.now()
    headers = signed_headers(path, now, key="k1")
    asked: dict[str, Any] = {"path": path, "body": b"{}", "method": "POST", **headers}
    later = {"hive_timestamp": str(int(now) + 1)}
    for change in (*CHANGES, later):
        assert street.ask(**{**asked, **change}).status == 404, change
    assert street.ask(path, headers=headers).status == 202


def test_a_signature_is_good_for_five_minutes(street: WebhookHost) -> None:
    path, now = create_trigger(street), street.hive.clock.now()
    for off, status in ((-WINDOW - 2, 404), (WINDOW + 2, 404), (WINDOW - 2, 202)):
        assert street.ask(path, headers=signed_headers(path, now + off)).status == status
    for said in ("", "now", "-1", "1" * 13, "\u0661"):
        headers = {**signed_headers(path, now), "hive_timestamp": said}
        assert street.ask(path, headers=headers).status == 404


def test_a_request_that_was_overheard_has_no_effect_again(street: WebhookHost) -> None:
    path = create_trigger(street)
    headers = signed_headers(path, street.hive.clock.now())
    first, again = (street.ask(path, headers=headers) for _ in range(2))
    other = {**headers, "hive_signature": headers["hive_signature"].upper().replace("V1", "v1")}
    assert (first.status, again.status, street.ask(path, headers=other).status) == (202, 200, 200)
    assert first.body == again.body
    street.hive.advance(WINDOW + 2)
    assert street.ask(path, headers=headers).status == 404
    assert len(bodies(street.hive, "a")) == 1


def test_what_was_signed_with_all_is_no_body_of_another_request(street: WebhookHost) -> None:
    """Else its text, sent as a body with the same signature, would be good for ever."""
    path = create_trigger(street)
    now = int(street.hive.clock.now())
    mark = signed_headers(path, now)["hive_signature"].removeprefix("v1=")
    text = f"hive-v1\nPOST\n{path}\n{now}\n\n{{}}".encode()
    for name in ("hive_signature", "x_hub_signature_256"):
        assert street.ask(path, text, headers={name: f"sha256={mark}"}).status == 404


def test_what_decides_stands_in_a_request_once(street: WebhookHost) -> None:
    """A proxy may have looked at the other one."""
    path = create_trigger(street)
    for name in ("hive-signature", "x-hub-signature-256", "hive-timestamp", "idempotency-key"):
        for where in (path, "/hook/nobody/x"):
            data = f"POST {where} HTTP/1.1\r\nhost: x\r\n" + f"{name}: 1\r\n" * 2
            answer = street.raw(f"{data}content-length: 0\r\n\r\n".encode())
            assert answer.startswith(b"HTTP/1.1 400")


def test_a_query_takes_as_long_for_a_present_as_for_an_absent_name(street: WebhookHost) -> None:
    """Else the time that it takes to find and read a secret would say which addresses there are."""
    path, clock = create_trigger(street), street.hive.loop.time
    for asked in (path, "/hook/a/nothing", "/hook/nobody/x"):
        before = clock()
        assert street.ask(asked).status == 404
        assert clock() - before >= EVEN


def test_the_secret_of_another_trigger_opens_nothing(street: WebhookHost) -> None:
    path = create_trigger(street)
    other = "the secret of another trigger"
    put(street.hive, name="other", action=SAY,
        when={"webhook": {"secret": other, "path": "other"}})  # fmt: skip
    assert street.send_signed(path, secret=other).status == 404
    assert street.send_signed("/hook/a/other", secret=other).status == 202
