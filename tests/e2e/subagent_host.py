"""A host whose models are scripted, for tests of sub-agents: the rules, and what all of them do."""

from __future__ import annotations

import pytest
from e2e.hivehost import HiveHost
from e2e.labhost import Lab
from environments import environment_of

MODELS = """
default = "actor"
[providers.s]
kind = "scripted"
path = "/etc/hive/rules.toml"
[models.actor]
provider = "s"
name = "actor-1"
price_in = 1.0
price_out = 1.0
"""
# Who is told to fork does so; its clone runs one command and says what that printed: its uid, and
# that other sub-agents cannot enter its workspace. The parent repeats the result.
RULES = r"""
[[rules]]
match = "^Scopes that you may write: own"
text = '{"changes": [{"name": "own/preference/length", "text": "Short answers."}]}'
[[rules]]
on = "text"
match = "prepare the heir"
[[rules.calls]]
name = "edit"
[rules.calls.arguments]
path = "skills/bees/SKILL.md"
new = '''
---
name: bees
description: What bees do.
---
Look first.
'''
[[rules.calls]]
name = "edit"
arguments = {path = "skills/bees/notes/find.txt", new = "behind the house"}
[[rules.calls]]
name = "create_colony"
[rules.calls.arguments]
name = "heir"
task = "Know the bees."
skill_path = "skills/bees"
inherit = "full"
[[rules]]
on = "text"
match = "Write down what the bees"
calls = [{name = "bash", arguments = {command = "id"}}]
[[rules]]
tool = "bash"
match = "(without it|disabled|no tool)"
calls = [{name = "finish_task", arguments = {status = "success", summary = "no bash: \\1"}}]
[[rules]]
on = "text"
match = "fork it"
calls = [{name = "hive_fork_subagent", arguments = {task = "count the stars"}}]
[[rules]]
tool = "hive_fork_subagent"
match = '"status": ?"success".*(uid 6\d+)'
text = 'my clone had \1'
[[rules]]
tool = "hive_fork_subagent"
match = "count the stars"
calls = [{name = "bash", arguments = {command = "id -u; stat -c %a-%g ."}}]
[[rules]]
tool = "bash"
match = '(?s)(6[01]\d{3}).*750-1000'
text = 'uid \1'
[[rules]]
on = "text"
match = "use the server"
calls = [{name = "mcp__own__whoami", arguments = {}}]
[[rules]]
tool = "mcp__own__whoami"
match = '(uid \d+ .*)'
text = 'my server had \1'
[[rules]]
on = "text"
match = "fork twice"
calls = [{name = "hive_fork_subagent", arguments = {agent = "outer", task = "OUTER"}}]
[[rules]]
on = "text"
match = "OUTER"
calls = [{name = "bash", arguments = {command = '''
echo mine >secret; cat secret
python3 /run/hive/config/connect.py here.example.org:443 other.example.org:443'''}}]
[[rules]]
tool = "bash"
match = '(?s)mine.*403.*403'
calls = [{name = "hive_fork_subagent", arguments = {agent = "inner", task = "INNER"}}]
[[rules]]
on = "text"
match = "INNER"
calls = [{name = "bash", arguments = {command = '''
id -u; for sub in $(ls /run/hive/sub); do cat ../$sub/secret 2>&1 && echo seen; done
python3 /run/hive/config/connect.py here.example.org:443'''}}]
[[rules]]
tool = "bash"
match = '(?s)(6[01]\d{3})(?!.*seen).*denied.*closed'
text = 'inner \1 alone'
[[rules]]
tool = "hive_fork_subagent"
match = '"content": ?"(inner 6\d+ alone)"'
text = 'outer said \1'
[[rules]]
tool = "hive_fork_subagent"
match = '"content": ?"(outer said [^"]*)"'
text = '\1'
[[rules]]
text = "well"
tokens_in = 100
tokens_out = 20
"""


def make_subagent_host(lab: Lab) -> HiveHost:
    """The host, with agents allowed to reach the addresses below example.org."""
    made = HiveHost(lab)
    made.run("sh", "-c", "mkdir -p /etc/hive; cat >/etc/hive/models.toml", text=MODELS)
    made.run("sh", "-c", "cat >/etc/hive/rules.toml", text=RULES)
    made.setup()
    made.settings('[deploy]\nwindow = 1\n[egress]\nallow = ["*.example.org:443"]\n')
    made.run("sh", "-c", "echo 127.0.0.1 here.example.org >>/etc/hosts")
    made.restart()
    return made


def need_runtime() -> None:
    """A lab without a network has no libraries of models; all else here is tested without them."""
    if environment_of("runtime") is None:
        pytest.skip("what sessions import could not be fetched")
