"""agent.toml: every fault has a name and a place, and nothing that is written there breaks us."""

from __future__ import annotations

import re
import tomllib

import pytest
from each import for_each
from hypothesis import given
from hypothesis import strategies as st

from hive_core.errors import InvalidArgument
from hive_core.host.git.seed import LAYERS, seed
from hive_core.model.config import agent_config
from hive_core.model.config.agent_config import AgentConfig, ConfigRequest, McpServer
from hive_core.model.config.validation import find_faults
from hive_core.plan import toml

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["request", "limits", "mounts", "x", ""]), inner, max_size=3
        )
    ),
    max_leaves=8,
)
KEYS = ["request", "harness", "settings", "requset"]


@pytest.mark.parametrize("kind", LAYERS)
def test_the_template_says_nothing_and_shows_every_key(kind: str) -> None:
    """H8: every key of the template is commented."""
    text = seed(kind).files[agent_config.FILE][1].decode()
    assert agent_config.parse_agent_config(toml.parse(text.encode())) == AgentConfig()
    uncommented = re.sub(r"^# (\w+ = )", r"\1", text, flags=re.MULTILINE)
    result = agent_config.parse_agent_config(tomllib.loads(uncommented))
    for table in (result.harness, result.request, result.request.limits):
        assert table.model_fields_set == set(type(table).model_fields)
    assert result.settings
    assert result.mcp["git"].model_fields_set == set(McpServer.model_fields)


@for_each(
    "data, reason",
    [
        ({"requests": {}}, "requests: unknown key; did you mean request?"),
        ({"request": {"capabilites": []}}, "unknown key; did you mean capabilities?"),
        ({"request": {"limits": {"memory": 1}}}, "request.limits.memory: unknown key; did you m"),
        ({"harness": {"relaod": "live"}}, "harness.relaod: unknown key; did you mean reload?"),
        ({"request": {"capabilities": ["root"]}}, "capabilities[0]: 'root' is not a capability"),
        (
            {"request": {"mounts": ["meta", "home"]}},
            'mounts[1]: "home" does not fit; allowed is "meta" or "applied"',
        ),
        ({"request": {"secrets": ["../x"]}}, "request.secrets[0]: "),
        ({"request": {"command": [""]}}, "request.command: must start with a program"),
        ({"request": {"command": ["a\0b"]}}, "request.command: must not contain NUL"),
        ({"request": {"command": ["a" * 40_000]}}, "request.command: is longer than"),
        ({"request": []}, "agent.toml: request: "),
        ({"\u202e": 1}, r"agent.toml: '\u202e': unknown key"),
    ],
)
def test_a_fault_names_its_key(data: dict[str, object], reason: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        agent_config.parse_agent_config(data)
    assert reason in caught.value.reason
    assert caught.value.reason.isascii()


def test_all_faults_are_found_at_once() -> None:
    data = {"harnes": {}, "request": {"boot": 7, "limits": {"disk": 1}}}
    result = find_faults(AgentConfig, data)
    assert {entry.key for entry in result} == {"harnes", "request.boot", "request.limits.disk"}
    assert find_faults(AgentConfig, {}) == []


@given(st.dictionaries(st.sampled_from(KEYS), JSON, max_size=3))
def test_whatever_stands_there_is_a_configuration_or_has_a_fault(data: dict[str, object]) -> None:
    result = find_faults(AgentConfig, data)
    if result:
        with pytest.raises(InvalidArgument):
            agent_config.parse_agent_config(data)
    else:
        assert isinstance(agent_config.parse_agent_config(data), AgentConfig)


@given(st.binary(max_size=60) | st.text(alphabet="a=.[]{}\"'\n#1-:+", max_size=60).map(str.encode))
def test_whatever_the_bytes_are_there_are_tables_or_a_reason(data: bytes) -> None:
    try:
        result: object = toml.parse(data)
    except ValueError as error:
        result = str(error)
    assert isinstance(result, dict) or str(result).isprintable()


@for_each(
    "text, reason",
    [
        ("a = " + "[" * 5000, "nested too deep"),
        ("a = " + "[" * 20 + "]" * 20, "nested too deep"),
        ("a = " + "9" * 5000, "limit"),
        ("a = " + "9" * 40, "too large"),
        ("a = nan", "not finite"),
        ("a = [1, -inf]", "not finite"),
        ("a = 1\na = 2", "overwrite"),
        ("#" * 70_000, "larger than"),
    ],
)
def test_a_file_that_asks_too_much_of_its_reader_has_a_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        toml.parse(text.encode())


def test_bytes_that_are_no_text_have_a_reason_and_dates_become_text() -> None:
    with pytest.raises(ValueError, match="not UTF-8 at byte 4"):
        toml.parse(b"a = \xff")
    assert toml.parse(b"[settings]\nday = 2026-01-02\n") == {"settings": {"day": "2026-01-02"}}


@for_each(
    "wishes, held, then",
    [
        (ConfigRequest(), ("kill", "spawn"), ("kill", "spawn")),
        (ConfigRequest(capabilities=("spawn",)), ("kill",), ("spawn",)),
        (ConfigRequest(capabilities=()), ("kill",), ()),
        (ConfigRequest(secrets=("A", "B")), ("kill", "secret:C"), ("kill", "secret:A", "secret:B")),
        (ConfigRequest(mounts=("meta",)), ("applied.read",), ("meta.read",)),
        (ConfigRequest(mounts=()), ("applied.read", "spawn"), ("spawn",)),
        (ConfigRequest(network="lan"), ("network:wan",), ("network:lan",)),
        (ConfigRequest(network="none"), ("network:wan", "budget"), ("budget",)),
        (ConfigRequest(capabilities=("spawn",), secrets=("K",)), (), ("secret:K", "spawn")),
    ],
)
def test_wishes_name_all_of_their_own_kind(
    wishes: ConfigRequest, held: tuple[str, ...], then: tuple[str, ...]
) -> None:
    """H9: what an approved request leaves an agent with."""
    assert wishes.capabilities_after(held) == then
