"""`hive agent show`: everything about one agent on one page."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Final

import click

from hive_core.agent.output import plain
from hive_core.cli.agents.set_agent import show_limits
from hive_core.cli.core.output import Row, block, colour, moment, one, output_option, stamp, words
from hive_core.cli.core.session import Session, complete_agent, entries
from hive_core.cli.core.units import quantity

_TASKS: Final = 10
_COMMAND_MOST: Final = 200


@click.command
@click.argument("name", shell_complete=complete_agent)
@click.option("-n", "--lines", type=click.IntRange(0, 1000), default=5, show_default=True,
              help="Maximum number of log lines.")  # fmt: skip
@output_option
@click.pass_obj
def show(session: Session, name: str, style: str, lines: int) -> None:
    """Show an agent.

    Spec, place in the tree, rights, limits, state and its reason, last exit, tasks, sub-agents,
    log.

    Secrets are shown by name only. The agent wrote the lines of the log.
    """
    row = {
        **session.ask("get_agent", agent=name),
        "secrets": entries(session.ask("list_secrets", agent=name), "secrets"),
        "open_tasks": _open_tasks(session, name),
        "subagents": entries(session.ask("list_subagents", agent=name), "subagents"),
        "log": entries(session.ask("get_logs", agent=name, lines=lines), "lines"),
    }
    one(row, style, "name", lambda: _page(row))


def _open_tasks(session: Session, name: str) -> list[Row]:
    """The open tasks of the agent itself, without those of its descendants."""
    tasks: list[Row] = []
    for task in session.rows("list_tasks", "tasks", agent=name, open=True):
        if task.get("agent") == name:
            tasks.append(task)
        if len(tasks) == _TASKS:
            break
    return tasks


def _fact(label: str, text: str) -> str:
    return f"{label:<13}{text}"


def _page(row: Row) -> Iterator[str]:
    yield from _identity(row)
    yield from _state(row)
    yield from _rights(row)
    yield from _last_end(row.get("last_end"))
    yield from _work(row)
    yield from _subagents(row)
    lines = entries(row, "log")
    yield _fact("log", "last lines:" if lines else "-")
    for line in lines:
        yield f"  {moment(line.get('time'))} {block(str(line.get('text')))}"


def _identity(row: Row) -> Iterator[str]:
    path = row.get("path")
    above = [*path, row.get("name")] if isinstance(path, list) else [row.get("name")]
    title = f"  {words(row.get('title'))}" if row.get("title") else ""
    yield _fact("agent", f"{words(row.get('name'))}{title}")
    yield _fact("uuid", words(row.get("uuid")))
    yield _fact("role", f"{words(row.get('role'))}, {words(row.get('tier'))}")
    yield from _model(row)
    yield _fact("place", " / ".join(map(words, above)))
    yield _fact("children", words(row.get("children")))
    yield _fact("image", words(row.get("image")) + (", with an init" if row.get("boot") else ""))
    yield _fact("command", _command(row.get("command")))
    yield _fact("config", words(row.get("config"))[:12])


def _model(row: Row) -> Iterator[str]:
    """The runtime and the model of the agent, and the other models that it may use."""
    if row.get("runtime"):
        yield _fact("runtime", words(row.get("runtime")))
    own, allowed = row.get("model"), row.get("models")
    models = [str(alias) for alias in allowed] if isinstance(allowed, list) else []
    others = [alias for alias in models if alias != own]
    also = f", and may use {words(others)}" if others else ""
    missing = "" if own in models else " (not in models.toml: calls to it are refused)"
    if own or others:
        yield _fact("model", f"{words(own) if own else '-'}{missing if own else ''}{also}")


def _command(command: object) -> str:
    """The command as a shell reads it; a stored script is named, not printed."""
    parts = [str(word) for word in command] if isinstance(command, list) else []
    text = words(shlex.join(parts)) if parts else "none: mail waits"
    return text if len(text) <= _COMMAND_MOST else f"{text[: _COMMAND_MOST - 1]}…"


def _state(row: Row) -> Iterator[str]:
    state, activity = words(row.get("state")), words(row.get("activity"))
    busy = f", {activity}" if row.get("activity") not in (row.get("state"), "", None) else ""
    yield _fact("state", f"{colour(state)}{busy}")
    if row.get("why"):
        yield _fact("why", words(row.get("why")))
    yield _fact("wanted", f"{words(row.get('wanted'))} since {stamp(row.get('since'))}")
    if row.get("failures"):
        yield _fact("failures", words(row.get("failures")))
    if row.get("next_start") is not None:
        yield _fact("next start", stamp(row.get("next_start")))
    if row.get("restart_needed"):
        yield _fact("spec", f"changed; `hive restart {words(row.get('name'))}` applies it")
    yield _fact("unit", words(row.get("unit")))


def _rights(row: Row) -> Iterator[str]:
    yield _fact("capabilities", words(row.get("capabilities")))
    tools = row.get("tools")
    yield _fact("tools", "those of its role" if tools is None else words(tools))
    if row.get("allow"):
        yield _fact("may write to", words(row.get("allow")))
    secrets = [
        words(secret.get("key")) + ("" if secret.get("readable") else " (not readable)")
        for secret in entries(row, "secrets")
    ]
    yield _fact("secrets", ", ".join(secrets) or "-")
    yield _fact("limits", show_limits(row.get("limits")))
    if row.get("subtree"):
        yield _fact("subtree", show_limits(row.get("subtree")))
    yield _fact("max children", words(row.get("max_children")))


def _last_end(end: object) -> Iterator[str]:
    if not isinstance(end, dict):
        yield _fact("last end", "-")
        return
    code = f", exit status {end['code']}" if end.get("code") is not None else ""
    asked = "" if end.get("asked") else ", unasked"
    yield _fact("last end", f"{stamp(end.get('at'))}: {words(end.get('reason'))}{code}{asked}")
    for line in plain(str(end.get("output") or "")).splitlines():
        yield f"  {line}"


def _work(row: Row) -> Iterator[str]:
    yield _fact("inbox", quantity(row.get("inbox"), "message"))
    yield _fact("tasks", f"{words(row.get('tasks'))} open")
    for task in entries(row, "open_tasks"):
        state = words(str(task.get("state")).replace("_", " "))
        yield f"  {words(task.get('id'))}  {state}  {words(task.get('title'))}"


def _subagents(row: Row) -> Iterator[str]:
    """The open sub-agents of the agent, if any."""
    rows = entries(row, "subagents")
    if rows:
        yield _fact("sub-agents", f"{len(rows)} open")
    for sub in rows:
        calls = f"{quantity(sub.get('model_calls'), 'call')} of models"
        until = f"until {stamp(sub.get('deadline'))}"
        who = f"{words(sub.get('name'))} of {words(sub.get('parent'))}"
        uid = f"uid {words(sub.get('uid'))}"
        yield f"  {words(sub.get('id'))}  {who}, {uid}, {until}, {calls}"
