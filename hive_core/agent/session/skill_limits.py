"""`allowed-tools` of a skill: from the call that reads it to the end of the turn.

The list takes tools away and gives none: a tool that the agent lacks stays refused, whatever the
list names. An agent can always work on its task and reach others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hive_core.agent.session.records import Record
from hive_core.agent.session.services import say
from hive_core.agent.session.state import ToolCall, TurnState
from hive_core.agent.session.tool_words import hive_name, missing_reason, split_tool_words
from hive_core.agent.skills import missing_skill
from hive_core.agent.tool_input import READ_SKILL, command_words
from hive_core.varlink import Message

# What no skill takes away: the agent's own task, and the word to others.
ALWAYS: Final = frozenset({
    READ_SKILL, "get_task", "create_plan", "update_plan_step", "report_progress", "finish_task",
    "send", "ask", "ask_user", "answer", "whoami", "escalate", "report_expired_credential",
})  # fmt: skip
_BASH: Final = "bash"
_REST: Final = "*"


@dataclass(frozen=True, slots=True)
class SkillLimit:
    """The tools that one skill allows. `commands`: how a command line may begin or be, for bash."""

    skill: str
    tools: frozenset[str]
    commands: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def of(cls, record: Record) -> SkillLimit:
        """The limit in the record of the call that read the skill."""
        tools, commands = record.get("tools"), record.get("commands")
        rows = commands if isinstance(commands, list) else []
        return cls(
            str(record.get("name")), frozenset(tools if isinstance(tools, list) else []),
            tuple(tuple(map(str, row)) for row in rows),
        )  # fmt: skip

    @property
    def record(self) -> Record:
        """What the log keeps."""
        return {
            "name": self.skill, "tools": sorted(self.tools),
            "commands": [list(row) for row in self.commands],
        }  # fmt: skip

    def allows(self, name: str, arguments: Mapping[str, object] | None = None) -> bool:
        """Whether it allows this call; without arguments: every call of the tool."""
        if name in ALWAYS or name in self.tools:
            return True
        line = (arguments or {}).get("command")
        if name != _BASH or not isinstance(line, str):
            return False
        words = command_words(line)
        return any(_is_command(words, row) for row in self.commands)


def limits_of(turn: TurnState | None) -> list[SkillLimit]:
    """The limits of the skills that were read in this turn: a call needs all of them."""
    return [SkillLimit.of(record) for record in (turn.skill_limits if turn else ())]


def denied_tools(turn: TurnState | None, names: Iterable[str]) -> frozenset[str]:
    """Those of the tools that a sub-agent may not have: not every call of them is allowed."""
    limits = limits_of(turn)
    return frozenset(name for name in names if not all(limit.allows(name) for limit in limits))


def call_refusal(turn: TurnState, call: ToolCall, skills: object) -> str:
    """Why a skill, or the list of skills, refuses the call; empty: nothing does."""
    for limit in limits_of(turn):
        if not limit.allows(call.name, call.arguments):
            allowed = ", ".join(sorted({*limit.tools, *(_BASH for _ in limit.commands)})) or "none"
            return (
                f"the skill {limit.skill} does not allow {call.name} with these arguments, until"
                f" this turn ends; of the tools that skills can allow it has: {allowed}"
            )
    if call.name != READ_SKILL:
        return ""
    names = [str(row.get("name")) for row in skill_rows(skills)]
    name = str(call.arguments.get("name"))
    return "" if name in names else missing_skill(name, names).reason


def limit_record(call: ToolCall, skills: object, owned: Collection[str]) -> Record:
    """What the log keeps of the skill that this call has read; empty: it takes nothing away."""
    if call.name != READ_SKILL:
        return {}
    for row in skill_rows(skills):
        if row.get("name") == call.arguments.get("name") and "allowed_tools" in row:
            return _read_limit(str(row["name"]), str(row["allowed_tools"]), owned).record
    return {}


def skill_rows(skills: object) -> Sequence[Message]:
    """The skills of a prompt."""
    return [row for row in skills if isinstance(row, dict)] if isinstance(skills, list) else []


def _read_limit(skill: str, text: str, owned: Collection[str]) -> SkillLimit:
    tools: set[str] = set()
    commands: list[tuple[str, ...]] = []
    for word in split_tool_words(text):
        name, bracket, rest = word.partition("(")
        tool = hive_name(name, owned)
        if bracket and tool == _BASH and (pattern := rest.rstrip(")").replace(":*", " *").split()):
            commands.append(tuple(pattern))
        elif reason := missing_reason(word, owned):
            say(f"skill {skill}: allowed-tools: {word[:64]}: left out: {reason}")
        elif tool in owned:
            tools.add(tool)
    return SkillLimit(skill, frozenset(tools), tuple(commands))


def _is_command(words: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether a command is the one of the pattern, or begins so where that ends with `*`."""
    begins = pattern[-1] == _REST
    literal = tuple(pattern[:-1] if begins else pattern)
    return tuple(words[: len(literal)]) == literal and (begins or len(words) == len(literal))
