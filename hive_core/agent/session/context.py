"""What a turn tells the runtime: model, tools, limits, prompt context, and the reminder."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hive_core.agent.prompt_context import prompt_sources
from hive_core.agent.reconnect import Link
from hive_core.agent.session.conversation import OpenConversation
from hive_core.agent.session.inputs import reminder_text
from hive_core.agent.session.model_socket import ModelInfo, find_model
from hive_core.agent.session.services import SessionServices
from hive_core.agent.session.state import TurnState
from hive_core.agent.session.toolset import ModelToolset
from hive_core.agent.task_run import mapping
from hive_core.agent.tool_input import READ_SKILL
from hive_core.varlink import Message

ROUNDS: Final = 15
ROUNDS_QUEEN: Final = 30
_ENDS: Final = 20


@dataclass(frozen=True, slots=True)
class TurnContext:
    """The facts of one run of a turn."""

    model: ModelInfo
    toolset: ModelToolset
    identity: Message
    prompt: Mapping[str, object]
    rounds: int

    @classmethod
    def read(cls, services: SessionServices, link: Link) -> TurnContext:
        """Ask the broker who this agent is and which tools it has, and hive-model for its model."""
        identity = services.ask(link, "whoami")
        toolset = ModelToolset.of(services.ask(link, "list_toolset"))
        model = find_model(services.runtime.model_socket, str(identity.get("model") or ""))
        rounds = services.settings.rounds or (
            ROUNDS_QUEEN if toolset.profile == "queen" else ROUNDS
        )
        prompt = prompt_values(services, link, identity, toolset)
        return cls(model, toolset, identity, prompt, rounds)

    def rounds_left(self, turn: TurnState) -> int:
        """How many requests with all tools the turn may still make."""
        return max(0, self.rounds - turn.rounds)

    def template(self, name: str, **more: object) -> Message:
        """An input that the runtime renders from a prompt template."""
        return {"kind": name, "template": name, "context": {**self.prompt, **more}}

    def turn_line(
        self, inputs: Sequence[Message], results: Mapping[str, object], *, rounds: int,
        conversation: OpenConversation, task: str = "",
    ) -> Message:  # fmt: skip
        """The `turn` line of the child protocol, without its history."""
        state = conversation.state
        system: Message = {"text": state.system} if state.system else {"context": dict(self.prompt)}
        return {
            "type": "turn", "turn": state.turns, "system": system, "results": dict(results),
            "input": list(inputs),
            "tools": self.toolset.rows, "deny": {}, "model": self.model.alias,
            "wire": self.model.wire, "context": self.model.context,
            "settings": {
                "rounds": rounds, "report": self.toolset.report if task else "",
                "last": self.template("hand_back", reason="rounds", task=task) if task else {},
                "max_output": self.model.max_output, "name": self.model.name,
                "conversation": state.key("cache"),
            },
        }  # fmt: skip


def prompt_values(
    services: SessionServices, link: Link, identity: Message, toolset: ModelToolset
) -> Mapping[str, object]:
    """What prompts are rendered from; what people wrote comes from the configuration."""
    keys = ("name", "role", "tier", "title", "parent", "children", "capabilities")
    sources = prompt_sources(link, services.folder.parent)
    return {
        **{key: identity.get(key) or _ABSENT.get(key, "") for key in keys},
        "profile": toolset.profile, "workspace": str(services.place.workspace),
        "tools": {
            name: name for name in toolset.kinds if name != READ_SKILL or sources["skills"]
        }, **sources,
    }  # fmt: skip


_ABSENT: Final[Mapping[str, object]] = {"children": [], "capabilities": []}


def read_reminder(services: SessionServices, link: Link, identity: Message) -> str:
    """The dated facts at the beginning of a turn: tree, budgets, open work."""
    children = identity.get("children")
    names = ", ".join(map(str, children)) if isinstance(children, list) else ""
    return reminder_text({
        "parent": str(identity.get("parent") or ""), "children": names,
        "budgets": _budgets(services.try_ask(link, "get_usage")),
        "open work": _open_work(services.try_ask(link, "loose_ends", recursive=False)),
    }, time.time())  # fmt: skip


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
