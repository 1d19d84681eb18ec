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


@pytest.mark.parametrize("words", [("token", "create"), ("token",)], ids=" ".join)
def test_a_token_is_all_of_the_output(hive: Hive, words: tuple[str, ...]) -> None:
    """`hive web token ann` is the form of older releases."""
    hive.peer.answers["CreateToken"] = lambda _: {"token": "token_x", "login": "l1", "expires": 9.0}
    options = ("--scope", "viewer", "--days", "7", "--name", "backup")
    done = hive("web", *words, "ann", *options)
    assert (done.status, done.out) == (0, "token_x\n")
    assert "login l1" in done.err
    (asked,) = hive.peer.params_of("CreateToken")
    assert (asked["scopes"], asked["days"], asked["name"]) == (["viewer"], 7, "backup")
    assert hive("web", *words, *options, "ann").out == "token_x\n"
    assert hive("web", *words, "ann", "--scope", "approver").status == 2


def test_token_lists_tokens_and_totp_the_accounts_with_codes(hive: Hive) -> None:
    hive.peer.answers["ListLogins"] = lambda _: {
        "logins": [{"login": "l1", "via": "token"}, {"login": "l2", "via": "link"}]
    }
    hive.peer.answers["ListAccounts"] = lambda _: {
        "accounts": [{"account": "ann", "totp": True}, {"account": "bob", "totp": False}]
    }
    assert hive("web", "token", "-o", "name").out == "l1\n"
    assert hive("web", "token", "list", "ann", "-o", "name").out == "l1\n"
    assert hive.peer.params_of("ListLogins")[1] == {"account": "ann"}
    assert hive("web", "session", "-o", "name").out == "l1\nl2\n"
    assert hive("web", "totp", "-o", "name").out == "ann\n"
    assert hive.peer.params_of("SetTotp") == []


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
    ends = ("session", "end"), ("session", "rm"), ("token", "rm"), ("logins", "--end")
    for words in ends:
        assert hive("web", *words, "l1").err == "login l1 of ann has ended\n"
    assert hive("web", "account", "rm", "ann").status == 0
    for totp in (("totp", "set"), ("totp",)):
        assert hive("web", *totp, "ann").out == "otpauth://totp/hive%3Aann?secret=ABC\n"
    assert [asked["login"] for asked in hive.peer.params_of("EndLogin")] == ["l1"] * len(ends)
