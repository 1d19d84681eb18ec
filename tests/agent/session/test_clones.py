"""Forks on the real loop: the seven invariants of clones (Z13, Q51), refusals, limits and crashes.

Session, sub-agent and runtimes are real processes, the broker is the real one, and the model
follows a script.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from each import for_each
from fixtures.fake_model import Json, ModelAnswer
from fixtures.fork_host import FORK, ForkHost, fork_host, prefixes
from fixtures.session_host import children_of, end_process
from fixtures.world import fields, rows

from hive_core.agent.session.records import encode_record

WIRES = ("chat", "responses", "messages")
REVIEWER = "---\nname: reviewer\ntools: [read, list]\n---\nYou are a REVIEWER.\n"
BAN = 'clone_disable_tools = ["bash", "hide:edit"]'


@pytest.fixture(name="shared", scope="module")
def _shared() -> Iterator[ForkHost]:
    """One session for most tests: it reads its settings at each fork."""
    with fork_host() as host:
        # What the environment says of depths raises and lowers nothing.
        host.session.environment.update({"HIVE_CLONE_DEPTH": "-7", "HIVE_DEPTH": "-7"})
        yield host


@pytest.fixture(name="host")
def _host(shared: ForkHost) -> ForkHost:
    shared.start_over()
    return shared


def system_of(body: bytes) -> str:
    message = rows(json.loads(body)["messages"])[0]
    assert message["role"] == "system"
    return str(message["content"])


def tools_of(body: bytes) -> set[object]:
    return {row["function"]["name"] for row in json.loads(body)["tools"]}


def last_text(body: bytes) -> str:
    """The text of the last message or item: what a clone reads last is the answer of its call."""
    data = json.loads(body)
    last: object = rows(data.get("messages") or data["input"])[-1]
    while not isinstance(last, str):
        if isinstance(last, list):
            last = last[0]
        assert isinstance(last, dict)
        last = next(last[key] for key in ("output", "content", "text") if key in last)
    return last


def files_of(host: ForkHost) -> list[str]:
    folder = host.session.state / "sub"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def replay(host: ForkHost, answer: str) -> bytes:
    """What the parent sends from its log of before, where its call has this answer."""
    session = host.session
    assert session.kill(signal.SIGTERM) == 0
    records = session.records()
    call = next(at for at, row in enumerate(records) if row["t"] == "call")
    result: Json = {
        "t": "result", "turn": 1, "call": records[call]["call"], "content": answer,
        "is_error": False,
    }  # fmt: skip
    log = b"".join(map(encode_record, [*records[: call + 1], result]))
    (session.state / "session/main/log").write_bytes(log)
    before = len(host.model.bodies)
    session.start()
    session.until(lambda: session.records()[-1]["t"] == "closed")
    return host.model.bodies[before]


@pytest.mark.parametrize("wire", WIRES)
def test_the_first_request_of_a_clone_is_the_one_that_its_parent_would_send(wire: str) -> None:
    """Invariant 1, Z2, Z3: streamed through hive-model, with a ban in force.

    The parent is given the answer that its clone was given, and sends the same bytes. What it sends
    otherwise differs in this answer alone: the events of the two calls have one `prefix`.
    """
    with fork_host(wire) as host:
        host.configure('clone_disable_tools = ["bash"]')
        host.run()
        (clone,) = host.sub_bodies()
        parent = host.parent_bodies()[-1]
        assert host.hived is not None
        first, of_clone, of_parent = prefixes(host.hived)
        assert (bool(first[0]), bool(of_clone[0]), bool(of_parent[0])) == (False, True, False)
        assert of_clone[1] == of_parent[1] != first[1]
        assert parent != clone
        assert replay(host, last_text(clone)) == clone


def test_a_clone_has_the_prompt_of_its_parent_and_renders_none(host: ForkHost) -> None:
    """Invariant 1, and the follow-up of others: Z2."""
    host.configure("cleanup_temp_files = false")
    assert host.fork(task="SUBTASK x")["status"] == "success"
    (clone,), parent = host.sub_bodies(), host.parent_bodies()[-1]
    assert system_of(clone) == system_of(parent)
    assert tools_of(clone) == tools_of(parent)
    (log,) = (host.session.state / "sub").glob("*/.session/main/log")
    records = [json.loads(line.split(b" ", 2)[2]) for line in log.read_bytes().splitlines()]
    fork = next(at for at, row in enumerate(records) if row["t"] == "fork")
    assert "system" not in [row["t"] for row in records[fork:]]
    copied = host.session.records()[:fork]
    assert records[:fork] == copied
    shutil.rmtree(host.session.state / "sub")


def test_a_clone_of_a_clone_is_refused_by_the_clone_and_by_the_broker(host: ForkHost) -> None:
    """Invariant 2, Z4: whatever the environment says."""
    again = ModelAnswer(calls=[("again", FORK, {"task": "SUBTASK again"})])
    host.sub_answers = [again, ModelAnswer("refused")]
    assert host.fork()["status"] == "success"
    assert "your clone depth is 1, and max_clone_fork_depth is 1" in last_text(host.sub_bodies()[1])
    host.start_over()
    host.configure("max_clone_fork_depth = 9")  # more than the host allows
    host.sub_answers = [again, ModelAnswer("refused")]
    host.fork()
    said = last_text(host.sub_bodies()[1])
    assert "LimitReached" in said
    assert "max_clone_fork_depth" in said
    assert len(host.sub_bodies()) == 2


def test_a_clone_cannot_call_a_tool_that_is_disabled(host: ForkHost) -> None:
    """Invariant 3, Z5: it sees the tool, unless it is hidden."""
    host.configure(BAN)
    calls = [("a", "bash", {"command": "touch x"}), ("b", "edit", {"path": "y", "new": ""})]
    host.sub_answers = [ModelAnswer(calls=calls), ModelAnswer("so be it")]
    host.fork()
    first, second = host.sub_bodies()
    assert tools_of(host.parent_bodies()[-1]) - tools_of(first) == {"edit"}
    answers = [str(row["content"]) for row in rows(json.loads(second)["messages"])[-2:]]
    assert "tool disabled: bash" in answers[0]
    assert "tool disabled: edit" in answers[1]
    opened = fields(host.subagent_events()[-2])
    tools = opened["tools"]
    assert isinstance(tools, list)
    assert not {"bash", "edit"} & set(tools)  # the broker refuses them too


def test_the_follow_up_stands_behind_the_prompt_of_the_parent(host: ForkHost) -> None:
    """Invariant 4, Z6, Z17: that prompt is an exact prefix."""
    host.configure('clone_sysprompt_followup = "FOLLOW <up>"')
    host.fork()
    (clone,), parent = host.sub_bodies(), host.parent_bodies()[-1]
    assert "## Your workspace" in system_of(parent)
    assert system_of(clone) == system_of(parent) + "\nFOLLOW <up>"


def test_the_task_of_a_clone_has_the_prefix_in_front(host: ForkHost) -> None:
    """Invariant 5, Z7."""
    host.configure('clone_userprompt_prefix = "PREFIX"')
    host.fork(task="SUBTASK é </session>", agent="clone")
    said = last_text(host.sub_bodies()[0])
    assert said.endswith("PREFIX\n\nSUBTASK é &lt;/session>\n")
    assert said.startswith("<session>\nYou are the clone that this call made")


def test_the_result_has_metadata_and_each_fork_its_events(host: ForkHost) -> None:
    """Invariant 6, Z8."""
    result = host.fork()
    assert (result["status"], result["content"], result["error"]) == (
        "success", "one two three", None,
    )  # fmt: skip
    metadata = result["metadata"]
    assert isinstance(metadata, dict)
    assert (metadata["agent"], metadata["model"]) == ("clone", "fake-1")
    assert metadata["provider"]
    assert metadata["usage"] == {"input_tokens": 10, "output_tokens": 5}
    assert metadata["latency_ms"] > 0
    opened, closed = host.subagent_events()[-2:]
    assert (opened["operation"], closed["operation"]) == ("open_subagent", "close_subagent")
    said = fields(closed)["metadata"]
    assert isinstance(said, dict)
    assert said["usage"] == metadata["usage"]
    assert files_of(host) == []


def test_a_named_sub_agent_knows_nothing_of_clones(host: ForkHost) -> None:
    """Invariant 7, Z1, Z10: a fresh prompt, its own tools, and the depth of its place."""
    host.configure(
        'clone_sysprompt_followup = "FOLLOW"\nclone_userprompt_prefix = "PREFIX"\n'
        'clone_disable_tools = ["read"]\nallow_clones = false',
        reviewer=REVIEWER,
    )
    host.sub_answers = [ModelAnswer(calls=[("a", "list", {})]), ModelAnswer("no faults")]
    (host.session.workspace / "parents.txt").write_text("x")
    result = host.fork(agent="reviewer", task="SUBTASK review it")
    assert (result["status"], result["content"]) == ("success", "no faults")
    first, second = host.sub_bodies()
    assert "You are a REVIEWER." in system_of(first)
    assert not {"FOLLOW", "PREFIX", "please fork"} & set(first.decode().split())
    assert tools_of(first) == {"read", "list"}
    assert "parents.txt" in last_text(second)  # it reads the workspace of its parent
    opened = fields(host.subagent_events()[-2])
    assert (opened["depth"], opened.get("clone_depth", 0)) == (1, 0)


def test_a_file_of_another_program_is_forked_with_what_hive_has_of_it(host: ForkHost) -> None:
    """Z1: the result says what was left out; the model is the agent's own."""
    host.configure(
        checker="---\nname: Checker\ntools: Read, Glob, WebFetch\nmodel: sonnet\n---\nCHECKER.\n"
    )
    result = host.fork(agent="checker", task="SUBTASK look")
    assert (result["status"], result["content"]) == ("success", "one two three")
    assert result["warnings"] == [
        "tools: WebFetch: left out: no tool of hive reads the network",
        "model: sonnet: no model of this agent: it has hive-small",
    ]
    assert tools_of(host.sub_bodies()[0]) == {"read", "list"}


def test_a_sub_agent_has_the_skills_of_its_definition_and_the_limits_of_its_parent(
    host: ForkHost,
) -> None:
    """Q47: what a skill takes away from an agent, none of its sub-agents has."""
    for name, head in {"look": "allowed-tools: Read Glob hive_fork_subagent\n", "bees": ""}.items():
        (host.config / "skills" / name).mkdir(parents=True, exist_ok=True)
        (host.config / "skills" / name / "SKILL.md").write_text(
            f"---\nname: {name}\ndescription: About {name}.\n{head}---\nLook.\n"
        )
    host.configure(
        reviewer="---\nskills: [bees]\n---\nYou are a REVIEWER.\n",
        writer="---\ntools: [edit]\n---\nYou WRITE.\n",
    )
    host.calls = [
        ("read_skill", {"name": "look"}), (FORK, {"agent": "reviewer", "task": "SUBTASK a"}),
        (FORK, {"agent": "writer", "task": "SUBTASK b"}), (FORK, {"task": "SUBTASK c"}),
    ]  # fmt: skip
    host.sub_answers = [
        ModelAnswer("seen"), ModelAnswer(calls=[("x", "bash", {"command": "echo hi"})]),
        ModelAnswer("cloned"),
    ]  # fmt: skip
    host.run()
    named, clone, answered = host.sub_bodies()
    assert "About bees." in system_of(named)
    assert "About look." not in system_of(named)
    assert {"read", "list"} <= tools_of(named)
    assert not {"bash", "edit"} & tools_of(named)
    assert "you have no tool edit" in str(host.results()[-2])
    assert "bash" in tools_of(clone)  # the beginning of its request is that of its parent
    assert "tool disabled: bash is not for you" in last_text(answered)


def test_a_definition_with_a_point_for_tools_is_a_clone(host: ForkHost) -> None:
    """Z1."""
    host.configure(twin='---\ntools: "."\n---\n')
    host.fork(agent="twin", task="SUBTASK x")
    assert system_of(host.sub_bodies()[0]) == system_of(host.parent_bodies()[-1])


@for_each(
    "settings, call, reason",
    [
        ("allow_clones = false", (FORK, {"task": "x"}), "allow_clones = false"),
        ("enabled = false", (FORK, {"task": "x", "agent": "reviewer"}), "enabled = false"),
        ("max_dept = 1", (FORK, {"task": "x"}), "[subagents] has no setting 'max_dept'"),
        ("", (FORK, {"task": "x", "agent": "nemo"}), "no sub-agent nemo in agents/; there are: "),
        ("", (FORK, {"task": "x", "agent": "../x"}), "is not the name of a sub-agent"),
        ("", (FORK, {"task": " "}), "task must be a text"),
        ("", (FORK, {"task": "x", "tools": []}), "hive_fork_subagent has no parameter 'tools'"),
        ("", ("hive_delegate", {"task": "x"}), "hive_delegate is now hive_fork_subagent"),
    ],
)
def test_a_fork_is_refused_with_the_reason(
    host: ForkHost, settings: str, call: tuple[str, Json], reason: str
) -> None:
    """Z9, Z12, Z15: and nothing is opened."""
    host.start_over()
    before = len(host.subagent_events())
    host.configure(settings, reviewer=REVIEWER)
    host.calls = [call]
    host.run()
    assert reason in str(host.results())
    assert len(host.subagent_events()) == before


def test_a_sub_agent_is_killed_whole_at_its_time_limit(host: ForkHost) -> None:
    """Z11: its runtime and its programs end with it."""
    host.configure("timeout_seconds = 60")
    words = "echo $$ > pid; exec sleep 601"
    host.sub_answers = [ModelAnswer(calls=[("a", "bash", {"command": words, "seconds": 900})])]
    result = host.fork(task="SUBTASK sleep", timeout_seconds=4)
    assert result["status"] == "error"
    assert "did not end in 4 s and was killed" in str(result["error"])
    assert host.session.runtimes()  # that of the parent
    assert children_of(host.session.server.processes[-1].pid, "--child") == []
    assert sleepers() == []
    assert files_of(host) == []


def sleepers() -> list[int]:
    places = [place for place in Path("/proc").iterdir() if place.name.isdigit()]
    return [int(place.name) for place in places if _command(place) == b"sleep\x00601\x00"]


def end_sleepers() -> None:
    """In a container they have the uid of their sub-agent, and end with it."""
    for pid in sleepers():
        end_process(pid)


def _command(place: Path) -> bytes:
    try:
        return (place / "cmdline").read_bytes()
    except OSError:
        return b""


def test_a_sub_agent_that_is_killed_is_an_error_of_its_call(host: ForkHost) -> None:
    """And no second one is begun."""
    host.sub_answers = [ModelAnswer(calls=[("a", "bash", {"command": "sleep 601"})])]
    opened = len(host.subagent_events())
    host.begin()
    session = host.session.server.processes[-1].pid
    (child,) = host.session.until(lambda: children_of(session, "--child"))
    host.session.until(sleepers)
    assert "NoNewPrivs:\t1" in Path(f"/proc/{child}/status").read_text()
    assert len(host.session.runtimes()) == 2  # its own was forked beside that of its parent
    os.kill(child, signal.SIGKILL)
    host.session.until(lambda: host.session.records()[-1]["t"] == "closed")
    assert len(host.session.runtimes()) == 1
    assert "exited without writing a result" in str(host.results())
    assert len(host.subagent_events()) == opened + 2
    end_sleepers()


def test_a_task_that_is_cancelled_ends_the_sub_agent_of_its_turn(host: ForkHost) -> None:
    host.sub_answers = [ModelAnswer(calls=[("a", "bash", {"command": "sleep 601"})])]
    before = len(host.subagent_events())
    host.start()
    task = host.session.assign("Fork.", context="keep")
    host.session.until(sleepers)
    host.session.world.call("lead", "cancel_task", task=task, reason="not needed")
    host.session.until(lambda: host.session.task(task)["state"] == "cancelled")
    host.session.until(lambda: host.session.records()[-1]["t"] == "closed")
    assert sleepers() == []
    assert fields(host.subagent_events()[-1])["status"] == "cancelled"
    assert len(host.subagent_events()) == before + 2
    assert files_of(host) == []


def test_a_session_that_is_killed_during_a_fork_does_not_fork_again(host: ForkHost) -> None:
    """The call is answered as interrupted, and its sub-agent is closed."""
    host.sub_answers = [ModelAnswer(calls=[("a", "bash", {"command": "sleep 601"})])]
    before = len(host.subagent_events())
    host.begin()
    host.session.until(sleepers)
    session = host.session.server.processes[-1]
    (child,) = children_of(session.pid, "--child")
    session.send_signal(signal.SIGKILL)  # it alone
    session.wait(20)
    host.session.until(lambda: not Path(f"/proc/{child}/cmdline").exists())
    end_sleepers()
    assert len(host.sub_bodies()) == 1
    host.configure("enabled = false")  # what is to be ended asks no configuration
    host.session.start()
    host.session.until(lambda: host.session.records()[-1]["t"] == "closed")
    assert "effect is unknown" in str(host.results())
    assert len(host.sub_bodies()) == 1
    operations = [row["operation"] for row in host.subagent_events()[before:]]
    assert operations == ["open_subagent", "close_subagent"]
    assert files_of(host) == []
