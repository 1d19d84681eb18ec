"""What the helper answers to calls that are none, without any rights."""

import errno
import json
import os
import socket
import subprocess
import threading
from typing import Any, get_args

import pytest
from each import for_each
from hypothesis import given
from hypothesis import strategies as st

from hive_core.errors import BY_WIRE, TimedOut
from hive_core.plan.actions import Action, MakeNode
from hive_core.plan.results import encode
from hive_core.privd import server, units
from hive_core.varlink import decode
from hive_core.varlink import encode as frame

MAKE_NODE: dict[str, object] = {
    "method": "org.hive.Privd.Apply",
    "parameters": {"action": encode(MakeNode(("0123abcd",)))},
}


def refusal(reply: dict[str, Any]) -> str:
    assert set(reply) == {"error", "parameters"}
    assert reply["error"] in BY_WIRE
    assert decode(frame(reply)[:-1]) == reply  # a client of ours can read it
    return str(reply["error"]).removeprefix("org.hive.Broker.")


def test_every_action_has_its_effect() -> None:
    assert set(server.DO) == set(get_args(Action))


@for_each(
    "call",
    [
        {"method": "org.hive.Privd.Other", "parameters": {"action": encode(MakeNode(("0",)))}},
        {"method": "org.hive.Privd.Apply"},
        {"method": "org.hive.Privd.Apply", "parameters": []},
        {"method": "org.hive.Privd.Apply", "parameters": {"action": {"kind": "Shell"}}},
        {"method": "org.hive.Privd.Apply", "parameters": {"action": {"kind": "MakeNode"}}},
        [],
        None,
    ],
)
def test_what_is_no_action_is_refused(call: object) -> None:
    assert refusal(server.answer(json.dumps(call).encode())) == "InvalidArgument"


def test_the_field_at_fault_is_named() -> None:
    call = {
        "method": "org.hive.Privd.Apply",
        "parameters": {"action": {"kind": "MakeSocketDirectory"}},
    }
    reply: dict[str, Any] = server.answer(json.dumps(call).encode())
    assert reply["parameters"] == {"reason": "is missing", "field": "uuid"}


def test_what_came_in_goes_back_as_something_that_can_be_read() -> None:
    action = {**encode(MakeNode(("0123abcd",))), "\ud800": 1}
    call = {"method": "org.hive.Privd.Apply", "parameters": {"action": action}}
    reply: dict[str, Any] = server.answer(json.dumps(call).encode())
    assert refusal(reply) == "InvalidArgument"
    assert reply["parameters"] == {"reason": "is unknown", "field": r"\ud800"}


def test_a_fault_tells_its_reason_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that took too long carries bytes, which no reply could hold."""

    def hang(_action: object) -> bool:
        raise subprocess.TimeoutExpired(["systemctl"], 30, output=b"\xff")

    monkeypatch.setitem(server.DO, MakeNode, hang)
    call = {
        "method": "org.hive.Privd.Apply",
        "parameters": {"action": encode(MakeNode(("0123abcd",)))},
    }
    reply: dict[str, Any] = server.answer(json.dumps(call).encode())
    assert refusal(reply) == "Internal"
    assert set(reply["parameters"]) == {"reason"}


def test_an_action_of_a_caller_that_gave_up_is_not_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """It decided anew meanwhile: a start that came now might be of a destroyed agent."""
    done: list[object] = []
    monkeypatch.setitem(server.DO, MakeNode, done.append)
    caller, called = socket.socketpair()
    caller.sendall(frame(MAKE_NODE))
    caller.close()
    server.converse(called, os.getuid())
    assert done == []


def test_the_action_of_a_caller_that_waits_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(server.DO, MakeNode, lambda _action: True)
    caller, called = socket.socketpair()
    caller.sendall(frame(MAKE_NODE))
    replies: list[bytes] = []

    def wait() -> None:
        with caller:
            replies.append(caller.recv(1000))

    thread = threading.Thread(target=wait)
    thread.start()
    server.converse(called, os.getuid())
    thread.join()
    assert decode(replies[0][:-1]) == {"parameters": {"result": {"changed": True}}}


def test_an_action_has_no_answer_while_systemd_starts_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such an action is tried again; any other fault fails the job of the agent."""
    said = "Failed: Message recipient disconnected from message bus without replying"
    script = f"echo '{said}' >&2; exit 1"
    monkeypatch.setitem(server.DO, MakeNode, lambda _action: units.act("sh", "-c", script))
    reply: dict[str, Any] = server.answer(json.dumps(MAKE_NODE).encode())
    assert reply == {"error": TimedOut.wire, "parameters": {"reason": f"sh: {said}"}}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_called_so(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def fill(_action: object) -> bool:
        raise OSError(number, os.strerror(number), "node")

    monkeypatch.setitem(server.DO, MakeNode, fill)
    action = encode(MakeNode(("0123abcd",)))
    call = {"method": "org.hive.Privd.Apply", "parameters": {"action": action}}
    assert refusal(server.answer(json.dumps(call).encode())) == "StorageFull"


@given(st.binary(max_size=200) | st.just(b"[" * 100_000) | st.just(b"1" * 5_000))
def test_no_bytes_do_anything(data: bytes) -> None:
    refusal(server.answer(data))
