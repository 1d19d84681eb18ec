"""What the operator wrote for the models of all agents of this host: prompts and skills."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hive_core.host.config.prompts import PROMPTS
from hive_core.host.config.skills import SKILLS
from hive_core.host.config.text_folder import LoadedTexts


@dataclass(frozen=True, slots=True)
class OperatorTexts:
    """The texts as they were when hived started."""

    loaded_prompts: LoadedTexts
    loaded_skills: LoadedTexts

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
    return OperatorTexts(PROMPTS.load(folder / PROMPTS.name), SKILLS.load(folder / SKILLS.name))


def text_faults(folder: Path) -> list[str]:
    """Why the texts cannot be used; empty if they can."""
    folders = (PROMPTS, SKILLS)
    return [fault for texts in folders for fault in texts.faults(folder / texts.name)]
