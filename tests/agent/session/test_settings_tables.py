"""The session, which has no pydantic, reads agent.toml as the daemon that has checked it does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from each import for_each
from hypothesis import example, given
from hypothesis import strategies as st

from hive_core.agent.session.judge_settings import JudgeSettings
from hive_core.agent.session.memory.settings import MemorySettings
from hive_core.agent.session.runtimes.acp_custom import AcpSettings
from hive_core.agent.session.services import SessionSettings
from hive_core.agent.session.settings_table import read_agent_table
from hive_core.agent.session.subagents.settings import ForkSettings
from hive_core.errors import InvalidArgument
from hive_core.model.config.agent_config import AgentConfig, parse_agent_config

READERS: dict[str, Callable[[Mapping[str, object]], Any]] = {
    "session": SessionSettings.of, "memory": MemorySettings.of, "subagents": ForkSettings.of,
    "acp": AcpSettings.of, "judge": JudgeSettings.of,
}  # fmt: skip
KEYS = [(table, key) for table in READERS
        for key in type(getattr(AgentConfig(), table)).model_fields]  # fmt: skip
EDGES = [-1, 0, 1, 3, 4, 16, 17, 200, 201, 1000, 1001, 86_400, 86_401, 10**9, 10**9 + 1,
         0.1, 0.95, 0.96, True, False, "", "a", "A b", "hide:bash", "artifact", "../x", "a/..", [],
         ["bash"], [1], {}, {"A": "b"}, {"A": 1}, float("nan")]  # fmt: skip


def daemon_takes(table: str, values: Mapping[str, object]) -> bool:
    try:
        parse_agent_config({table: dict(values)})
    except InvalidArgument:
        return False
    return True


def session_takes(table: str, values: Mapping[str, object]) -> bool:
    try:
        READERS[table](values)
    except InvalidArgument:
        return False
    return True


@for_each("table", READERS)
def test_the_session_and_the_daemon_have_the_same_settings_and_defaults(table: str) -> None:
    empty = {None: 0} if table == "session" else {None: ""}
    daemon = {key: empty.get(value, value) if value is None else value
              for key, value in getattr(AgentConfig(), table).model_dump().items()}  # fmt: skip
    assert asdict(READERS[table]({})) == daemon


@given(st.sampled_from(KEYS), st.sampled_from(EDGES) | st.integers() | st.floats() | st.text())
@example(("session", "rounds"), 1.0)
def test_what_the_daemon_has_approved_the_session_takes(
    key: tuple[str, str], value: object
) -> None:
    table, name = key
    if daemon_takes(table, {name: value}):
        assert session_takes(table, {name: value})


@for_each("table, key", KEYS)
def test_what_a_person_writes_by_hand_is_refused_by_both(table: str, key: str) -> None:
    """The edges of each bound, and values of other types."""
    for value in EDGES:
        values = {key: value}
        assert daemon_takes(table, values) == session_takes(table, values), value


@for_each("table", READERS)
def test_an_unknown_setting_is_named_by_both(table: str) -> None:
    with pytest.raises(InvalidArgument, match=rf"^\[{table}\] has no setting 'other'; it has "):
        READERS[table]({"other": 1})
    assert not daemon_takes(table, {"other": 1})


@pytest.mark.parametrize("text", ["[session", "session = 1", "\udcff"])
def test_a_damaged_file_is_refused_with_its_table(tmp_path: Path, text: str) -> None:
    file = tmp_path / "agent.toml"
    assert read_agent_table(file, "session") == {}
    file.write_text(text, errors="surrogateescape")
    with pytest.raises(InvalidArgument) as refused:
        read_agent_table(file, "session")
    assert refused.value.parameters["field"] == "session"
