"""`docs/reference/roles.md`, generated from the table of roles and the registry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from hive_core.broker.operation import Operation
from hive_core.model.agents.agent import Profile, Role
from hive_core.model.agents.roles import ACTIONS, ROLE_DEFAULTS
from hive_core.model.agents.toolset import TABLE, ToolsetRule
from hive_core.model.work.tools import TOOLS

_HEAD = """\
# Roles

Generated from `hive_core/model/agents/roles.py` by `python -m hive_core.surfaces`; do not
edit. `hive role list` prints it. See also [the guide](../guide/roles.md).

`kernel` is the daemon itself: no agent has that role. The default is role `agent` and tier
`operational`.
"""
_ACTIONS = """\
## Actions

The daemon checks the action of the operation on every call, in addition to the place in the tree
and the capabilities. A capability does not override it: an architect with the capability `spawn`
cannot create agents. Every operation names its action. Only the operator has `administer`.
"""
_TOOLS = """\
## Tools of execution

They run in the agent's container by `hive-agent tool`, each use with a grant. An agent's own list
(`tools` of `spawn`) restricts the tools of its role; it never adds to them.
"""

_TOOLSETS = """\
## Toolsets

The tools that the model of an agent sees (`list_toolset`), in this order, from
`hive_core/model/agents/toolset.py`. A tool that is in no row belongs to no agent. The rules of each
operation apply to every call all the same.
"""


def roles_page(registry: Mapping[str, Operation]) -> str:
    """The whole page."""
    return "\n".join((
        _HEAD, *_lives(), "", *_rights(), "", _ACTIONS, *_actions(registry), "", _TOOLS, *_tools(),
        "", _TOOLSETS, *_toolsets(), "",
    ))  # fmt: skip


def _lives() -> Iterator[str]:
    yield from ("| Role | Lives | Behaviour | Creates | After a failure | After its task | Highest"
                " tier |", "| --- | --- | --- | --- | --- | --- | --- |")  # fmt: skip
    for role in Role:
        habit = ROLE_DEFAULTS[role]
        again = "restarted" if habit.restarts else "parent notified"
        cells = (f"`{role}`", habit.lifetime, habit.behaviour, _creates(habit.creates), again,
                 habit.after_task, habit.most)  # fmt: skip
        yield f"| {' | '.join(cells)} |"


def _creates(roles: frozenset[Role]) -> str:
    return "any role" if roles == frozenset(Role) else _words(sorted(roles)) or "none"


def _rights() -> Iterator[str]:
    yield from ("| Role | Capabilities by default | Tools |", "| --- | --- | --- |")
    for role in Role:
        habit = ROLE_DEFAULTS[role]
        yield f"| `{role}` | {_words(habit.capabilities)} | {_words(habit.tools) or 'none'} |"


def _actions(registry: Mapping[str, Operation]) -> Iterator[str]:
    yield f"| Action | {' | '.join(f'`{role}`' for role in Role)} | Operations |"
    yield f"| --- | {' | '.join('---' for _ in Role)} | --- |"
    for action in ACTIONS:
        may = ("yes" if action in ROLE_DEFAULTS[role].actions else "no" for role in Role)
        names = [name for name, operation in registry.items() if operation.action == action]
        yield f"| `{action}` | {' | '.join(may)} | {_words(sorted(names))} |"


def _tools() -> Iterator[str]:
    yield from ("| Tool | Also called | Roles | |", "| --- | --- | --- | --- |")
    for tool in TOOLS.values():
        roles = [role for role in Role if tool.name in ROLE_DEFAULTS[role].tools]
        yield f"| `{tool.name}` | {_words(tool.aliases)} | {_words(roles)} | {tool.summary} |"


def _toolsets() -> Iterator[str]:
    yield from ("| Tools | Roles | Profile | Capability |", "| --- | --- | --- | --- |")
    for row in TABLE:
        capability = f"`{row.capability}`" if row.capability else "none"
        cells = _words(row.tools), _row_roles(row), _row_profiles(row), capability
        yield f"| {' | '.join(cells)} |"


def _row_roles(row: ToolsetRule) -> str:
    return "every role" if row.roles == set(Role) else _words(sorted(row.roles))


def _row_profiles(row: ToolsetRule) -> str:
    profiles = {profile for profile in row.profiles if profile is not None}
    if row.profiles == {None, *Profile}:
        return "any"
    return f"not {_words(set(Profile) - profiles)}" if None in row.profiles else _words(profiles)


def _words(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)
