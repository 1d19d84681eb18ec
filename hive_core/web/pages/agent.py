"""One agent: what it does, what it wrote, and what may be done to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from starlette.responses import Response

from hive_core.errors import NotFound
from hive_core.varlink import Message
from hive_core.web.live_rows import agent_cells
from hive_core.web.pages.agent_reads import read_plans, read_prompt, read_turn_figures
from hive_core.web.visit import Visit, refuse_field


@dataclass(frozen=True, slots=True)
class Tab:
    """A read that a tab shows; `reply` is the field with its rows."""

    name: str
    title: str
    operation: str
    parameters: Mapping[str, object]


TABS: Final = (
    Tab("talk", "Talk", "list_turns", {"limit": 20}),
    Tab("tasks", "Tasks", "list_tasks", {"limit": 50}),
    Tab("mail", "Mail", "list_messages", {"limit": 50}),
    Tab("logs", "Logs", "get_logs", {"lines": 200}),
    Tab("config", "Config", "history", {"limit": 50}),
    Tab("prompt", "Prompt", "list_turns", {"limit": 50}),
    Tab("figures", "Figures", "get_figures", {}),
    Tab("tools", "Tools", "list_toolset", {}),
)
# What a button does: the operation, whether all below come along, and the words of the page.
ACTIONS: Final[Mapping[str, tuple[str, str]]] = {
    "stop": ("stop", "Stop"), "start": ("start", "Start"), "sleep": ("sleep", "Put to sleep"),
    "restart": ("restart", "Restart"), "resume": ("resume", "Resume"),
    "destroy": ("destroy", "Destroy"),
}  # fmt: skip
_RECURSIVE: Final = frozenset({"stop", "start", "sleep", "restart", "resume", "destroy"})
OPERATOR: Final = "operator"


async def show_agent(visit: Visit) -> Response:
    """The agent's facts above, and the tab that the address names."""
    return await _draw(visit, "agent")


async def show_agent_rows(visit: Visit) -> Response:
    """The facts and the tab alone, for a page that is old."""
    return await _draw(visit, "agent_rows")


async def _draw(visit: Visit, template: str) -> Response:
    name = visit.parts["name"]
    tab = next((tab for tab in TABS if tab.name == visit.parts.get("tab", "talk")), None)
    if tab is None:
        raise NotFound(f"an agent has no page {visit.parts.get('tab')!r}")
    details = None if name == OPERATOR else await visit.read("get_agent", agent=name)
    if details is None and tab.name != "mail":
        raise NotFound(f"no agent named {name!r}")
    agents = visit.web.hub.agents
    reply, more = await _read_tab(visit, tab, None if details is None else name)
    return visit.page(
        template, name, name=name, agent=details, row=agents.get(name), tab=tab,
        tabs=TABS if details else (), reply=reply, path=agents.path(name),
        cells=agent_cells, **more,
    )  # fmt: skip


async def _read_tab(
    visit: Visit, tab: Tab, agent: str | None
) -> tuple[Message, Mapping[str, object]]:
    """What the tab shows: its own read, and more of the same agent where it has to be joined."""
    if tab.name == "prompt" and agent is not None:
        return await read_prompt(visit, agent), {}
    after = visit.query.get("after") if tab.parameters else None
    reply = await visit.try_read(tab.operation, agent=agent, after=after, **tab.parameters)
    more: Mapping[str, object] = {}
    if tab.name == "talk" and agent is not None and "refused" not in reply:
        more = {"turns": await read_turn_figures(visit, agent, reply)}
    elif tab.name == "tasks" and "refused" not in reply:
        more = {"plans": await read_plans(visit, reply)}
    return reply, more


async def ask_action(visit: Visit) -> Response:
    """What an action would do, and to whom, before it is done."""
    name, action = visit.parts["name"], _action(visit)
    await visit.read("get_agent", agent=name)  # NotFound: nobody has this name
    below = visit.web.hub.agents.below(name) or [name]
    return visit.page(
        "act", action[1], name=name, action=visit.parts["action"], words=action[1], below=below
    )


async def act(visit: Visit) -> Response:
    name, (operation, _) = visit.parts["name"], _action(visit)
    if operation == "destroy" and visit.form.get("typed") != name:
        refuse_field("typed", "type the name of the agent that is to be destroyed")
    recursive = visit.form.get("recursive") == "yes" if operation in _RECURSIVE else None
    back = "/tree" if operation == "destroy" else address(name)
    return await visit.change(operation, back, agent=name, recursive=recursive)


async def say(visit: Visit) -> Response:
    name = visit.parts["name"]
    body = visit.form.get("body", "").strip() or refuse_field("body", "say something")
    return await visit.change("send", f"{address(name)}/talk", to=name, body=body)


async def assign(visit: Visit) -> Response:
    name = visit.parts["name"]
    text = visit.form.get("description", "").strip() or refuse_field("description", "say what")
    title = visit.form.get("title", "").strip()
    back = f"{address(name)}/tasks"
    return await visit.change("assign_task", back, agent=name, description=text, title=title)


def address(name: str) -> str:
    return f"/agents/{quote(name, safe='')}"


def _action(visit: Visit) -> tuple[str, str]:
    action = ACTIONS.get(visit.parts["action"])
    if action is None:
        raise NotFound(f"an agent has no action {visit.parts['action']!r}")
    return action
