"""What the operator wrote for the models of all agents of this host: prompts and skills."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hive_core.host.config.prompts import PROMPTS, LoadedPrompts, load_prompts, prompts_faults
from hive_core.host.config.skills import SKILLS, LoadedSkills, load_skills, skills_faults


@dataclass(frozen=True, slots=True)
class OperatorTexts:
    """The texts as they were when hived started."""

    loaded_prompts: LoadedPrompts
    loaded_skills: LoadedSkills

    @property
    def prompts(self) -> Mapping[str, str]:
        """The prompts by file name."""
        return self.loaded_prompts.texts

    @property
    def skills(self) -> Mapping[str, str]:
        """The whole SKILL.md of each skill, by name."""
        return self.loaded_skills.texts

    def faults(self) -> list[str]:
        """What the operator has to mend."""
        return [*self.loaded_prompts.faults(), *self.loaded_skills.faults()]


def load_texts(folder: Path) -> OperatorTexts:
    """The texts below /etc/hive."""
    return OperatorTexts(load_prompts(folder / PROMPTS), load_skills(folder / SKILLS))


def text_faults(folder: Path) -> list[str]:
    """Why the texts cannot be used; empty if they can."""
    return [*prompts_faults(folder / PROMPTS), *skills_faults(folder / SKILLS)]
