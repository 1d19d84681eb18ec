"""What a turn tells the runtime: model, tools, limits, prompt context, and the reminder."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from hive_core.agent.prompt_context import phase_values, prompt_sources, skill_reader, skills_folder
from hive_core.agent.reconnect import BatchedCall, Link
from hive_core.agent.session.conversation import OpenConversation
from hive_core.agent.session.inputs import reminder_text
from hive_core.agent.session.model_socket import ModelInfo, ModelsRequest
from hive_core.agent.session.records import Record
from hive_core.agent.session.runtimes.cli_dialect import SERVED_NAME_MOST
from hive_core.agent.session.services import SessionServices
from hive_core.agent.session.skill_limits import skill_rows
from hive_core.agent.session.state import TurnState
from hive_core.agent.session.toolset import SERVER_TOOL, KnownTools, ModelToolset
from hive_core.agent.skills import CONFIGURATION
from hive_core.agent.task_run import mapping
from hive_core.agent.tool_input import READ_SKILL
from hive_core.varlink import Message


class RequestPurpose(Enum):
    """What a request is for. Only one for WORK may call tools."""

    WORK = "work"
    SUMMARY = "summary"
    HAND_BACK = "hand back"


ROUNDS: Final = 15
ROUNDS_QUEEN: Final = 30
_ENDS: Final = 20
# What the session asks at the beginning of a turn, each group in one batch.
_FACTS: Final = (BatchedCall("whoami", {}), BatchedCall("get_prompts", {}))
_REMINDER: Final = (
    BatchedCall("get_usage", {}, optional=True),
    BatchedCall("loose_ends", {"recursive": False}, optional=True),
    BatchedCall("list_credentials", {}, optional=True),
)


@dataclass(frozen=True, slots=True)
class TurnContext:
    """The facts of one run of a turn."""

    model: ModelInfo
    toolset: ModelToolset
    identity: Message
    prompt: Mapping[str, object]
    rounds: int
    payer: str = ""  # the task that pays for a sub-agent, which has none
    system_template: str = ""  # of a named sub-agent
    locked: bool = False  # of an agent with a CLI: none of its tools of execution may run now
    reminder: str = ""  # the dated facts, where they were asked for

    @classmethod
    def read(
        cls, services: SessionServices, link: Link, *, with_reminder: bool = False
    ) -> TurnContext:
        """Ask the broker who this agent is and which tools it has, and hive-model for its model."""
        known = services.tools
        calls = (known.call(), *_FACTS, *(_REMINDER if with_reminder else ()))
        with ModelsRequest(services.runtime.model_socket) as models:
            tools, identity, prompts, *facts = services.ask_together(link, calls)
            model = models.find(str(identity.get("model") or ""))
        tools = known.complete(tools)
        services.tools = KnownTools.of(tools)
        toolset = ModelToolset.of(tools)
        if services.servers is not None and toolset.server_entries:
            toolset = toolset.with_servers(
                tool for tool in services.servers.tools()
                if services.cli is None or len(tool.name) <= SERVED_NAME_MOST
            )  # fmt: skip
        rounds = services.settings.rounds or (
            ROUNDS_QUEEN if toolset.profile == "queen" else ROUNDS
        )
        return cls(
            model, toolset, identity, prompt_values(services, link, identity, toolset, prompts),
            rounds, locked=services.cli is not None and _is_locked(services, link),
            reminder=_dated_facts(identity, facts) if facts else "",
        )  # fmt: skip

    def rounds_left(self, turn: TurnState) -> int:
        """How many requests with all tools the turn may still make."""
        return max(0, self.rounds - turn.rounds)

    def template(self, name: str, **more: object) -> Message:
        """An input that the runtime renders from a prompt template."""
        return {"kind": name, "template": name, "context": {**self.prompt, **more}}

    def input_line(self, row: Record) -> Message:
        """An input as the runtime gets it; a `note` is rendered behind the text of its letter."""
        line: Message = {"kind": row.get("kind"), "text": row["text"]}
        note = str(row.get("note") or "")
        if not note:
            return line
        return {**line, "note": self.template(note, letter=row.get("letter"))}

    def turn_line(
        self, inputs: Sequence[Message], results: Mapping[str, object], *, rounds: int,
        conversation: OpenConversation, purpose: RequestPurpose = RequestPurpose.WORK,
    ) -> Message:  # fmt: skip
        """The `turn` line of the child protocol, without its history."""
        state = conversation.state
        task = state.turn.task if state.turn else ""
        reports = task and purpose is RequestPurpose.WORK
        system: Message = {"text": state.system}
        if not state.system:
            system = {"context": dict(self.prompt), "template": self.system_template}
        return {
            "type": "turn", "turn": state.turns, "system": system, "results": dict(results),
            "input": list(inputs),
            "tools": self.toolset.rows, "deny": {}, "model": self.model.alias,
            "wire": self.model.wire, "context": self.model.context,
            "settings": {
                "rounds": rounds, "report": self.toolset.report if reports else "",
                "last": self._last_input(task, purpose), "task": task or self.payer,
                "hands_back": purpose is RequestPurpose.HAND_BACK,
                "max_output": self.model.max_output, "name": self.model.name,
                "conversation": state.key("cache"),
            },
        }  # fmt: skip

    def _last_input(self, task: str, purpose: RequestPurpose) -> Message:
        """What the last request of a task says beside its inputs."""
        if not task or purpose is RequestPurpose.SUMMARY:
            return {}
        reason = "rounds" if purpose is RequestPurpose.WORK else "budget"
        return self.template("hand_back", reason=reason, task=task)


def prompt_values(
    services: SessionServices, link: Link, identity: Message, toolset: ModelToolset,
    prompts: Message,
) -> Mapping[str, object]:  # fmt: skip
    """What prompts are rendered from; what people wrote comes from the configuration."""
    keys = ("name", "role", "tier", "title", "parent", "children", "capabilities")
    profile_and_phase: Message = {"profile": toolset.profile, "phase": toolset.phase}
    reader = skill_reader(identity, profile_and_phase, toolset.kinds)
    sources = prompt_sources(prompts, services.folder.parent, reader)
    return {
        **{key: identity.get(key) or _ABSENT.get(key, "") for key in keys},
        "profile": toolset.profile, "workspace": str(services.place.workspace),
        "servers": sorted({tool.server for tool in toolset.server_tools}),
        **sources, **phase_values(link, toolset.phase),
        **_tool_values(services, toolset, skill_rows(sources["skills"])),
    }  # fmt: skip


def _is_locked(services: SessionServices, link: Link) -> bool:
    rows = services.ask(link, "list_tools").get("tools")
    tools = map(mapping, rows if isinstance(rows, list) else [])
    return not any(row.get("allowed") and row.get("tool") in ("bash", "edit") for row in tools)


def _tool_values(
    services: SessionServices, toolset: ModelToolset, skills: Sequence[Message]
) -> Mapping[str, object]:
    """The names that the model sees; a CLI has tools of its own in place of those of execution."""
    if services.cli is None:
        return {"tools": {
            name: name for name, kind in toolset.kinds.items()
            if kind != SERVER_TOOL and (name != READ_SKILL or skills)
        }}  # fmt: skip
    names = dict(services.cli.dialect.tool_names(toolset.kinds))
    own: dict[str, object] = {"tools": names, "cli": services.cli.dialect.name}
    # The CLI reads the file of a skill itself, so it has those of one folder.
    rows = [row for row in skills if row.get("scope") == CONFIGURATION and "read" in names]
    own["skills"] = rows
    if not rows:
        return own
    names[READ_SKILL] = f"{names['read']} {skills_folder()}/NAME/SKILL.md"
    return own


_ABSENT: Final[Mapping[str, object]] = {"children": [], "capabilities": []}


def read_reminder(services: SessionServices, link: Link, identity: Message) -> str:
    """The dated facts at the beginning of a turn: tree, budgets, open work."""
    return _dated_facts(identity, services.ask_together(link, _REMINDER))


def _dated_facts(identity: Message, facts: Sequence[Message]) -> str:
    usage, ends, credentials = facts
    children = identity.get("children")
    names = ", ".join(map(str, children)) if isinstance(children, list) else ""
    return reminder_text({
        "parent": str(identity.get("parent") or ""), "children": names,
        "budgets": _budgets(usage),
        "open work": _open_work(ends),
        "credentials": _credentials(credentials),
    }, time.time())  # fmt: skip


def read_credentials(services: SessionServices, link: Link) -> str:
    """The credentials of the agent now, for a turn that runs while they change."""
    shown = _credentials(services.try_ask(link, "list_credentials"))
    return reminder_text({"credentials": shown or "none"}, time.time())


def _credentials(reply: Message) -> str:
    """What the agent is connected to; whether the provider accepts it, only a call shows."""
    rows = reply.get("credentials")
    return "; ".join(map(_credential, map(mapping, rows if isinstance(rows, list) else [])))


def _credential(row: Mapping[str, object]) -> str:
    tools = row.get("tools")
    parts = [str(row.get("key"))]
    if row.get("alias"):
        parts.append(f'"{row["alias"]}"')
    parts += [str(row[name]) for name in ("provider", "identity") if row.get(name)]
    if isinstance(tools, list) and tools:
        parts.append(f"for {', '.join(map(str, tools))}")
    if fault := _credential_fault(row):
        parts.append(f"({fault})")
    return " ".join(parts)


def _credential_fault(row: Mapping[str, object]) -> str:
    """Why the agent cannot use the credential now; empty where it can."""
    if not row.get("stored"):
        return "not set"
    if not row.get("readable"):
        return "not readable: no capability"
    return "expired" if row.get("expired") else ""


def _budgets(reply: Message) -> str:
    rows = reply.get("budgets")
    return "; ".join(
        f"{row.get('left')} {row.get('unit') or row.get('kind')} left of {row.get('agent')}"
        for row in map(mapping, rows if isinstance(rows, list) else [])
    )


def _open_work(reply: Message) -> str:
    rows = reply.get("ends")
    return "; ".join(
        f"{row.get('kind')} {row.get('id')} ({row.get('state')}): {row.get('text')}"
        for row in map(mapping, rows[:_ENDS] if isinstance(rows, list) else [])
        if row.get("kind") != "mail"
    )
