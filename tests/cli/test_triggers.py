"""`hive trigger`: options become the parameters of the call, and a secret is printed once."""

from __future__ import annotations

import io
import sys

import pytest
from cli.run import Hive

SET = {"id": "abc", "next": 0.0, "explained": "At 03:00 every day (UTC)", "path": "", "secret": ""}
FIRE = {
    "id": "f1", "at": 0.0, "due": 0.0, "count": 1, "state": "done", "detail": "", "ref": "",
    "agent": "", "status": "success", "exit": None, "output": "ok\x1b[2J", "duration": 1.0,
}  # fmt: skip
ROW = {
    "id": "abc", "name": "nightly", "agent": "alice", "owner": "operator", "kind": "cron",
    "when": "0 3 * * *", "explained": "At 03:00", "zone": "UTC", "action": "task", "text": "x",
    "missed": "latest", "enabled": True, "next": 0.0, "path": "", "fires": 1, "last": FIRE,
}  # fmt: skip


def test_a_nightly_task_is_set(hive: Hive) -> None:
    hive.peer.answers["SetTrigger"] = lambda _: dict(SET)
    words = ["--zone", "Europe/Berlin", "--action", "task", "--deadline", "60", "--missed", "skip"]
    done = hive("trigger", "set", "alice", "nightly", "look", "--cron", "0 3 * * *", *words)
    assert (done.status, done.out) == (0, "abc\n")
    (asked,) = hive.peer.params_of("SetTrigger")
    assert asked["when"] == {"cron": "0 3 * * *", "zone": "Europe/Berlin"}
    assert asked["action"] == {"kind": "task", "text": "look", "deadline": 60.0}
    assert (asked["agent"], asked["name"], asked["missed"]) == ("alice", "nightly", "skip")
    assert asked["enabled"] is True


def test_a_webhook_secret_comes_from_a_pipe_or_is_shown_once(
    hive: Hive, monkeypatch: pytest.MonkeyPatch
) -> None:
    hive.peer.answers["SetTrigger"] = lambda _: {**SET, "path": "/hook/u", "secret": "made"}
    done = hive("trigger", "set", "alice", "hook", "x", "--webhook", "--method", "PUT")
    assert "secret, shown once: made" in done.err
    assert "/hook/u" in done.err
    monkeypatch.setattr(sys, "stdin", io.StringIO("from a pipe, long enough\n"))
    hive("trigger", "set", "alice", "hook", "x", "--webhook", "--secret-stdin")
    first, second = hive.peer.params_of("SetTrigger")
    assert first["when"] == {"webhook": {"methods": ["PUT"]}}
    assert second["when"] == {"webhook": {"secret": "from a pipe, long enough"}}


def test_a_webhook_address_is_chosen_and_shown(hive: Hive) -> None:
    hive.peer.answers["SetTrigger"] = lambda _: {**SET, "path": "/hook/alice/ci/push"}
    done = hive("trigger", "set", "alice", "hook", "x", "--webhook", "--path", "ci/push",
                "--strict")  # fmt: skip
    assert "address: /hook/alice/ci/push on /" in done.err
    assert "/hooks.sock" in done.err
    assert "hived takes no webhooks yet: set `webhooks = true`" in done.err
    (asked,) = hive.peer.params_of("SetTrigger")
    assert asked["when"] == {"webhook": {"path": "ci/push", "strict": True}}


def test_a_new_agent_is_described(hive: Hive) -> None:
    hive.peer.answers["SetTrigger"] = lambda _: dict(SET)
    hive("trigger", "set", "alice", "n", "sweep", "--every", "60", "--action", "spawn", "--agent",
         "sweeper", "--command", "sleep", "--command", "1", "--off")  # fmt: skip
    (asked,) = hive.peer.params_of("SetTrigger")
    agent = {"name": "sweeper", "role": "task", "command": ["sleep", "1"]}
    assert asked["action"] == {"kind": "spawn", "text": "sweep", "agent": agent}
    assert asked["enabled"] is False


def test_triggers_are_listed_with_fires_and_removed(hive: Hive) -> None:
    hive.peer.answers["ListTriggers"] = lambda _: {"triggers": [ROW], "next": None}
    hive.peer.answers["ListFires"] = lambda _: {"fires": [FIRE]}
    hive.peer.answers["RemoveTrigger"] = lambda _: {"name": "nightly"}
    assert "done, success" in hive("trigger", "list", "alice").out
    assert hive("trigger", "list", "-o", "name").out == "abc\n"
    assert "⟨U+001B⟩" in hive("trigger", "fires", "abc").out
    assert hive("trigger", "rm", "abc", "def").err == "removed nightly\nremoved nightly\n"
