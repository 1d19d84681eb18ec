"""Whose skills an agent has, and which of them it sees (Q47)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.fake_broker import FakeBroker, fake_broker
from hypothesis import given
from hypothesis import strategies as st

from hive_core.agent.prompt_context import prompt_sources
from hive_core.agent.reconnect import Link
from hive_core.agent.skill_text import skill_text
from hive_core.agent.skills import HOST, Skill, SkillReader
from hive_core.errors import NotFound

WORKER = SkillReader("worker", "", "", frozenset({"read", "list"}))
ROLES = ("worker", "lead", "daemon", "queen", "maid", "")
TOOLS = ("read", "edit", "bash", "send")


def write(folder: Path, name: str, description: str, head: str = "") -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / "SKILL.md").write_text(
        f"---\nname: {name}\ndescription: {description}\n{head}---\nThat of {description}.\n"
    )


def head_of(name: str, more: str = "") -> str:
    return f"---\nname: {name}\ndescription: host\n{more}---\n"


@pytest.fixture(name="config")
def _config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    config, state = tmp_path / "config", tmp_path / "state"
    (config / "skills").mkdir(parents=True)
    (state / "work").mkdir(parents=True)
    monkeypatch.setenv("HIVE_CONFIG", str(config))
    monkeypatch.setenv("HIVE_STATE", str(state))
    return config


@pytest.fixture(name="broker")
def _broker(tmp_path: Path) -> Iterator[FakeBroker]:
    with fake_broker(tmp_path / "broker.sock") as made:
        made.answers = {
            "Whoami": lambda _: {"role": "worker"}, "GetPrompts": lambda _: {"files": {}},
            "ListToolset": lambda _: {"tools": [{"name": "read"}, {"name": "list"}]},
        }  # fmt: skip
        yield made


def scopes(config: Path, host: dict[str, str], reader: SkillReader = WORKER) -> dict[str, str]:
    """The scope of each skill that the agent sees."""
    rows = prompt_sources({"skills": host}, config.parent / "state", reader, config)["skills"]
    assert isinstance(rows, list)
    return {row["name"]: row["scope"] for row in rows}


def test_the_configuration_counts_before_the_colony_and_the_host(
    config: Path, broker: FakeBroker
) -> None:
    write(config / "skills", "a", "configuration")
    for name in ("a", "b"):
        write(config.parent / "state" / "skills", name, "colony")
    host = {name: head_of(name) for name in ("a", "b", "c")}
    assert scopes(config, host) == {"a": "configuration", "b": "colony", "c": "host"}
    broker.answers["GetPrompts"] = lambda _: {"files": {}, "skills": host}
    broker.answers["GetSkill"] = lambda _: {"text": f"{head_of('c')}That of host.\n"}
    with Link(broker.path) as link:
        read = [skill_text(link, name) for name in ("a", "b", "c")]
    assert read == ["That of configuration.\n", "That of colony.\n", "That of host.\n"]
    assert [row["name"] for row in broker.params_of("GetSkill")] == ["c"]


def test_a_skill_that_hides_another_hides_it_also_where_it_is_not_seen_itself(config: Path) -> None:
    write(config / "skills", "a", "configuration", "roles: [lead]\n")
    assert scopes(config, {"a": head_of("a")}) == {}


def test_no_skill_of_the_workspace_or_the_home_is_one(config: Path, broker: FakeBroker) -> None:
    """Nobody approved them: neither by their place, nor where the configuration links to them."""
    state = config.parent / "state"
    for folder in ("work/skills", "home/skills", "home/.claude/skills", "work/.claude/skills"):
        write(state / folder, "foreign", "foreign")
    (config / "skills" / "foreign").symlink_to(state / "work" / "skills" / "foreign")
    assert scopes(config, {}) == {}
    with Link(broker.path) as link, pytest.raises(NotFound, match="no skill foreign"):
        skill_text(link, "foreign")


def test_a_whole_folder_that_is_a_link_to_the_workspace_has_no_skills(config: Path) -> None:
    write(config.parent / "state" / "work" / "skills", "foreign", "foreign")
    (config / "skills").rmdir()
    (config / "skills").symlink_to(config.parent / "state" / "work" / "skills")
    assert scopes(config, {}) == {}


@pytest.mark.parametrize(("head", "reader", "is_seen"), [
    ("roles: [worker, lead]", WORKER, True),
    ("roles: lead", WORKER, False),
    ("roles:\n  - queen", SkillReader("daemon", "queen", "running"), True),
    ("roles: []", WORKER, False),
    ("phases: running, editing", SkillReader("daemon", "queen", "running"), True),
    ("phases: running, editing", SkillReader("daemon", "queen", "staging"), False),
    ("phases: running", WORKER, False),
    ("tools: read", WORKER, True),
    ("tools: [read, bash]", WORKER, False),
])  # fmt: skip
def test_a_skill_is_seen_by_role_phase_and_tools(
    config: Path,
    broker: FakeBroker,
    head: str,
    reader: SkillReader,
    is_seen: bool,  # noqa: FBT001
) -> None:
    """And read by those alone that see it."""
    assert scopes(config, {"a": head_of("a", f"{head}\n")}, reader) == (
        {"a": "host"} if is_seen else {}
    )
    broker.answers["Whoami"] = lambda _: {"role": reader.role}
    tools = [{"name": name} for name in reader.tools]
    broker.answers["ListToolset"] = lambda _: {
        "tools": tools, "profile": reader.profile, "phase": reader.phase,
    }  # fmt: skip
    write(config / "skills", "b", "configuration", f"{head}\n")
    with Link(broker.path) as link:
        if is_seen:
            assert skill_text(link, "b") == "That of configuration.\n"
        else:
            with pytest.raises(NotFound, match="there are: none"):
                skill_text(link, "b")


readers = st.builds(
    SkillReader, st.sampled_from(ROLES), st.sampled_from(ROLES), st.sampled_from(ROLES),
    st.frozensets(st.sampled_from(TOOLS)),
)  # fmt: skip


@given(st.text("rolesphatw:[]-, \n", max_size=60), readers, st.frozensets(st.sampled_from(TOOLS)))
def test_an_agent_with_fewer_tools_sees_no_more(
    head: str, reader: SkillReader, removed: frozenset[str]
) -> None:
    skill = Skill.of("a", HOST, head_of("a", f"tools: [read, bash]\n{head}\n").encode())
    fewer = SkillReader(reader.role, reader.profile, reader.phase, reader.tools - removed)
    assert skill is not None
    assert not skill.is_for(fewer) or skill.is_for(reader)
    assert not skill.is_for(reader) or skill.tools <= reader.tools
