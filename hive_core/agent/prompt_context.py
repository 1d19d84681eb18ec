"""The data that the prompts of this agent are rendered from.

The renderer (`hive_core.runtime.prompts`) is a pure function of it. What comes from files is
bounded: it is sent to the runtime as one line.
"""

from __future__ import annotations

import os
import shutil
import tomllib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from hive_core.agent.reconnect import Link
from hive_core.agent.skills import (
    COLONY,
    CONFIGURATION,
    SkillFolder,
    SkillReader,
    find_skills,
)
from hive_core.agent.tool_input import READ_SKILL
from hive_core.errors import InvalidArgument
from hive_core.varlink import Message

CONFIG: Final = Path("/run/hive/config")
INSTRUCTIONS_MOST: Final = 64 << 10
PROMPT_MOST: Final = 64 << 10
PROMPTS_MOST: Final = 128 << 10
_NO_FILE: Final = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
_DEFINITION: Final = "definition"
SKILLS: Final = "skills"
# The instructions of a configuration that no one has written yet.
_SEED: Final = Path(__file__).parents[1] / "seed" / "host"
_KEYS: Final[Mapping[str, object]] = {
    "name": "", "role": "", "tier": "", "title": "", "parent": "", "children": [],
    "capabilities": [],
}  # fmt: skip
_DEFAULTS: Final[Mapping[str, str]] = {
    "prompts": "prompts", "instructions": "AGENTS.md", "skills": "skills",
}  # fmt: skip


def prompt_context(
    link: Link, state: Path, workspace: Path, config: Path | None = None
) -> dict[str, object]:
    """The whole context. `state` is the folder in which `save_definition` wrote."""
    identity, toolset = link.ask("whoami"), link.ask("list_toolset")
    tools = toolset.get("tools")
    names = [str(row.get("name")) for row in tools] if isinstance(tools, list) else []
    reader = skill_reader(identity, toolset, names)
    sources = prompt_sources(link.ask("get_prompts"), state, reader, config)
    return {
        **{key: identity.get(key) or absent for key, absent in _KEYS.items()},
        "profile": toolset.get("profile") or "",
        "tools": {name: name for name in names if name != READ_SKILL or sources["skills"]},
        "workspace": str(workspace),
        **sources,
        **phase_values(link, str(toolset.get("phase") or "")),
    }


def phase_values(link: Link, phase: str) -> dict[str, object]:
    """What the prompt of a queen says about her phase; nothing for other agents."""
    if not phase:
        return {}
    view = link.ask("get_phase")
    return {
        "phase": phase, "persona": view.get("persona") or "", "colony": view.get("colony") or {},
    }  # fmt: skip


def skill_reader(identity: Message, toolset: Message, tools: Iterable[str]) -> SkillReader:
    """This agent, as the skills that are not for all judge it."""
    return SkillReader(
        str(identity.get("role") or ""), str(toolset.get("profile") or ""),
        str(toolset.get("phase") or ""), frozenset(tools),
    )  # fmt: skip


def prompt_sources(
    prompts: Message, state: Path, reader: SkillReader, config: Path | None = None
) -> dict[str, object]:
    """What is written by people: instructions, definition, skills, and overrides of prompts.

    `prompts` is the answer of `get_prompts`.
    """
    config = config or config_folder()
    harness = harness_settings(config)
    operator = prompts.get("files")
    return {
        "instructions": _instructions(config / harness["instructions"]),
        "definition": _text(state / _DEFINITION, INSTRUCTIONS_MOST),
        "skills": [
            skill.row
            for skill in find_skills(_skills_folders(config, state), host_skills(prompts)).values()
            if skill.is_for(reader)
        ],
        "deployed": _override_texts(config / harness["prompts"]),
        "operator": operator if isinstance(operator, dict) else {},
    }


def config_folder() -> Path:
    """The deployed configuration: HIVE_CONFIG, or where every container has it."""
    return Path(os.environ.get("HIVE_CONFIG", CONFIG))


def skills_folder() -> Path:
    """The folder of the agent's skills, in its deployed configuration."""
    config = config_folder()
    return config / harness_settings(config)["skills"]


def skills_folders() -> tuple[SkillFolder, ...]:
    """The folders of the agent's skills: of its deployed configuration, and as a colony.

    No other is read: what an agent finds or writes in its workspace or its home is none of these.
    """
    return _skills_folders(config_folder(), state_folder())


def _skills_folders(config: Path, state: Path) -> tuple[SkillFolder, ...]:
    own, colony = config / harness_settings(config)["skills"], state / SKILLS
    return SkillFolder(CONFIGURATION, own, config), SkillFolder(COLONY, colony, colony)


def host_skills(prompts: Message) -> dict[str, str]:
    """The front matter of the operator's skills, in the answer of `get_prompts`."""
    rows = prompts.get("skills")
    return {str(name): str(text) for name, text in (rows if isinstance(rows, dict) else {}).items()}


def state_folder() -> Path:
    """The folder of the agent's state."""
    if place := os.environ.get("HIVE_STATE"):
        return Path(place)
    return Path("/agents", os.environ.get("HIVE_NAME", "-"), "state")


def save_skill(state: Path, name: str, files: Mapping[str, bytes]) -> None:
    """Install the skill of a colony: files of the session's user, which tools may only read."""
    folder = state / SKILLS
    spare, old = folder / f".{name}.new", folder / f".{name}.old"
    for place in (spare, old):
        shutil.rmtree(place, ignore_errors=True)
    for path, content in files.items():
        place = spare / path
        place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        place.write_bytes(content)
        place.chmod(0o644)
    if (folder / name).exists():
        (folder / name).rename(old)
    spare.rename(folder / name)
    shutil.rmtree(old, ignore_errors=True)


def save_definition(state: Path, text: str) -> None:
    """Keep the text of the agent's definition, which is part of every later system prompt."""
    save_whole(state / _DEFINITION, text)


def save_whole(place: Path, text: str) -> None:
    """Write a file that is there whole or not at all, also after a crash."""
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    spare = place.with_name(f".{place.name}.new")
    with spare.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    spare.replace(place)


def harness_settings(config: Path) -> Mapping[str, str]:
    """`[harness]` of agent.toml: the places of prompts, instructions and skills."""
    try:
        data = tomllib.loads(_text(config / "agent.toml", PROMPTS_MOST))
    except tomllib.TOMLDecodeError as error:
        raise InvalidArgument(f"agent.toml: {error}", field="agent.toml") from None
    table = data.get("harness", {})
    chosen: Message = table if isinstance(table, dict) else {}
    return {key: str(chosen.get(key) or usual) for key, usual in _DEFAULTS.items()}


def _instructions(file: Path) -> str:
    """The agent's instructions; empty while they are those of the template."""
    text = _text(file, INSTRUCTIONS_MOST)
    return "" if text == _text(_SEED / file.name, INSTRUCTIONS_MOST) else text


def _text(file: Path, most: int) -> str:
    """The text of a file, cut at the bound; empty if there is none."""
    with (
        suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError),
        file.open("rb") as data,
    ):
        return data.read(most).decode(errors="replace")
    return ""


def _override_texts(folder: Path) -> dict[str, str]:
    """The prompts in the agent's own configuration; too many or too large ones are refused."""
    texts: dict[str, str] = {}
    _each_file(folder, lambda name, text: texts.update({name: text}))
    if sum(len(text.encode()) for text in texts.values()) > PROMPTS_MOST:
        raise InvalidArgument(
            f"the prompts of the configuration have more than {PROMPTS_MOST} bytes", field="prompts"
        )
    return texts


def _each_file(folder: Path, take: Callable[[str, str], None]) -> None:
    for path in sorted(folder.rglob("*.md")):
        text = _text(path, PROMPT_MOST + 1)
        if len(text.encode()) > PROMPT_MOST:
            raise InvalidArgument(f"{path.name}: larger than {PROMPT_MOST} bytes", field="prompts")
        take(path.relative_to(folder).as_posix(), text)
