"""docs/reference/cli.md from the commands: `python -m hive_core.cli.core.reference` writes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from hive_core.cli.core.help import all_commands
from hive_core.cli.main import COMMANDS, hive

FILE: Final = Path(__file__).parents[3] / "docs" / "reference" / "cli.md"
WIDTH: Final = 96
HEAD: Final = """\
# Commands

Generated from the commands by `python -m hive_core.cli.core.reference`; a test keeps it fresh.

`hive` is the operator's command. It speaks [Varlink](operations.md) to the daemon on
`/run/hive/operator.sock`; root and the members of group `hive-operator` may.

- Every listing takes `-o table|wide|json|jsonl|name`. Data goes to standard output, messages to
  standard error. Colours only on a terminal, and never with `NO_COLOR` set.
- On a terminal a table fits its width: the least important columns are left out, and the last one
  is cut. `-o wide` shows everything, as a pipe or a file gets it.
- A DURATION is `90`, `90s`, `5m`, `2h`, `3d`, `1w`, or several as `1h30m`; a size is `512M`.
  Both are printed as they are written. Times are local; the heading of a table names the zone.
- Text that agents wrote is printed with control and direction characters spelled out, as
  `⟨U+001B⟩`; in JSON they are escaped.
- A noun alone lists: `hive task` is `hive task list`, and takes its options. `config`, `phase`,
  `session` and `web` have no list and print their commands, with status 2.
- Commands about agents have two forms: `hive stop NAME` and `hive agent stop NAME`.
- `ls` and `ps` list agents, `rm` is destroy, `exec` is shell; `ls` and `rm` after a noun are its
  list and its way to remove. Names of older releases, such as `approvals`, still work.
- `hive setup` installs completion of commands, options, names and IDs for bash, zsh and fish, and
  the manual pages `hive(1)`, `hive-agent(1)` and `hive.toml(5)`.

| exit status | meaning |
|---|---|
| 0 | done |
| 1 | failed |
| 2 | wrong usage |
| 3 | the agent does not run |
| 4 | no such agent |
| 5 | refused by policy |
| 69 | the daemon, or for `hive model test` the provider, cannot be reached |
| 75 | try again later |
| 124 | waited in vain |
| 130 | interrupted; what was asked for goes on. Or you answered no: nothing was changed |

## JSON outputs

What `-o json` prints has the schema of the operation behind it, in
[operations.json](../../hive_core/cli/operations.json) under `result`; a listing prints the list
in it.

| command | operation | printed |
|---|---|---|
"""
# Command -> operation, and the field of the result that is printed (None: the whole result).
OUTPUTS: Final = {
    "cost": ("get_usage", "sums"),
    "budget list": ("get_usage", "budgets"),
    "budget show": ("get_usage", "budgets"),
    "agent list": ("list_agents", "agents"),
    "status": ("status", None),
    "why": ("why", None),
    "inbox list": ("list_messages", "messages"),
    "queue list": ("list_queues", "queues"),
    "queue take": ("take", "things"),
    "logs": ("get_logs", "lines"),
    "events": ("list_events", "events"),
    "restore": ("list_archives", "archives"),
    "task list": ("list_tasks", "tasks"),
    "task show": ("get_task", None),
    "task assign": ("assign_task", None),
    "plan list": ("list_plans", "plans"),
    "quarantine": ("status", "quarantines"),
    "phase show": ("get_phase", None),
    "turn list": ("list_turns", "turns"),
    "secret list": ("list_secrets", "secrets"),
    "plan show": ("get_plan", None),
    "approval list": ("list_approvals", "approvals"),
    "approval show": ("get_approval", None),
    "trigger list": ("list_triggers", "triggers"),
    "trigger fires": ("list_fires", "fires"),
    "artifact list": ("list_artifacts", "artifacts"),
    "history": ("history", "generations"),
    "converge": ("converge", None),
    "gc": ("gc", "items"),
    "move": ("move", None),
    "survey": ("survey", "agents"),
    "question list": ("list_questions", "questions"),
    "question show": ("get_question", None),
    "escalation list": ("list_questions", "questions"),
    "reminder list": ("list_reminders", "reminders"),
    "role list": ("list_roles", "roles"),
    "tool list": ("list_tools", "tools"),
    "definition list": ("list_definitions", "definitions"),
    "model list": ("list_models", "models"),
    "definition show": ("get_definition", None),
    "meta log": ("meta_log", "commits"),
}
TREE: Final = """
`hive tree` nests the rows of `list_agents`: a list of roots, each `{name, uuid, parent, role,
title, state, activity, children: [...]}`. With `jsonl` and `name` the rows are flat, each agent
before its descendants. `hive task assign --wait` prints the `task` of `get_task` when it has
ended. `hive agent show` prints the result of `get_agent` with `secrets`,
`open_tasks` and `log`. `hive inbox show` and the other commands `show` of a listing print one row
of it; `hive logs` of several agents adds `agent` to each line. `hive status` adds `disk` (bytes
`total` and `free`) and `used` (the `sums` of `get_usage` for today, and the `currency`). `hive
doctor` prints `{check, verdict: ok|warn|fail, detail}`. `hive model calls` prints `seq`, `time`,
`agent` and the fields of each event of kind `model`; `hive model test` prints `{alias, provider,
name, wire, price_known}` and either `error` and `status` (of HTTP), or `text`, `tokens_in`,
`tokens_out`, `estimated`, `cost`, `ttft_ms` and `latency_ms`; `hive model key list` prints `{key,
set_at}`. `hive todo` prints
the rows of the operation of that name, each with `settle`: the command for it. `hive budget group`
prints `{what, kind, used, most, unit, group}` with numbers; null is not measured, or not bounded.
In the rows of `hive cost` time is in seconds, CPU in thousandths of a second, money in millionths.
"""


def _contexts(group: click.Group, context: click.Context) -> Iterator[click.Context]:
    """One context for each command below a group, as if it were being run."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None:
            continue
        below = click.Context(command, context, name, max_content_width=WIDTH)
        yield below
        if isinstance(command, click.Group):
            yield from _contexts(command, below)


def _section(context: click.Context) -> str:
    words, name = context.command_path, context.info_name
    if "agent " in words and name in COMMANDS:
        return f"\n## {words}\n\nThe same as [hive {name}](#hive-{name}).\n"
    return f"\n## {words}\n\n```text\n{context.get_help()}\n```\n"


def reference() -> str:
    """The whole page."""
    rows = [
        f"| `hive {command}` | [{name}](operations.md) | {field or 'the result'} |\n"
        for command, (name, field) in OUTPUTS.items()
    ]
    settings = {**hive.context_settings, "terminal_width": WIDTH, "max_content_width": WIDTH}
    root = click.Context(hive, None, "hive", **settings)
    every = f"\n## hive\n\n```text\n{all_commands(root)}\n```\n"
    sections = map(_section, _contexts(hive, root))
    return HEAD + "".join(rows) + TREE + every + "".join(sections)


if __name__ == "__main__":
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(reference())
