"""Sub-agents: temporary helpers of an agent inside its own container (rows H25, Z4, Z14)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

# The capability that an agent needs to open one, and the tool of its model that does it.
CAPABILITY: Final = "subagents"
FORK_TOOL: Final = "hive_fork_subagent"
CLONE: Final = "clone"
SubAgentKind: TypeAlias = Literal["clone", "named"]
# The uids of sub-agents, in the range of each container. Nothing else in a container has them:
# below are those of users, and from 61184 on systemd gives uids to services with DynamicUser.
# https://systemd.io/UIDS-GIDS
SUBAGENT_UIDS: Final = range(60000, 61184)
# In place of a rule of its network: whatever its opener may connect to.
INHERIT: Final = "inherit"
_SEPARATOR: Final = "/"


@dataclass(frozen=True, slots=True)
class SubAgent:
    """One open sub-agent. `opener`: the sub-agent that opened it; empty: the agent itself.

    `uid` is its uid in the container. `depth` and `clone_depth` are one more than those of its
    opener, the latter for a clone only. `task`: the task of the agent that it works for, or empty.
    `network`: rules of its connections, INHERIT among them for those of its opener; empty: none.
    """

    agent: str
    id: str
    kind: SubAgentKind
    name: str
    opener: str
    uid: int
    depth: int
    clone_depth: int
    tools: frozenset[str]
    task: str
    opened: float
    deadline: float
    network: tuple[str, ...] = ()

    @property
    def party(self) -> str:
        """Its party: `UUID/ID`."""
        return address(self.agent, self.id)


def address(agent: str, id_: str) -> str:
    """The party `UUID/ID` of a sub-agent, or its address `NAME/ID`."""
    return f"{agent}{_SEPARATOR}{id_}"


def split_address(text: str) -> tuple[str, str]:
    """Agent and id of the sub-agent; the id is empty where the text is that of an agent."""
    agent, _, id_ = text.partition(_SEPARATOR)
    return agent, id_
