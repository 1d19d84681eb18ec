"""hive-agent prompt, the context that it renders, and the skills of a configuration."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.fake_broker import FakeBroker, fake_broker
from hypothesis import given
from hypothesis import strategies as st

from hive_core.agent import prompt_context, skills
from hive_core.agent.prompt import run_prompt
from hive_core.agent.prompt_context import PROMPT_MOST, save_definition
from hive_core.agent.reconnect import Link
from hive_core.agent.session.records import encode_record
from hive_core.agent.skill_text import skill_text
from hive_core.agent.skills import Skill, SkillFolder
from hive_core.agent.tool import run_tool
from hive_core.errors import HiveError, InvalidArgument, NotFound

SEED = Path(prompt_context.__file__).parents[1] / "seed" / "host"
TOOLS = ["get_task", "create_plan", "update_plan_step", "report_progress", "finish_task", "send",
         "ask", "whoami", "get_artifact", "list_artifacts", "read_skill"]  # fmt: skip


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[FakeBroker]:
    with fake_broker(tmp_path / "broker.sock") as made:
        made.answers = {
            "Whoami": lambda _: {
                "name": "bob", "role": "task", "tier": "operational", "title": "", "parent": "lead",
                "children": [], "capabilities": [],
            },
            "ListToolset": lambda _: {
                "role": "task", "profile": "", "tools": [{"name": name} for name in TOOLS],
            },
            "GetPrompts": lambda _: {"files": {}},
        }  # fmt: skip
        yield made


@pytest.fixture
def config(tmp_path: Path) -> Path:
    place = tmp_path / "config"
    place.mkdir()
    return place


def own_skills(config: Path) -> dict[str, Skill]:
    return skills.find_skills([SkillFolder("configuration", config / "skills", config)])


def skill(config: Path, name: str, head: str, body: str = "Do it so.") -> None:
    folder = config / "skills" / name
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(f"---\n{head}\n---\n\n{body}\n")


def sources(broker: FakeBroker, state: Path, config: Path) -> dict[str, object]:
    with Link(broker.path) as link:
        return prompt_context.prompt_context(link, state, Path("/work"), config)


def test_a_context_without_any_configuration_is_the_identity(
    broker: FakeBroker, tmp_path: Path, config: Path
) -> None:
    assert sources(broker, tmp_path, config) == {
        "name": "bob", "role": "task", "tier": "operational", "title": "", "parent": "lead",
        "children": [], "capabilities": [], "profile": "", "workspace": "/work",
        "tools": {name: name for name in TOOLS if name != "read_skill"}, "instructions": "",
        "definition": "", "skills": [], "deployed": {}, "operator": {},
    }  # fmt: skip


def test_what_people_wrote_is_read_from_the_deployed_configuration(
    broker: FakeBroker, tmp_path: Path, config: Path
) -> None:
    (config / "agent.toml").write_text('[harness]\ninstructions = "ME.md"\nprompts = "p"\n')
    (config / "ME.md").write_text("Be exact.")
    (config / "p" / "roles").mkdir(parents=True)
    (config / "p" / "roles" / "task.md").write_text("OWN")
    skill(config, "review", "name: review\ndescription: How to review.")
    save_definition(tmp_path, "You review.")
    broker.answers["GetPrompts"] = lambda _: {"files": {"system.md": "HOST"}}
    context = sources(broker, tmp_path, config)
    assert context["instructions"] == "Be exact."
    assert context["definition"] == "You review."
    assert context["deployed"] == {"roles/task.md": "OWN"}
    assert context["operator"] == {"system.md": "HOST"}
    assert context["skills"] == [{
        "name": "review", "description": "How to review.", "scope": "configuration", "tools": [],
    }]  # fmt: skip
    tools = context["tools"]
    assert isinstance(tools, dict)
    assert "read_skill" in tools


def test_the_instructions_of_the_template_are_none(
    broker: FakeBroker, tmp_path: Path, config: Path
) -> None:
    (config / "AGENTS.md").write_bytes((SEED / "AGENTS.md").read_bytes())
    assert sources(broker, tmp_path, config)["instructions"] == ""


def test_prompts_that_are_too_large_are_refused(
    broker: FakeBroker, tmp_path: Path, config: Path
) -> None:
    (config / "prompts").mkdir()
    (config / "prompts" / "a.md").write_text("x" * (PROMPT_MOST + 1))
    with pytest.raises(InvalidArgument, match="larger"):
        sources(broker, tmp_path, config)
    for number in range(3):
        (config / "prompts" / f"{'abc'[number]}.md").write_text("x" * PROMPT_MOST)
    with pytest.raises(InvalidArgument, match="more than"):
        sources(broker, tmp_path, config)


def test_a_definition_replaces_the_one_before(tmp_path: Path) -> None:
    save_definition(tmp_path, "one")
    save_definition(tmp_path, "two")
    assert (tmp_path / "definition").read_text() == "two"


def run_new(broker: FakeBroker, state: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setenv("HIVE_RUNTIME", "")
    return run_prompt(broker.path, ["--new", "--state", str(state)])


def test_a_new_prompt_is_rendered_by_the_runtime_the_same_each_time(
    broker: FakeBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    tmp_path.chmod(0o755)
    assert run_new(broker, tmp_path, monkeypatch) == 0
    first = capfd.readouterr()
    assert "You are bob" in first.out
    assert first.err == f"hive-agent: sha256 {hashlib.sha256(first.out.encode()).hexdigest()}\n"
    assert run_new(broker, tmp_path, monkeypatch) == 0
    assert capfd.readouterr().out == first.out


def test_a_prompt_that_cannot_be_rendered_says_which_file(
    broker: FakeBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.answers["GetPrompts"] = lambda _: {"files": {"roles/task.md": "{{ gone }}"}}
    with pytest.raises(HiveError, match=r"roles/task\.md"):
        run_new(broker, tmp_path, monkeypatch)


def test_the_prompt_of_a_conversation_comes_from_its_log(
    broker: FakeBroker, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "session" / "task-1"
    folder.mkdir(parents=True)
    rows = [{"t": "system", "text": "old"}, {"t": "system", "text": "frozen ✓\n"}]
    (folder / "log").write_bytes(b"".join(encode_record(dict(row)) for row in rows) + b"torn")
    words = ["--state", str(tmp_path), "--conversation", "task-1"]
    assert run_prompt(broker.path, words) == 0
    assert capfd.readouterr().out == "frozen ✓\n"


@pytest.mark.parametrize(("conversation", "error"), [
    ("main", NotFound), ("../x", InvalidArgument), (".hidden", InvalidArgument),
])  # fmt: skip
def test_a_conversation_that_is_not_there_is_an_error(
    broker: FakeBroker, tmp_path: Path, conversation: str, error: type[HiveError]
) -> None:
    with pytest.raises(error):
        run_prompt(broker.path, ["--state", str(tmp_path), "--conversation", conversation])


def test_a_log_without_a_prompt_says_so(broker: FakeBroker, tmp_path: Path) -> None:
    (tmp_path / "session" / "main").mkdir(parents=True)
    (tmp_path / "session" / "main" / "log").write_bytes(encode_record({"t": "input", "text": "x"}))
    with pytest.raises(NotFound, match="--new"):
        run_prompt(broker.path, ["--state", str(tmp_path)])


# Skills.

HEADS = {
    "name: a\ndescription: Plain.": "Plain.",
    'name: a\ndescription: "Quoted: yes."': "Quoted: yes.",
    "name: a\ndescription: >-\n  Folded\n  over lines.\nlicense: MIT": "Folded over lines.",
    "description: No name.": "No name.",
}


@pytest.mark.parametrize(("head", "description"), HEADS.items())
def test_front_matter_is_read_as_people_write_it(config: Path, head: str, description: str) -> None:
    skill(config, "a", head)
    assert {name: row.description for name, row in own_skills(config).items()} == {"a": description}


@pytest.mark.parametrize(("name", "head"), [
    ("a", "name: b\ndescription: x"), ("a", "name: a"), ("Bad_Name", "description: x"),
])  # fmt: skip
def test_what_is_no_skill_is_passed_over(config: Path, name: str, head: str) -> None:
    """Its name is that of its folder, and it says what it is for."""
    skill(config, name, head)
    assert own_skills(config) == {}


def test_a_skill_without_front_matter_is_none(config: Path) -> None:
    folder = config / "skills" / "a"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("Just text.")
    assert own_skills(config) == {}


def test_a_skill_that_is_not_there_is_an_error_with_those_that_are(
    broker: FakeBroker, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIVE_CONFIG", str(config))
    skill(config, "a", "description: x")
    with Link(broker.path) as link:
        assert skill_text(link, "a") == "Do it so.\n"
        with pytest.raises(NotFound, match="there are: a"):
            skill_text(link, "b")
        with pytest.raises(InvalidArgument):
            skill_text(link, "../a")


def test_reading_a_skill_needs_no_grant(
    broker: FakeBroker, config: Path, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """A manager has skills too, and executes nothing."""
    skill(config, "a", "description: x")
    monkeypatch.setenv("HIVE_CONFIG", str(config))
    assert run_tool(broker.path, ["read_skill", "a"]) == 0
    assert capfd.readouterr().out == "Do it so.\n"
    assert broker.params_of("UseTool") == []


@given(st.binary(max_size=400), st.text(max_size=80))
def test_any_file_is_a_skill_or_is_passed_over(data: bytes, head: str) -> None:
    """Whatever an approved configuration has in a SKILL.md: no crash, one line, within bounds."""
    for content in (data, f"---\n{head}\ndescription: x\n---\n".encode(errors="replace") + data):
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "a"
            place.mkdir()
            (place / "SKILL.md").write_bytes(content)
            root = Path(folder)
            for name, row in skills.find_skills([SkillFolder("host", root, root)]).items():
                assert name == "a"
                assert 0 < len(row.description) <= skills.DESCRIPTION_MOST
                assert "\n" not in row.description
                assert row.file is not None
                assert isinstance(skills.instructions(row.file.read_bytes()), str)
