"""`hive declare`: missing agents are created, existing agents are left."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from agent.broker_server import ROOT, broker_server
from cli.run import Hive
from fixtures.world import world

from hive_core.agent import catalog
from hive_core.errors import NotAllowed
from hive_core.varlink import Message

_SPAWN = catalog.load().get("spawn")
assert _SPAWN is not None
SPAWN = _SPAWN


@pytest.fixture
def spawned(hive: Hive) -> list[Message]:
    messages: list[Message] = []

    def spawn(params: Message) -> Message:
        messages.append({key: value for key, value in params.items() if key != "idempotency_key"})
        return {"name": params["name"], "uuid": "u", "job": "j"}

    hive.peer.answers["Spawn"] = spawn
    return messages


def write_declaration(folder: Path, **agents: object) -> str:
    file = folder / "agents.json"
    file.write_text(json.dumps(agents))
    return str(file)


def test_missing_agents_are_created_parents_first(
    hive: Hive, spawned: list[Message], tmp_path: Path
) -> None:
    file = write_declaration(
        tmp_path, ann={"parent": "zoe", "limits": {"tasks_max": 9}}, zoe={"parent": "alice"}, eve={}
    )
    done = hive("declare", file)
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines() == ["created eve", "created zoe", "created ann"]
    assert spawned == [
        {"name": "eve"}, {"name": "zoe", "parent": "alice"},
        {"name": "ann", "parent": "zoe", "limits": {"tasks_max": 9}},
    ]  # fmt: skip


@pytest.mark.parametrize(("right", "params"), [
    ("network:veth", {"capabilities": ["spawn", "network:veth"]}),
    ("network:lan", {"capabilities": ["network:lan"]}),
    ("network:lan", {"add_capabilities": ["secret:key", "network:lan"]}),
])  # fmt: skip
def test_a_right_without_effect_is_refused_before_any_change(
    hive: Hive, spawned: list[Message], tmp_path: Path, right: str, params: Message
) -> None:
    for more in ((), ("--dry-run",)):
        done = hive("declare", write_declaration(tmp_path, ann={}, zoe=params), *more)
        assert done.status == 2
        assert f"cannot declare zoe: '{right}' has no effect" in done.err
    assert spawned == []


def test_existing_agents_are_left_and_differences_reported(
    hive: Hive, spawned: list[Message], tmp_path: Path
) -> None:
    same = {"parent": "root", "role": "agent", "title": ""}
    done = hive(
        "declare",
        write_declaration(tmp_path, alice=same, bob={"parent": "", "role": "lead"}, root={}),
    )
    assert (done.status, done.out, spawned) == (0, "", [])
    assert done.err.splitlines() == [
        "bob is not changed: parent is alice, declared none",
        "bob is not changed: role is agent, declared lead",
    ]


def test_a_dry_run_creates_nothing(hive: Hive, spawned: list[Message], tmp_path: Path) -> None:
    done = hive("declare", "--dry-run", write_declaration(tmp_path, ann={}, alice={}))
    assert (done.status, done.out, spawned) == (0, "would create ann\n", [])


def test_a_refusal_ends_the_declaration(hive: Hive, tmp_path: Path) -> None:
    def refuse(_: Message) -> Message:
        raise NotAllowed("cannot spawn ann: no")

    hive.peer.answers["Spawn"] = refuse
    done = hive("declare", write_declaration(tmp_path, ann={}, ben={}))
    assert (done.status, done.out, done.err) == (5, "", "hive: cannot spawn ann: no\n")


@pytest.mark.parametrize(("text", "said"), [
    ("[]", "must be a JSON object with one object for each name"),
    ('{"ann": 1}', "must be a JSON object with one object for each name"),
    ("{", "cannot read"),
    ('{"a": {"parent": "b"}, "b": {"parent": "a"}}', "each has a descendant of its own as"),
])  # fmt: skip
def test_an_invalid_file_is_refused(
    hive: Hive, spawned: list[Message], tmp_path: Path, text: str, said: str
) -> None:
    file = tmp_path / "agents.json"
    file.write_text(text)
    done = hive("declare", str(file))
    assert done.status in (1, 2)
    assert said in done.err
    assert spawned == []


PAGE = ROOT / "docs/how-to/declare-agents.md"
# Of the operation `spawn`, what a file cannot say.
NOT_IN_FILE = frozenset({"name", "idempotency_key", "wait"})


def example() -> str:
    (block,) = re.findall(r"```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return str(block)


def test_the_broker_accepts_the_example_of_the_page(tmp_path: Path) -> None:
    file = tmp_path / "agents.json"
    file.write_text(example())
    command = [sys.executable, "-c", "from hive_core.cli.main import main; main()", "--socket"]
    with world() as hive_world, broker_server(hive_world, tmp_path) as server:
        hive_world.call("operator", "allocate_budget", agent="root", kind="tokens", amount=10**7)
        process = subprocess.Popen(
            [*command, server.socket_of("operator"), "declare", str(file)],
            cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        with process:
            server.serve_until(lambda: process.poll() is not None)
            output = process.communicate()[0]
        assert output.splitlines() == ["created planner", "created coder"]
        planner, coder = hive_world.hive.spec("planner"), hive_world.hive.spec("coder")
    assert planner.subtree is not None
    assert (planner.limits.memory_max, planner.subtree.memory_max) == (2 << 30, 8 << 30)
    assert "secret:api-key" in {str(right) for right in planner.capabilities}
    assert hive_world.hive.topology.parent("coder") == "planner"
    assert len(coder.capabilities) == 2


def test_the_page_names_every_field() -> None:
    fields = {flag.name for flag in SPAWN.flags} - NOT_IN_FILE
    text = PAGE.read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| `([a-z_]+)`", text, re.MULTILINE))
    assert rows == fields
    declared = {key for spec in json.loads(example()).values() for key in spec}
    assert declared == fields - {"definition", "profile"}  # the first says what the file does not


def test_an_invalid_size_is_refused(hive: Hive, spawned: list[Message], tmp_path: Path) -> None:
    done = hive("declare", write_declaration(tmp_path, ann={"limits": {"memory_max": "lots"}}))
    assert done.status == 2
    assert "cannot declare ann: limits: " in done.err
    assert spawned == []
