"""Skills in a container (row Q47): that of the host, one in the workspace, and a limit on tools."""

from __future__ import annotations

import json
from typing import Any

import pytest
from e2e.clone_host import SETTINGS as CLONE_SETTINGS
from e2e.hivehost import HiveHost
from e2e.shared_hosts import SharedHost
from environments import need_environment

pytestmark = pytest.mark.lab

MODELS = """
default = "actor"
[providers.s]
kind = "scripted"
path = "/etc/hive/rules.toml"
[models.actor]
provider = "s"
name = "actor-1"
"""
# The model reads the skill that it is told to, then tries a command, and says what came of it.
RULES = r"""
[[rules]]
on = "text"
match = "read the skill ([a-z]+)"
calls = [{name = "read_skill", arguments = {name = "\\1"}}]
[[rules]]
on = "text"
match = "run it"
calls = [{name = "bash", arguments = {command = "id -u"}}]
[[rules]]
tool = "read_skill"
match = "Look first"
calls = [{name = "bash", arguments = {command = "id -u"}}]
[[rules]]
tool = "read_skill"
match = "(no skill [a-z]+; there are: [a-z]+)"
text = "\\1"
[[rules]]
tool = "bash"
match = "(.+)"
text = "bash said \\1"
"""
SKILL = """---
name: {name}
description: About {name}.
{head}---
Look first.
"""


def skill(name: str, head: str = "") -> str:
    return SKILL.format(name=name, head=head)


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    need_environment("runtime")
    files = {
        "models.toml": MODELS, "rules.toml": RULES,
        "skills/bees/SKILL.md": skill("bees", "allowed-tools: Read, Grep\n"),
        "skills/queens/SKILL.md": skill("queens", "roles: [queen]\n"),
    }  # fmt: skip
    made = shared_host.prepare("clones", CLONE_SETTINGS, files=files)
    made.grow(ann={"role": "worker", "parent": "root", "runtime": "builtin"})
    return made


def run_turn(host: HiveHost, text: str) -> str:
    """Send a letter to the agent; what its turn says."""

    def turns() -> list[dict[str, Any]]:
        return list(host.call("ListTurns", agent="ann")["turns"])

    before = {turn["turn"] for turn in turns()}
    assert not host.call("Send", to="ann", body=text).error
    host.until(lambda: len(turns()) > len(before), "no turn ended", seconds=90)
    (said,) = [str(turn["text"]) for turn in turns() if turn["turn"] not in before]
    return said


def test_a_skill_of_the_host_reaches_those_that_see_it_and_takes_tools_away(host: HiveHost) -> None:
    """Q47: and one that stands in the workspace or the home is nobody's."""
    foreign = skill("foreign")
    for folder in ("work/skills", "work/.claude/skills", "home/.claude/skills"):
        place = f"/agents/ann/state/{folder}/foreign"
        write = f'mkdir -p {place}; printf %s "$1" >{place}/SKILL.md'
        host.inside("ann", "sh", "-ec", write, "sh", foreign)
    for name in ("foreign", "queens"):
        assert run_turn(host, f"read the skill {name}") == f"no skill {name}; there are: bees"
    assert "the skill bees does not allow bash" in run_turn(host, "read the skill bees")
    assert run_turn(host, "run it").split() == ["bash", "said", "1000"]
    text = host.hive("session", "log", "ann", "-o", "jsonl")
    (system,) = [row for row in map(json.loads, text.splitlines()) if row["t"] == "system"]
    assert "About bees." in system["text"]
    assert "Look first." not in system["text"]
    assert "About queens." not in system["text"]
    assert "About foreign." not in system["text"]


def test_a_skill_with_a_fault_stops_a_reload_and_changes_nothing(host: HiveHost) -> None:
    """Q47: the daemon says which file it is."""
    bad = "mkdir -p /etc/hive/skills/bad; cat >/etc/hive/skills/bad/SKILL.md"
    host.run("sh", "-ec", bad, text="no head")
    host.run("systemctl", "reload", "hived", check=False)
    host.until(
        lambda: "bad/SKILL.md has no front matter" in host.run("journalctl", "-u", "hived").stdout,
        "hived does not say what is wrong",
    )
    assert "does not allow bash" in run_turn(host, "read the skill bees")
    host.run("rm", "-r", "/etc/hive/skills/bad")
