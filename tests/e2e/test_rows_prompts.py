"""What models of agents are told, and which tools they see, on a host: H20, K37, Q9, Q10, T10."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

import pytest
from e2e.hivehost import HiveHost
from e2e.labhost import Lab

pytestmark = pytest.mark.lab

HOLD = ["hive-agent", "hold"]
OWN = "/etc/hive/prompts/roles/worker.md"


@pytest.fixture(scope="module")
def host(lab: Lab) -> Iterator[HiveHost]:
    made = HiveHost(lab)
    made.setup()
    # They hold, so that the containers run without a model.
    made.grow(boss={"definition": "lead", "command": HOLD})
    made.grow(hand={"parent": "boss", "definition": "worker", "command": HOLD})
    yield made
    made.close_connections()


def render(host: HiveHost, name: str) -> str:
    """The prompt of a new conversation; checked against its digest."""
    done = host.run("hive", "prompt", "render", name, "--new")
    assert f"sha256 {hashlib.sha256(done.stdout.encode()).hexdigest()}" in done.stderr
    return done.stdout


def test_setup_stores_the_definitions_that_come_with_hive(host: HiveHost) -> None:
    """K33, K34, K35, K36."""
    names = host.run("hive", "definition", "list", "-o", "name").stdout.split()
    assert names == ["architect", "lead", "maid", "queen", "worker"]


def test_each_agent_is_told_its_place_and_its_own_tools(host: HiveHost) -> None:
    """H20, T10, Q9."""
    boss, hand = render(host, "boss"), render(host, "hand")
    assert "Role: lead" in boss
    assert "`assign_task`" in boss
    assert "`bash`" not in boss
    assert "Parent: boss." in hand
    assert "`bash`" in hand
    assert "/agents/hand/state/work" in hand
    tools = json.loads(host.inside("hand", "hive-agent", "list-toolset", "-o", "json"))["tools"]
    assert all(f"`{row['name']}`" in hand for row in tools if row["name"] != "read_skill")


def test_the_same_agent_is_told_the_same_bytes(host: HiveHost) -> None:
    """Q10."""
    assert render(host, "hand") == render(host, "hand")


def test_a_prompt_of_the_operator_counts_after_a_reload(host: HiveHost) -> None:
    host.run("mkdir", "-p", OWN.rpartition("/")[0])
    host.run("sh", "-c", f"echo 'You work for {{{{ parent }}}}.' >{OWN}")
    try:
        host.run("systemctl", "reload", "hived")
        host.until(
            lambda: "You work for boss." in render(host, "hand"), "the prompts were not read again"
        )
        assert OWN.rpartition("/roles")[0] in host.run("hive", "prompt", "list").stdout
    finally:
        host.run("rm", "-r", "/etc/hive/prompts")
        host.run("systemctl", "reload", "hived")
    host.until(lambda: "to execute" in render(host, "hand"), "the prompts were not read again")


def test_the_tools_of_files_work_in_the_container(host: HiveHost) -> None:
    """K37."""
    write = "echo one >notes.txt && hive-agent tool edit notes.txt --old one --new two"
    host.inside("hand", "sh", "-c", f"cd /tree/state && {write}")
    assert "notes.txt (4 bytes)" in host.inside("hand", "hive-agent", "tool", "list")
    lines = host.inside("hand", "hive-agent", "tool", "search", "t.o")
    assert lines.strip() == "notes.txt:1: two"
    host.inside("hand", "hive-agent", "tool", "undo", "notes.txt")
    assert host.inside("hand", "cat", "/tree/state/notes.txt") == "one\n"
    refused = host.enter("boss", "hive-agent", "tool", "list", check=False)
    assert refused.returncode == 5
    assert "you plan and delegate" in refused.stderr
