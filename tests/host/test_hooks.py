"""Webhooks: signed, once for each key, and no information for other senders (Q32)."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest
from fixtures.webhooks import (  # noqa: F401
    GROUP,
    SECRET,
    WebhookHost,
    _street,
    hook,
    hooks_of,
    sign,
    signed_headers,
)
from fixtures.world import rows, world
from operations.test_triggers import DO, bodies, fires, put

from hive_core.errors import Internal
from hive_core.host.sockets.webhooks import BODY_MOST
from hive_core.model.config.settings import Settings


def test_what_is_signed_reaches_the_agent_as_data_with_where_it_came_from(
    street: WebhookHost,
) -> None:
    path = hook(street)
    answer = street.send_signed(
        path, b'{"push": 1}', content_type="application/json", hive_delivery="d1"
    )
    assert answer.status == 202
    (body,) = bodies(street.hive, "a")
    head, text, data = body.split("\n\n", 2)
    (fire,) = json.loads(head)["fires"]
    assert fire["fire"] == json.loads(answer.body)["fire"]
    assert fire["delivery"] == {
        "key": "d1", "type": "application/json", "encoding": "utf-8", "bytes": 11,
    }  # fmt: skip
    assert text == "look at the queue"
    assert data.endswith('not an order of an agent.\n{"push": 1}')


def test_github_s_header_is_as_good(street: WebhookHost) -> None:
    path = hook(street)
    body = b"payload=%7B%7D"
    assert street.ask(path, body, x_hub_signature_256=sign(body)).status == 202


def test_a_repeated_delivery_is_the_same_fire(street: WebhookHost) -> None:
    path = hook(street)
    first = street.send_signed(path, idempotency_key="k1")
    again = street.send_signed(path, idempotency_key="k1")
    other = street.send_signed(path, b"[]", idempotency_key="k1")
    assert (first.status, again.status, other.status) == (202, 200, 202)
    assert first.body == again.body != other.body
    assert len(bodies(street.hive, "a")) == 2
    street.hive.advance(7 * 86_400 + 1)
    assert street.send_signed(path, idempotency_key="k1").status == 202


@pytest.mark.parametrize(
    "more",
    [
        {}, {"idempotency_key": "k2"}, {"hive_delivery": "k1"}, {"x_github_delivery": "k2"},
        {"hive_timestamp": "1"}, {"content_type": "text/plain"},
        {"hive_signature": "", "x_hub_signature_256": sign(b"{}")},
        {"hive_signature": sign(b"{}").upper().replace("SHA256", "sha256")},
    ],
)  # fmt: skip
def test_what_is_signed_by_its_body_alone_is_not_sent_again_under_another_key(
    street: WebhookHost, more: dict[str, str]
) -> None:
    """The key is not signed: who overhears the request could choose one."""
    path = hook(street)
    first = street.send_signed(path, idempotency_key="k1")
    headers = {"hive_signature": sign(b"{}"), **more}
    again = street.ask(path, headers=headers)
    assert (first.status, again.status) == (202, 200)
    assert again.body == first.body
    assert street.ask(f"{path}?other=1", headers=headers).body == first.body
    assert len(bodies(street.hive, "a")) == 1


def test_the_key_of_a_request_that_is_signed_as_a_whole_tells_a_repeat(street: WebhookHost) -> None:
    """It is signed too: the same body under another key is another fire."""
    path, now = hook(street), street.hive.clock.now()
    keys = ("k1", "k1", "k2")
    answers = [street.ask(path, headers=signed_headers(path, now, key=key)) for key in keys]
    assert [answer.status for answer in answers] == [202, 200, 202]
    assert len(bodies(street.hive, "a")) == 2


def test_what_was_delivered_is_known_to_the_next_daemon(street: WebhookHost) -> None:
    path, hive = hook(street), street.hive
    first = street.send_signed(path, idempotency_key="k1")
    hive.kill()
    again = hooks_of(hive)
    hive.loop.run_until_complete(again.listen(street.path, GROUP))
    second = street.send_signed(path, idempotency_key="k1")
    assert (first.status, second.status, first.body) == (202, 200, second.body)
    assert len(bodies(hive, "a")) == 1
    again.close()


def test_a_caller_without_a_right_gets_one_and_the_same_answer(street: WebhookHost) -> None:
    path = hook(street)
    off = hook(street, name="off", enabled=False)
    unknown = path[:-12] + "000000000000"
    answers = [
        street.ask(path),
        street.ask(path, hive_signature="sha256=" + "0" * 64),
        street.ask(path, hive_signature="ß" * 5),
        street.send_signed(path, secret="another secret than that"),  # noqa: S106 - of this test
        street.ask(path, method="PUT"),
        street.send_signed(unknown),
        street.send_signed(unknown, secret="\0" * 32),
        street.send_signed(off),
        street.send_signed("/hook/..%2f..%2fetc"),
        street.send_signed("/hook/x"),
        street.send_signed("/"),
        street.ask(path, method="OPTIONS"),
        street.send_signed(path + "/"),
        street.send_signed("/hook/a/nothing"),
        street.send_signed("/hook/nobody/nothing"),
    ]
    assert [answer.status for answer in answers] == [404] * len(answers)
    assert {answer.body for answer in answers} == {b""}
    assert len({str(sorted(answer.headers.items())) for answer in answers}) == 1
    assert bodies(street.hive, "a") == []


def test_a_body_has_a_bound_whatever_its_header_says(street: WebhookHost) -> None:
    path = hook(street)
    most = b"x" * BODY_MOST
    assert street.send_signed(path, most).status == 202
    assert len(bodies(street.hive, "a")[0]) > BODY_MOST
    assert street.send_signed(path, most + b"x").status == 413
    chunks = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n".encode()
    assert street.raw(head + chunks * 2).startswith(b"HTTP/1.1 413")
    assert street.raw(b"GET / HTTP/1.1\r\nx: " + b"y" * 70_000).startswith(b"HTTP/1.1 400")


def test_bytes_that_are_no_text_come_in_base64(street: WebhookHost) -> None:
    path = hook(street)
    assert street.send_signed(path, b"\xff\x00").status == 202
    (body,) = bodies(street.hive, "a")
    assert json.loads(body.partition("\n\n")[0])["fires"][0]["delivery"]["encoding"] == "base64"
    assert body.endswith("/wA=")


def test_a_secret_that_is_made_here_is_told_once_and_stands_nowhere_but_in_the_vault(
    street: WebhookHost,
) -> None:
    said = put(street.hive, when={"webhook": {}})
    made, path = str(said["secret"]), str(said["path"])
    assert len(made) >= 40
    assert street.send_signed(path, secret=made).status == 202
    again = put(street.hive, when={"webhook": {}})
    assert (again["secret"], again["path"]) == ("", path)
    assert street.send_signed(path, b"[]", secret=made).status == 202
    listed = json.dumps(rows(street.hive.call("a", "list_triggers")["triggers"]))
    files = b"".join(path.read_bytes() for path in street.hive.folder.glob("hive.db*"))
    assert made not in listed
    assert made.encode() not in files
    assert made not in json.dumps(street.hive.events())


def test_a_new_secret_ends_the_old_one_and_the_vault_keeps_no_rest(street: WebhookHost) -> None:
    path = hook(street)
    new = {"webhook": {"secret": "another secret of it"}}
    assert put(street.hive, when=new)["path"] == path
    street.hive.advance(1)
    assert street.send_signed(path).status == 404
    assert street.send_signed(path, secret="another secret of it").status == 202  # noqa: S106
    assert len(street.hive.vault.keys(path.removeprefix("/hook/"))) == 1
    trigger = rows(street.hive.call("a", "list_triggers")["triggers"])[0]["id"]
    street.hive.call("operator", "gc")
    assert street.send_signed(path, b"[]", secret="another secret of it").status == 202  # noqa: S106
    street.hive.call("a", "remove_trigger", trigger=trigger)
    street.hive.advance(1)
    assert street.send_signed(path, secret="another secret of it").status == 404  # noqa: S106
    assert street.hive.vault.holders() == []


def test_an_agent_that_had_enough_in_this_minute_is_spared_and_the_sender_told(
    tmp_path: Path,
) -> None:
    settings = Settings.model_validate({"triggers": {"fires": 3}})
    with world(settings, "root/a") as hive:
        hooks = hooks_of(hive)
        hive.loop.run_until_complete(hooks.listen(tmp_path / "s", GROUP))
        street = WebhookHost(hive, tmp_path / "s")
        path = hook(street)
        bodies_ = [f"[{number}]".encode() for number in range(4)]
        assert [street.send_signed(path, body).status for body in bodies_] == [202, 202, 202, 429]
        assert 1 <= int(street.send_signed(path, bodies_[3]).headers["retry-after"]) <= 61
        hive.advance(61)
        assert street.send_signed(path, bodies_[3]).status == 202
        hooks.close()


def test_while_the_task_of_the_last_one_is_open_the_sender_is_told_to_come_again(
    street: WebhookHost,
) -> None:
    path = hook(street, action=DO)
    assert street.send_signed(path, b"first", idempotency_key="1").status == 202
    assert street.send_signed(path, b"second", idempotency_key="2").status == 429
    trigger = rows(street.hive.call("a", "list_triggers")["triggers"])[0]["id"]
    (fire,) = fires(street.hive, trigger)
    task = street.hive.ledger.tasks.require(str(fire["ref"]))
    assert task.request.data is not None
    delivery = task.request.data["delivery"]
    assert isinstance(delivery, dict)
    assert delivery["body"] == "first"


def test_one_that_lost_the_right_is_answered_like_one_that_never_had_it(
    street: WebhookHost,
) -> None:
    path = hook(street)
    street.hive.call("operator", "revoke_capability", agent="a", capability="trigger")
    assert street.send_signed(path).status == 404
    assert bodies(street.hive, "a") == []


def test_a_slow_peer_is_not_waited_for(tmp_path: Path) -> None:
    with world(None, "root/a") as hive:
        hooks = hooks_of(hive, 0.2)
        hive.loop.run_until_complete(hooks.listen(tmp_path / "s", GROUP))
        street = WebhookHost(hive, tmp_path / "s")
        slow = f"POST {hook(street)} HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nabc"
        for data in (b"", b"POST /ho", slow.encode()):
            assert b"202" not in street.raw(data)
        hooks.close()


def test_nothing_of_a_body_is_logged(street: WebhookHost, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    path = hook(street)
    street.send_signed(path, b"the word is marzipan")
    street.ask(path, b"the word is marzipan")
    assert "marzipan" not in caplog.text


def test_the_socket_belongs_to_the_group_alone(street: WebhookHost) -> None:
    status = street.path.stat()
    assert (status.st_mode & 0o777, status.st_gid) == (0o660, os.getgid())


def test_a_group_that_is_not_there_is_said(tmp_path: Path) -> None:
    with world() as hive:
        hooks = hooks_of(hive)
        with pytest.raises(Internal, match="cannot listen"):
            hive.loop.run_until_complete(hooks.listen(tmp_path / "s", "no-such-group"))
        assert not (tmp_path / "s").exists()
