"""`hive web`: secrets are printed once and on standard output, and what ends is named."""

from __future__ import annotations

import pytest
from cli.run import Hive

from hive_core.errors import NotFound
from hive_core.varlink import Message

URL = "http://localhost:4483/login#link_x"


def test_the_first_login_creates_the_account_of_the_operator(
    hive: Hive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    created: list[str] = []

    def link(_: Message) -> Message:
        if not created:
            raise NotFound("no account operator")
        return {"url": URL, "account": "operator", "expires": 1.0}

    def create(params: Message) -> Message:
        created.append(str(params["name"]))
        return {"account": "operator"}

    hive.peer.answers.update({"CreateLoginLink": link, "CreateAccount": create})
    done = hive("web", "login")
    assert (done.status, done.out, done.err) == (0, f"{URL}\n", "")
    assert created == ["operator"]
    assert hive("web", "login").out == f"{URL}\n"
    assert created == ["operator"]


def test_another_account_is_not_made_by_a_login(hive: Hive) -> None:
    def link(_: Message) -> Message:
        raise NotFound("no account alcie")

    hive.peer.answers["CreateLoginLink"] = link
    done = hive("web", "login", "alcie")
    assert (done.status, "no account alcie" in done.err) == (4, True)
    assert hive.peer.params_of("CreateAccount") == []


def test_over_ssh_it_says_how_to_reach_the_page(
    hive: Hive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_CONNECTION", "203.0.113.1 1 203.0.113.2 22")
    hive.peer.answers["CreateLoginLink"] = lambda _: {"url": URL}
    done = hive("web", "login")
    assert "ssh -N -L 4483:localhost:4483 " in done.err
    assert done.out == f"{URL}\n"


def test_a_token_is_all_of_the_output(hive: Hive) -> None:
    hive.peer.answers["CreateToken"] = lambda _: {"token": "token_x", "login": "l1", "expires": 9.0}
    done = hive("web", "token", "ann", "--scope", "viewer", "--days", "7", "--name", "backup")
    assert (done.status, done.out) == (0, "token_x\n")
    assert "login l1" in done.err
    (asked,) = hive.peer.params_of("CreateToken")
    assert (asked["scopes"], asked["days"], asked["name"]) == (["viewer"], 7, "backup")
    assert hive("web", "token", "ann", "--scope", "approver").status == 2


def test_accounts_passkeys_and_logins_are_removed_by_name(hive: Hive) -> None:
    hive.peer.answers.update({
        "CreateAccount": lambda _: {"account": "ann", "scopes": ["viewer"]},
        "RemoveAccount": lambda _: {"removed": "ann"},
        "RemovePasskey": lambda _: {"removed": "key"},
        "EndLogin": lambda _: {"login": "l1", "account": "ann"},
        "SetTotp": lambda _: {"secret": "ABC", "uri": "otpauth://totp/hive%3Aann?secret=ABC"},
    })  # fmt: skip
    assert hive("web", "account", "create", "ann", "--scope", "viewer").status == 0
    assert hive("web", "passkey", "rm", "key").status == 0
    assert hive("web", "logins", "--end", "l1").err == "login l1 of ann has ended\n"
    assert hive("web", "account", "rm", "ann").status == 0
    assert hive("web", "totp", "ann").out == "otpauth://totp/hive%3Aann?secret=ABC\n"
    assert hive.peer.params_of("EndLogin")[0]["login"] == "l1"
