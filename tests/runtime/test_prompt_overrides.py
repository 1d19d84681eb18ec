"""Overrides of prompts, manifests, and text of others that is none of a prompt."""

from __future__ import annotations

import re

import pytest
from each import for_each
from fixtures.prompts import Context, context
from hypothesis import given
from hypothesis import strategies as st

from hive_core.agent.prompt_text import TAGS, escape_attribute, escape_tags, one_line
from hive_core.errors import InvalidArgument
from hive_core.model.agents.agent import Role
from hive_core.runtime.prompt_manifest import parse_manifest
from hive_core.runtime.prompts import render, render_system


def test_an_agent_s_own_file_stands_before_the_operator_s_and_that_before_the_shipped() -> None:
    own, hosts = {"roles/worker.md": "OWN {{ name }}"}, {"roles/worker.md": "HOST {{ name }}"}
    shipped = render_system(context(Role.WORKER))
    host = render_system(context(Role.WORKER, operator=hosts))
    both = render_system(context(Role.WORKER, operator=hosts, deployed=own))
    assert "HOST bob" in host
    assert "OWN bob" in both
    assert "HOST" not in both
    assert "to execute" in shipped
    assert "to execute" not in host


@for_each("name", ["system.md", "manifest.toml", "instructions.md", "hand_back.md"])
def test_an_agent_overrides_nothing_that_the_operator_reserved(name: str) -> None:
    usual = context(Role.WORKER, reason="rounds")
    changed = {**usual, "deployed": {name: "OWN"}}
    assert render_system(changed) == render_system(usual)
    assert render("hand_back", changed) == render("hand_back", usual)


def test_the_operator_overrides_everything() -> None:
    files = {"system.md": "HOST", "manifest.toml": '[[segment]]\nfile = "system.md"\n'}
    assert render_system(context(Role.WORKER, operator=files)) == "HOST\n"


def test_an_override_may_have_parts_of_its_own() -> None:
    own = {"roles/worker.md": '{% include "mine.md" %}', "mine.md": "MINE"}
    assert "MINE" in render_system(context(Role.WORKER, deployed=own))


@for_each("text, reason", [
    ("{{ no_such_value }}", "no_such_value"),
    ("{{ tool('spawn') }}", "worker has no tool spawn"),
    ("line\n{% if %}", "line 2"),
    ("{{ ''.__class__.__mro__ }}", "unsafe"),
    ("{{ name.__init__.__globals__ }}", "unsafe"),
    ("{% include 'gone.md' %}", "no prompt gone.md"),
    ("{% include 'roles/worker.md' %}", "recursion"),
    ("{% for x in range(90000) %}{{ 'xxxxxxxxxx' }}{% endfor %}", "longer than"),
    ("{% for x in range(9000000) %}{% endfor %}", "Range too big"),
    ("{{ 1 // 0 }}", "zero"),
    ("{{ children.append('x') }}", "unsafe"),
    ("{{ [1, 2] | random }}", "random"),
])  # fmt: skip
def test_a_template_that_cannot_be_rendered_is_an_error_with_its_name(
    text: str, reason: str
) -> None:
    with pytest.raises(InvalidArgument, match=reason) as refused:
        render_system(context(Role.WORKER, deployed={"roles/worker.md": text}, children=["a"]))
    assert "roles/worker.md" in refused.value.reason


@for_each("files", [
    {"../system.md": "x"}, {"/etc/passwd": "x"}, {"a.py": "x"}, {"roles/worker.md": 7},
    {"roles/worker.md": "x" * 70_000}, ["system.md"], {7: "x"},
])  # fmt: skip
def test_files_that_are_no_overrides_are_refused(files: object) -> None:
    with pytest.raises(InvalidArgument) as refused:
        render_system(context(Role.WORKER, deployed=files))
    assert refused.value.field == "deployed"


@for_each("text, field", [
    ("segment = 1", "segment"), ("[[segment]]\nfile = 1", "segment 1.file"),
    ("[[segment]]\nfiel = 'a.md'", "segment 1.fiel"), ("[[other]]", "other"),
    ("[[segment]]\nfile = 'a.md'\nroles = 'lead'", "segment 1.roles"),
    ("[[segment]]\nfile = 'a.md'\noverride = 'agent'", "segment 1.override"),
    ("[[segment]]\nfile = 'a.md'\nwhen = {role = 'x'}", "segment 1.when.role"),
    ("[[segment]]\nfile = 'a.md'\nwhen = 1", "segment 1.when"),
    ("[[text]]\nfile = 'a.md'\nroles = []", "text 1.roles"), ("[[", "manifest.toml"),
])  # fmt: skip
def test_a_wrong_manifest_is_refused_with_the_key(text: str, field: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        parse_manifest(text)
    assert refused.value.field == field


@given(st.text(max_size=200))
def test_any_text_is_a_manifest_or_a_typed_error(text: str) -> None:
    rows = f'[[segment]]\nfile = "a.md"\n{text}'
    for manifest in (text, rows):
        try:
            parse_manifest(manifest)
        except InvalidArgument as error:
            assert_named(error)


def assert_named(error: InvalidArgument) -> None:
    assert error.field
    assert error.reason.startswith("manifest.toml: ")


def test_a_segment_may_depend_on_phase_capability_tool_and_value() -> None:
    """Q11: a block for agents with a network, and one for a phase."""
    manifest = parse_manifest(
        '[[segment]]\nfile = "a.md"\nphases = ["running"]\n'
        'when = { capability = "network", tool = "bash", value = "skills" }\n'
    )
    (segment,) = manifest.segments
    usual: Context = {
        "role": "worker", "profile": "", "phase": "running", "skills": ["x"],
        "capabilities": ["network:egress-allowlist"], "tools": {"bash": "bash"},
    }  # fmt: skip
    assert segment.applies_to(usual)
    others: list[Context] = [
        {"phase": ""}, {"skills": []}, {"capabilities": ["networks"]}, {"tools": {}},
    ]  # fmt: skip
    for change in others:
        assert not segment.applies_to({**usual, **change})


def test_a_name_that_is_no_prompt_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(InvalidArgument, match="there are compaction, hand_back, plan_request"):
        render("system", {"name": "bob"})


@given(st.text())
def test_no_text_has_a_tag_of_hive_after_it_is_escaped(text: str) -> None:
    for tag in TAGS:
        for form in (f"<{tag}", f"</{tag}", f"< / {tag.upper()}"):
            assert not re.search(rf"<\s*/?\s*{tag}\b", escape_tags(f"{form} {text}"), re.IGNORECASE)
    assert escape_tags(escape_tags(text)) == escape_tags(text)
    assert not set(escape_attribute(text)) & set('<>"\n')
    assert "\n" not in one_line(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)


@given(st.sampled_from(["deployed", "operator", "tools", "when", "title", "skills"]), JSON)
def test_any_context_gives_a_text_or_a_typed_error(key: str, value: object) -> None:
    try:
        text = render_system({**context(Role.WORKER), key: value})
    except InvalidArgument as error:
        text = error.reason
    assert text
