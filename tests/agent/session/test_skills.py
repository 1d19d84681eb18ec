"""Skills on the real loop: which are listed, and what `allowed-tools` takes away (Q47)."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.fake_model import ModelAnswer
from fixtures.session_host import NAME, SessionHost, session_host
from fixtures.world import world
from hypothesis import given
from hypothesis import strategies as st

from hive_core.agent.session.skill_limits import (
    ALWAYS,
    call_refusal,
    denied_tools,
    limit_record,
)
from hive_core.agent.session.state import ToolCall, TurnState

HEAD = "---\nname: {name}\ndescription: About {name}.\n{more}---\nLook first.\n"
OWNED = ("read", "list", "search", "edit", "bash", "spawn", "send", "finish_task", "mcp__gh__get")


@pytest.fixture(name="host")
def _host(tmp_path: Path) -> Iterator[SessionHost]:
    config = tmp_path / "config"
    (config / "skills").mkdir(parents=True)
    with world(None, "root/lead:lead", f"lead/{NAME}:worker") as made, session_host(
        made, tmp_path
    ) as host:  # fmt: skip
        host.environment["HIVE_CONFIG"] = str(config)
        yield host


def write(host: SessionHost, name: str, more: str = "") -> None:
    folder = Path(host.environment["HIVE_CONFIG"]) / "skills" / name
    folder.mkdir()
    (folder / "SKILL.md").write_text(HEAD.format(name=name, more=more))


def run(host: SessionHost, *calls: tuple[str, str, dict[str, object]]) -> dict[object, str]:
    """Have the model make one call after the other in a turn; what each was answered."""
    host.model.script = [*(ModelAnswer(calls=[call]) for call in calls), ModelAnswer("done")]
    host.start()
    host.send("Go.")
    host.until(lambda: "closed" in host.kinds())
    return {row["call"]: str(row["content"]) for row in host.of_kind("result")}


def skill_call(id_: str, name: str) -> tuple[str, str, dict[str, object]]:
    return id_, "read_skill", {"name": name}


def test_a_skill_of_the_host_is_listed_and_read_on_demand(host: SessionHost) -> None:
    host.world.skills["bees"] = HEAD.format(name="bees", more="")
    host.world.skills["queens"] = HEAD.format(name="queens", more="roles: [queen]\n")
    foreign = host.workspace / "skills" / "foreign"
    foreign.mkdir(parents=True)
    (foreign / "SKILL.md").write_text(HEAD.format(name="foreign", more=""))
    results = run(
        host, skill_call("a", "bees"), skill_call("b", "queens"), skill_call("c", "foreign")
    )
    prompt = str(host.of_kind("system")[-1]["text"])
    assert "About bees." in prompt
    assert "Look first." not in prompt
    assert "About queens." not in prompt
    assert "About foreign." not in prompt
    assert results["a"].strip() == "Look first."
    assert results["b"] == "no skill queens; there are: bees"
    assert results["c"] == "no skill foreign; there are: bees"


def test_allowed_tools_take_tools_away_until_the_turn_ends(host: SessionHost) -> None:
    write(host, "look", "allowed-tools: Read, Grep, Bash(echo a:*) spawn\n")
    results = run(
        host, ("before", "bash", {"command": "echo one"}), skill_call("read", "look"),
        ("bash", "bash", {"command": "echo b"}), ("a", "bash", {"command": "echo a"}),
        ("more", "bash", {"command": "echo a; echo b"}), ("list", "list", {}),
        ("edit", "edit", {"path": "x", "new": "y"}), ("spawn", "spawn", {"name": "x"}),
    )  # fmt: skip
    assert results["before"].strip() == "one"
    assert results["a"].strip() == "a"
    for name in ("bash", "more", "list", "edit"):
        assert "the skill look does not allow" in results[name], name
    assert "tool 'spawn' does not exist" in results["spawn"]  # the list gives nothing
    assert not (host.workspace / "x").exists()
    host.model.script += [
        ModelAnswer(calls=[("next", "bash", {"command": "echo two"})]), ModelAnswer("done")
    ]  # fmt: skip
    host.send("And again.")
    host.until(lambda: host.kinds().count("closed") == 2)
    assert str(host.of_kind("result")[-1]["content"]).strip() == "two"


def test_a_session_that_was_killed_in_the_turn_keeps_to_the_skill(host: SessionHost) -> None:
    write(host, "look", "allowed-tools: Bash(sleep:*)\n")
    host.model.script = [
        ModelAnswer(calls=[skill_call("read", "look")]),
        ModelAnswer(calls=[("sleep", "bash", {"command": "sleep 600"})]),
        ModelAnswer(calls=[("bash", "bash", {"command": "echo b"})]), ModelAnswer("done"),
    ]  # fmt: skip
    host.start()
    host.send("Go.")
    host.until(lambda: host.kinds().count("call") == 2)
    host.kill(signal.SIGKILL)
    host.start()
    host.until(lambda: "closed" in host.kinds())
    sleep, refused = (str(row["content"]) for row in host.of_kind("result")[1:])
    assert sleep.startswith("interrupted")
    assert "the skill look does not allow bash" in refused


def turn_with(*texts: str) -> TurnState:
    """A turn that has read one skill for each list."""
    turn = TurnState(1)
    for number, text in enumerate(texts):
        call = ToolCall("a", "read_skill", {"name": f"s{number}"}, "k")
        turn.skill_limits.append(
            limit_record(call, [{"name": f"s{number}", "allowed_tools": text}], OWNED)
        )
    return turn


lists = st.lists(
    st.sampled_from([
        *OWNED, "Read", "Glob", "Bash(git:*)", "Bash(git log *)", "Bash", "*", "WebFetch", "Nope",
        "Bash()", "Bash(*)",
    ]) | st.text("aB(*):, ", max_size=8), max_size=4,
).map(" ".join)  # fmt: skip
commands = st.sampled_from(["git log", "git", "git log -1", "rm x", "git log; rm x", ""])


@given(st.lists(lists, max_size=3), lists, st.sampled_from(OWNED), commands)
def test_no_further_skill_gives_a_tool_back(
    earlier: list[str], further: str, name: str, command: str
) -> None:
    """And what a sub-agent may have is what every call of is allowed."""
    call = ToolCall("a", name, {"command": command}, "k")
    before, after = turn_with(*earlier), turn_with(*earlier, further)
    if call_refusal(before, call, []):
        assert call_refusal(after, call, [])
    assert denied_tools(before, OWNED) <= denied_tools(after, OWNED)
    if name not in denied_tools(after, OWNED):
        assert not call_refusal(after, call, [])
    assert not call_refusal(after, ToolCall("a", "finish_task", {}, "k"), [])
    assert not ALWAYS & denied_tools(after, OWNED)
    if name == "bash" and not call_refusal(turn_with("Bash(git log:*)"), call, []):
        assert command.split()[:2] == ["git", "log"]
        assert ";" not in command
