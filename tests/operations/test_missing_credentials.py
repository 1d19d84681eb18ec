"""A run of a colony whose worker lacks credentials (rows Q19, Q37)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fixtures.phases import STA, ask, phase, queen_world
from fixtures.world import Reply, World, fields

from hive_core.errors import NotAllowed
from hive_core.model.config.limits import TaskSettings
from hive_core.model.config.settings import Settings

ACCOUNT: Reply = {"provider": "github", "tools": ["bash"]}


@pytest.fixture(name="hive")
def _hive() -> Iterator[World]:
    with queen_world() as it:
        yield it


def put_credential(hive: World, key: str) -> None:
    hive.call("operator", "grant_capability", agent="wu", capability=f"secret:{key}")
    hive.call("operator", "set_secret", agent="wu", key=key, value="s3cret", **ACCOUNT)


def lose_credential(hive: World, key: str, how: str) -> None:
    if how == "expired":
        hive.call("wu", "report_expired_credential", key=key, message="401")
    else:
        hive.call("operator", "remove_secret", agent="wu", key=key)


@pytest.mark.parametrize("how", ["expired", "removed"])
def test_a_run_drops_the_tools_whose_credentials_are_missing(hive: World, how: str) -> None:
    """Q19, Q37: for its task, as long as that is so; result, event and letter say which."""
    put_credential(hive, "token")
    ask(hive, "operator", "open_colony")
    lose_credential(hive, "token", how)
    run = ask(hive, "queen", "run_agent_with_input")
    assert (run["credentials"], run["dropped"]) == (["token"], ["bash"])
    (event,) = [row for row in hive.events() if row["operation"] == "run_agent_with_input"]
    assert (fields(event)["credentials"], fields(event)["dropped"]) == (["token"], ["bash"])
    (letter,) = [row for row in hive.mail("wu") if row["kind"] == "task"]
    assert "without: bash, for want of a credential" in str(letter["body"])
    hive.call("wu", "begin_task", task=run["task"])
    with pytest.raises(NotAllowed, match="goes without it, as a credential for it is missing"):
        hive.call("wu", "use_tool", tool="bash", argument=["ls"], task=run["task"])
    hive.call("wu", "use_tool", tool="read", argument=["a"], task=run["task"])
    hive.call("operator", "set_secret", agent="wu", key="token", value="new", **ACCOUNT)
    hive.call("wu", "use_tool", tool="bash", argument=["ls"], task=run["task"])


def test_a_tool_with_another_credential_is_not_dropped(hive: World) -> None:
    """Q19."""
    put_credential(hive, "token")
    put_credential(hive, "other")
    ask(hive, "operator", "open_colony")
    lose_credential(hive, "token", "removed")
    run = ask(hive, "queen", "run_agent_with_input")
    assert (run["credentials"], run["dropped"]) == (["token"], [])


def test_a_host_may_refuse_a_run_without_its_credentials() -> None:
    """Q37: nothing starts, and the refusal lists what is required."""
    with queen_world(Settings(tasks=TaskSettings(missing_credentials="refuse"))) as hive:
        put_credential(hive, "token")
        ask(hive, "operator", "open_colony")
        lose_credential(hive, "token", "removed")
        with pytest.raises(NotAllowed, match="token, which has no value") as refused:
            ask(hive, "queen", "run_agent_with_input")
        assert refused.value.fields["credentials"] == ["token"]
        assert phase(hive) == STA.value
        assert not hive.mail("wu")
