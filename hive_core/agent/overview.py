"""The texts of `hive-agent help`: the common commands, or all commands by subject."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from hive_core.agent.catalog import Catalog
from hive_core.agent.layout import fold

# In the order of the help. A command that is in no section comes under "More"; operations of the
# operator alone are listed at the end.
SECTIONS: Final = {
    "Agents": "whoami list_agents get_worker_status spawn start stop restart kill sleep resume"
    " update move destroy wait_child survey reap_zombies list_roles get_logs quarantine",
    "Mail": "send recv ack nack list_messages wait_reply inject_message wake exchange serve hold",
    "Questions": "ask ask_user answer get_question list_questions relay_question cancel_question"
    " escalate remind list_reminders cancel_reminder loose_ends",
    "Tasks": "assign_task spawn_agent_and_assign_task get_task list_tasks watch_task"
    " begin_task report_progress finish_task judge_task cancel_task resume_task fund_task"
    " stop_work",
    "Plans": "create_plan update_plan_step get_plan list_plans approve_plan reject_plan",
    "Waits and batches": "wait_for list_waits cancel_wait wait_tasks run_parallel_workers"
    " get_batch list_batches",
    "Triggers": "set_trigger list_triggers list_fires remove_trigger",
    "Topics, queues and pipes": "publish follow_topic unfollow_topic list_topics subscribe"
    " open_queue put take list_queues close_queue open_pipe write_pipe read_pipe list_pipes"
    " close_pipe",
    "Artifacts": "artifact store_artifact begin_artifact append_artifact get_artifact"
    " list_artifacts delete_artifact",
    "Tools": "tool mcp gate list_tools list_toolset use_tool end_tool prompt get_prompts get_skill",
    "Budgets": "get_usage report_usage allocate_budget",
    "Models": "list_models forward",
    "Configuration": "config init_config request_apply_commit request_update_meta_inputs"
    " get_approval list_approvals history watch_config get_definition list_definitions"
    " list_credentials report_expired_credential",
    "State and events of an agent": "keep_snapshot get_snapshot note_event hello report_activity",
    "Turns of a session": "list_turns watch_turn stream_turn keep_turn",
    "Sub-agents": "open_subagent close_subagent list_subagents",
    "Phases of a queen": "get_phase run_agent_with_input stop_worker switch_to_reviewing"
    " create_colony get_colony",
    "Jobs": "get_job list_jobs wait_job",
    "Agents that come with hive": "worker lead queen maid attend session",
    "Other": "call version",
}
OPERATOR: Final = "the operator"
SERVICES: Final = frozenset({
    "hive-model, the service that calls models for agents",
    "hive-egress, the service that connects agents to the internet",
})  # fmt: skip
_LEAST: Final = 20  # columns for a text, however narrow the terminal is


def common_commands(
    catalog: Catalog, own: Mapping[str, str], shorts: Mapping[str, str], names: Iterable[str]
) -> Iterator[str]:
    """The lines of the short help: the commands that most programs need, in this order."""
    texts = {**own, **{entry.name: entry.summary for entry in catalog}}
    yield ""
    for name in names:
        yield from _fold_entry(shorts.get(name, _command(name)), texts[name], 12)


def overview(catalog: Catalog, own: Mapping[str, str], shorts: Mapping[str, str]) -> Iterator[str]:
    """The lines of the long help. `own` commands are not operations; `shorts` are second names."""
    texts = dict(own)
    for entry in catalog:
        also = f" Also `{shorts[entry.name]}`." if entry.name in shorts else ""
        texts[entry.name] = entry.summary + also
    apart = [entry.name for entry in catalog if entry.entry.get("who") == OPERATOR]
    # Operations of the host's own services are of no use to a program in a container.
    hidden = {entry.name for entry in catalog if entry.entry.get("who") in SERVICES}
    placed = {*apart, *hidden, *(name for names in SECTIONS.values() for name in names.split())}
    more = " ".join(sorted(set(texts) - placed))
    for heading, names in {**SECTIONS, "More": more}.items():
        if names:
            yield from ("", f"{heading}:")
            for name in names.split():
                yield from _fold_entry(_command(name), texts[name], 22)
    yield from ("", "For the operator only, with `hive`:")
    yield from _wrap(map(_command, sorted(apart)))


def _command(name: str) -> str:
    return name.replace("_", "-")


def _fold_entry(name: str, text: str, column: int) -> Iterator[str]:
    """A command and its text beside it; below it where the name is longer than its column."""
    indent = " " * (column + 3)
    width = shutil.get_terminal_size().columns
    lines = fold(text, max(width - len(indent), _LEAST), len(text))
    first = f"  {name:<{column}} "
    if len(first) > len(indent):
        yield f"  {name}"
        first = indent
    yield from (f"{indent if number else first}{line}" for number, line in enumerate(lines))


def _wrap(words: Iterator[str]) -> Iterator[str]:
    line, width = " ", shutil.get_terminal_size().columns
    for word in words:
        if len(line) + len(word) >= width:
            yield line
            line = " "
        line += f" {word}"
    yield line
