"""The instructions of one skill, for an agent that may read it."""

from __future__ import annotations

from hive_core.agent.prompt_context import host_skills, skill_reader, skills_folders
from hive_core.agent.reconnect import Link
from hive_core.agent.skills import (
    BODY_MOST,
    Skill,
    check_name,
    find_skills,
    instructions,
    missing_skill,
)


def skill_text(link: Link, name: str) -> str:
    """The instructions; NotFound lists the skills that are for this agent.

    The daemon is asked only about a skill of the host, or one that is not for all agents.
    """
    check_name(name)
    skill = find_skills(skills_folders()).get(name)
    if skill is None or not skill.is_for_all:
        visible = _visible_skills(link)
        if name not in visible:
            raise missing_skill(name, visible)
        skill = visible[name]
    if skill.file is None:
        return instructions(str(link.ask("get_skill", name=name).get("text") or "").encode())
    return instructions(skill.file.read_bytes()[:BODY_MOST])


def _visible_skills(link: Link) -> dict[str, Skill]:
    """The skills that are for this agent, by name."""
    identity, toolset = link.ask("whoami"), link.ask("list_toolset")
    tools = toolset.get("tools")
    names = [str(row.get("name")) for row in tools] if isinstance(tools, list) else []
    reader = skill_reader(identity, toolset, names)
    skills = find_skills(skills_folders(), host_skills(link.ask("get_prompts")))
    return {name: skill for name, skill in skills.items() if skill.is_for(reader)}
