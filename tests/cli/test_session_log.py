"""`hive session`: what it says before it enters a container."""

from __future__ import annotations

import pytest
from cli.run import Hive
from each import for_each

from hive_core.varlink import Message


def answer(hive: Hive, runtime: str, command: list[str]) -> None:
    row: Message = {"name": "bob", "runtime": runtime, "command": command}
    hive.peer.answers |= {
        "GetAgent": lambda _: row, "Locate": lambda _: {"leader": 0, "state": "stopped"},
    }  # fmt: skip


@pytest.mark.parametrize("words", [("log",), ("show",), ("rewind", "--turn", "1")])
@for_each("command, runs", [
    (["sleep", "a day"], "its command is sleep 'a day'"), ([], "it has no command"),
])  # fmt: skip
def test_an_agent_without_a_session_is_named_with_what_it_runs(
    hive: Hive, words: tuple[str, ...], command: list[str], runs: str
) -> None:
    answer(hive, "", command)
    verb, *options = words
    done = hive("session", verb, "bob", *options)
    assert (done.status, done.out) == (4, "")
    assert done.err == (
        "hive: cannot read the session of bob: it has no session, because it has no runtime;"
        f" {runs}. `hive logs bob` shows what it printed\n"
    )


@for_each("runtime, command", [
    ("builtin", ["hive-agent", "session"]), ("claude", ["/srv/start"]),
    ("", ["hive-agent", "session"]), ("", ["sh", "-c", "exec hive-agent session"]),
])  # fmt: skip
def test_an_agent_with_a_session_is_looked_for(
    hive: Hive, runtime: str, command: list[str]
) -> None:
    """It does not run; and who is not root may not enter it."""
    answer(hive, runtime, command)
    done = hive("session", "log", "bob")
    assert done.status in (3, 5)
    assert "cannot read the session of bob: " in done.err
    assert "runtime" not in done.err
