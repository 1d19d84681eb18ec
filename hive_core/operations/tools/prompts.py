"""The operator's own prompts and skills, for the sessions of agents."""

from __future__ import annotations

from pydantic import Field

from hive_core.broker.call import Call
from hive_core.broker.operation import Params, Result, operation
from hive_core.errors import NotFound
from hive_core.model.work.skill import front_matter
from hive_core.policy.rules import SELF


class GetPromptsParams(Params):
    """No parameters: all agents of a host have the same prompts of the operator."""


class OperatorPrompts(Result):
    files: dict[str, str] = Field(
        description="Texts of the files in /etc/hive/prompts, by name, such as `roles/worker.md`."
    )
    skills: dict[str, str] = Field(
        description="Front matter of the skills in /etc/hive/skills, by name."
    )


class GetSkillParams(Params):
    name: str = Field(max_length=64, description="Name of a skill in /etc/hive/skills.")


class SkillText(Result):
    text: str = Field(description="The whole SKILL.md.")


@operation(action="read", allow=SELF)
def get_prompts(call: Call, _params: GetPromptsParams) -> OperatorPrompts:
    """Show the operator's prompts, which replace the shipped ones of the same name, and skills.

    The session of an agent makes its system prompt from them, at the beginning of a conversation.
    """
    heads = {name: front_matter(text) for name, text in call.skills.items()}
    return OperatorPrompts(files=dict(call.prompts), skills=heads)


@operation(action="read", allow=SELF)
def get_skill(call: Call, params: GetSkillParams) -> SkillText:
    """Show the text of a skill of this host.

    The tool `read_skill` of an agent calls it, for a skill that the agent sees by its role, its
    phase and its tools. A skill is instructions and no secret: the daemon shows it to any agent.
    """
    text = call.skills.get(params.name)
    if text is None:
        raise NotFound(f"no skill {params.name} on this host")
    return SkillText(text=text)
