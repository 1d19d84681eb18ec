"""`hive_fork_subagent`: runs a sub-agent in the agent's container, and answers with its result.

The daemon opens and closes it, and writes its depths. The session starts its process, and kills all
of it at the time limit. A fork is never begun twice.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

from hive_core.agent.prompt_context import config_folder
from hive_core.agent.reconnect import Link
from hive_core.agent.session.calls import CallAnswer, error_text
from hive_core.agent.session.context import TurnContext
from hive_core.agent.session.conversation import OpenConversation
from hive_core.agent.session.model_socket import ModelInfo, find_model
from hive_core.agent.session.services import SessionServices, say
from hive_core.agent.session.skill_limits import denied_tools, skill_rows
from hive_core.agent.session.state import ToolCall, TurnState, number, texts
from hive_core.agent.session.subagents.definitions import SubagentDefinition, read_definition
from hive_core.agent.session.subagents.folder import ERROR, SUCCESS, checked_result, result_of
from hive_core.agent.session.subagents.launch import Launch, Launcher
from hive_core.agent.session.subagents.order import (
    CLONE,
    NAMED,
    ForkOrder,
    encode_hydration,
    new_log,
)
from hive_core.agent.session.subagents.request import read_opened
from hive_core.agent.session.subagents.settings import ForkSettings
from hive_core.agent.session.toolset import FORK, SERVER_TOOL
from hive_core.errors import Conflict, HiveError, InvalidArgument, NotAllowed, NotFound, TimedOut
from hive_core.model.agents.foreign_words import is_foreign_model
from hive_core.varlink import Message

TASK_MOST: Final = 256 << 10
_PARAMETERS: Final = ("agent", "task", "timeout_seconds")
_STATUSES: Final[Mapping[type[HiveError], str]] = {TimedOut: "timeout", Conflict: "cancelled"}
_OTHER_CALL: Final[Mapping[str, object]] = {
    "content": "not run for you: this call is your parent's", "is_error": True,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ForkRequest:
    """What the model asks for. `seconds` 0: as long as the configuration allows."""

    agent: str
    task: str
    seconds: int

    @classmethod
    def of(cls, arguments: Mapping[str, object]) -> ForkRequest:
        for key in arguments:
            if key not in _PARAMETERS:
                raise InvalidArgument(
                    f"{FORK} has no parameter {key[:64]!r}; it has {', '.join(_PARAMETERS)}",
                    field=key[:64],
                )
        agent, task = arguments.get("agent") or "", arguments.get("task")
        seconds = arguments.get("timeout_seconds") or 0
        if not isinstance(agent, str):
            raise InvalidArgument("agent must be a text", field="agent")
        if not isinstance(task, str) or not task.strip() or len(task) > TASK_MOST:
            raise InvalidArgument(
                f"task must be a text of at most {TASK_MOST} characters", field="task"
            )
        if not isinstance(seconds, int) or isinstance(seconds, bool) or seconds < 0:
            raise InvalidArgument(
                "timeout_seconds must be a number from 1", field="timeout_seconds"
            )
        return cls("" if agent == CLONE else agent, task, seconds)


@dataclass(frozen=True, slots=True)
class ForkPlan:
    """A fork that the configuration allows. `definition` None: a clone.

    `warnings`: what of the definition is not followed.
    """

    request: ForkRequest
    settings: ForkSettings
    definition: SubagentDefinition | None
    tools: list[str]
    model: ModelInfo
    network: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def prompt_of_named(self, prompt: Mapping[str, object]) -> Mapping[str, object]:
        """What a named sub-agent does not share with its agent: it has no CLI, and fewer skills."""
        wanted, tools = self.definition.skills if self.definition else None, {*self.tools}
        rows = [
            row for row in skill_rows(prompt.get("skills"))
            if {*texts(row.get("tools"))} <= tools and (wanted is None or row["name"] in wanted)
        ]  # fmt: skip
        return {"skills": rows, "cli": ""}

    @property
    def name(self) -> str:
        return self.definition.name if self.definition else CLONE

    @property
    def kind(self) -> str:
        return NAMED if self.definition else CLONE

    @property
    def seconds(self) -> int:
        most = self.settings.timeout_seconds
        return min(self.request.seconds or most, most)


class ForkRunner:
    """Runs the forks of one turn, one after the other; another thread may kill the present one."""

    def __init__(
        self, services: SessionServices, link: Link, conversation: OpenConversation,
        context: TurnContext, launcher: Launcher,
    ) -> None:  # fmt: skip
        self._services = services
        self._link = link
        self._conversation = conversation
        self._context = context
        self._launcher = launcher

    def run(self, call: ToolCall, turn: TurnState) -> CallAnswer:
        """Fork, wait, and answer the call; a refusal is an answer too."""
        try:
            plan = self._plan(ForkRequest.of(call.arguments), turn)
            opened = self._open(plan, turn, call.key)
        except HiveError as error:
            return CallAnswer(error_text(error), is_error=True)
        began = time.monotonic()
        try:
            result = self._launch(plan, turn, call, opened)
            status = str(result["status"])
        except HiveError as error:
            result = failed_result(plan.name, error.reason, began)
            status = _STATUSES.get(type(error), ERROR)
        self._close(opened, call.key, status, result["metadata"])
        if plan.warnings:
            result["warnings"] = list(plan.warnings)
            say(f"sub-agent {plan.name}: {'; '.join(plan.warnings)}")
        return CallAnswer(_compact(result), is_error=result["status"] != SUCCESS)

    def kill(self) -> None:
        """End the sub-agent that runs now; none is started after it."""
        self._launcher.kill()

    def _plan(self, request: ForkRequest, turn: TurnState) -> ForkPlan:
        """Judge a request by the configuration and the depths of this process."""
        config, services = config_folder(), self._services
        settings = ForkSettings.read(config / "agent.toml")
        depths = {"depth": services.depth, "clone_depth": services.clone_depth}
        settings.check_fork(is_clone=not request.agent, **depths)
        definition = None
        network: tuple[str, ...] = ()
        if request.agent:
            definition = read_definition(config / settings.agents_dir, request.agent)
            network = definition.network
            if definition.is_clone:
                settings.check_fork(is_clone=True, **depths)
                definition = None
        # A clone sees the tools of its parent's own MCP servers, and no server runs for it.
        toolset = self._context.toolset
        lacks = toolset.disabled | denied_tools(turn, toolset.kinds)
        owned = [name for name, kind in toolset.kinds.items()
                 if name not in lacks and kind != SERVER_TOOL]  # fmt: skip
        if definition is None:
            self._check_clone()
            tools = [name for name in owned if name not in settings.disabled]
            return ForkPlan(request, settings, None, tools, self._context.model, network)
        chosen = definition.choose_tools(owned)
        model, *warnings = self._choose_model(definition, settings)
        return ForkPlan(
            request, settings, definition, list(chosen.names), model, network,
            (*chosen.warnings, *warnings),
        )  # fmt: skip

    def _check_clone(self) -> None:
        """Refuse a clone of a CLI, whose conversation only the CLI can go on with."""
        if self._services.cli is not None:
            name = self._services.cli.dialect.name
            raise NotAllowed(
                f"cannot clone: your conversation is kept by {name}, and clones need the runtime"
                " builtin; name a sub-agent of your configuration instead", rule="runtime",
            )  # fmt: skip

    def _choose_model(
        self, definition: SubagentDefinition, settings: ForkSettings
    ) -> tuple[ModelInfo] | tuple[ModelInfo, str]:
        """The model of a named sub-agent, and a warning where it is not the one it asks for."""
        socket, usual = self._services.runtime.model_socket, settings.default_model
        alias = definition.model or usual or self._context.model.alias
        try:
            return (find_model(socket, alias),)
        except NotFound:
            if not is_foreign_model(definition.model):
                raise
        model = find_model(socket, usual or self._context.model.alias)
        asked = definition.model[:64]
        return model, f"model: {asked}: no model of this agent: it has {model.alias}"

    def _open(self, plan: ForkPlan, turn: TurnState | None, key: str) -> Message:
        task = (turn.task if turn else "") or self._context.payer
        return self._services.ask(
            self._link, "open_subagent", kind=plan.kind, name=plan.name, tools=plan.tools,
            timeout_seconds=plan.seconds, network=list(plan.network), task=task or None,
            idempotency_key=f"{key}:open"[:128],
        )  # fmt: skip

    def _close(self, opened: Message, key: str, status: str, metadata: object) -> None:
        self._services.try_ask(
            self._link, "close_subagent", id=opened.get("id"), status=status, metadata=metadata,
            idempotency_key=f"{key}:close"[:128],
        )  # fmt: skip

    def _launch(
        self, plan: ForkPlan, turn: TurnState, call: ToolCall, opened: Message
    ) -> dict[str, object]:
        """Have the sub-agent started, and return its result when it has ended."""
        began = time.monotonic()
        row = {**opened, "name": plan.name, "kind": plan.kind}
        order = self._order(plan, turn, call, opened)
        if order.is_clone:
            log = self._conversation.copy_log()
        else:
            log = new_log(0, self._conversation.state.conversation, os.urandom(8).hex())
        launch = Launch(
            read_opened(row, has_user=bool(self._services.place.uid)), order,
            encode_hydration(log, order), plan.seconds, not plan.settings.cleanup_temp_files,
        )  # fmt: skip
        result = checked_result(self._launcher.run(launch), plan.name)
        metadata = result["metadata"]
        assert isinstance(metadata, dict)  # noqa: S101 - for the type
        return {**result, "metadata": {**metadata, "latency_ms": _since(began)}}

    def _order(self, plan: ForkPlan, turn: TurnState, call: ToolCall, opened: Message) -> ForkOrder:
        """What the sub-agent is to do. A clone has the tools and the settings of this turn."""
        context, settings, definition = self._context, plan.settings, plan.definition
        names = set(plan.tools) if definition else context.toolset.kinds.keys() - settings.hidden
        disabled = context.toolset.disabled | denied_tools(turn, context.toolset.kinds)
        if definition is None:
            disabled |= settings.disabled
        caller = str(context.identity.get("name"))  # NAME, or NAME/ID of a sub-agent
        prompt = {
            **context.prompt, "tools": {name: name for name in plan.tools},
            **(plan.prompt_of_named(context.prompt) if definition else {}),
            "fork": {
                "id": f"{caller.partition('/')[0]}/{opened['id']}", "parent": caller,
                "task": plan.request.task, "prefix": settings.clone_userprompt_prefix,
                "workspace": str(self._launcher.workspace_of(str(opened["id"]))),
                "disabled": sorted(disabled), "seconds": plan.seconds,
                "instructions": definition.instructions if definition else "",
            },
        }  # fmt: skip
        state = self._conversation.state
        return ForkOrder(
            plan.kind, plan.name, str(opened["id"]),
            turn.number, context.rounds, asdict(plan.model),
            [row for row in context.toolset.rows if row["name"] in names],
            {name: kind for name, kind in context.toolset.kinds.items() if name in names},
            sorted(disabled), number(opened.get("depth")), number(opened.get("clone_depth")),
            turn.task or context.payer,
            _system(state.system, settings.clone_sysprompt_followup) if not definition else "",
            plan.request.task if definition else "", prompt,
            {} if definition else _results(turn, call, prompt),
        )  # fmt: skip


def failed_result(agent: str, why: str, began: float) -> dict[str, object]:
    """The result of a sub-agent that left none."""
    metadata = {
        "agent": agent, "model": "", "provider": "", "latency_ms": _since(began) if began else 0,
        "usage": {"input_tokens": 0, "output_tokens": 0},
    }  # fmt: skip
    return result_of(status=ERROR, content="", error=why, metadata=metadata)


def _results(turn: TurnState, call: ToolCall, prompt: Mapping[str, object]) -> Mapping[str, object]:
    """The answers of the open calls for the clone: its task is the answer of the fork."""
    own = {"template": "fork_task", "context": prompt, "is_error": False}
    return {
        row.id: own if row.id == call.id else _OTHER_CALL
        for row in turn.calls if row.result is None
    }  # fmt: skip


def _system(system: str, followup: str) -> str:
    """The system prompt of a clone: that of its parent, byte for byte, then the follow-up."""
    return f"{system}\n{followup}" if followup else system


def _since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
