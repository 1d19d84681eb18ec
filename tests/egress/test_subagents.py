"""The network of sub-agents: their own socket, and rules within those of their parent (H29)."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from egress.test_connections import decision, end_of
from fixtures.egress import AGENT, EgressHost, run_egress
from fixtures.models import until
from hypothesis import given
from hypothesis import strategies as st

from hive_core.model.agents.subagent import INHERIT, SubAgent
from hive_core.model.wire.egress import parse_target
from hive_core.policy.egress import decide_subagent_egress

WWW, OTHER = "www.example.org:443", "other.example.org:443"


def subagent(id_: str, opener: str, *network: str, agent: str = "") -> SubAgent:
    tools = frozenset({"bash"})
    return SubAgent(
        agent,
        id_,
        "named",
        "echo",
        opener,
        60_000 + len(opener),
        1,
        0,
        tools,
        "",
        0.0,
        1e12,
        network,
    )


async def open_sub(host: EgressHost, id_: str, opener: str, *network: str) -> None:
    """A sub-agent of the agent, whose socket takes the user of this process."""
    uuid = host.world.uuid(AGENT)
    with host.world.ledger.transaction():
        host.world.ledger.subagents.add(subagent(id_, opener, *network, agent=uuid))
    folder = host.folder / id_
    folder.mkdir()
    host.egress.open_subagent(f"{uuid}/{id_}", folder, os.getuid())
    await until(lambda: len(host.program.listeners) == len(host.egress.service_sockets.agents))


def test_a_sub_agent_connects_where_its_rules_and_those_above_it_allow(tmp_path: Path) -> None:
    async def main(host: EgressHost) -> None:
        await host.operator("grant_capability", agent=AGENT, capability="subagents")
        await host.serve()
        await open_sub(host, "one", "", WWW, "www.example.com:443")
        await open_sub(host, "two", "one", INHERIT)
        status, stream = await host.tunnel(WWW, "two")
        assert status == 200
        stream[1].close()
        event = await host.event()
        assert (event["sub"], *decision(event)) == ("two", WWW, "done", True)
        for name in ("one", "two"):
            assert "no egress rule of sub-agent one allows" in (await host.refusal(OTHER, name))[1]
        _, reason = await host.refusal("www.example.com:443", "one")
        assert "no egress rule of [egress] in hive.toml" in reason  # its agent may not
        assert [row["sub"] for row in host.events()[1:]] == ["one", "two", "one"]
        with host.world.ledger.transaction():
            host.world.ledger.subagents.delete("two")
        assert "sub-agent two is closed" in (await host.refusal(WWW, "two"))[1]

    run_egress(tmp_path, main)


def test_its_connections_end_when_its_agent_loses_the_profile(tmp_path: Path) -> None:
    async def main(host: EgressHost) -> None:
        await host.operator("grant_capability", agent=AGENT, capability="subagents")
        await host.serve()
        await open_sub(host, "one", "", INHERIT)
        status, stream = await host.tunnel(WWW, "one")
        assert status == 200
        await host.operator("revoke_capability", agent=AGENT, capability="network:egress-allowlist")
        assert await end_of(stream) == b""
        assert ((await host.event())["sub"], (await host.event())["status"]) == ("one", "ended")
        assert not host.path("one").exists()
        await host.operator("grant_capability", agent=AGENT, capability="network:egress-allowlist")
        await until(host.path("one").exists)
        await host.operator("revoke_capability", agent=AGENT, capability="subagents")
        assert "sub-agent one is closed" in (await host.refusal(WWW, "one"))[1]
        host.egress.close(f"{host.world.uuid(AGENT)}/one")
        with pytest.raises(FileNotFoundError):
            await asyncio.open_unix_connection(host.path("one"))

    run_egress(tmp_path, main)


RULES = st.lists(st.sampled_from([INHERIT, WWW, OTHER, "*.example.org:443"]), max_size=2)


@given(st.lists(RULES, min_size=1, max_size=4))
def test_no_sub_agent_connects_where_one_above_it_may_not(line: list[list[str]]) -> None:
    subs = [subagent(str(at), "", *network) for at, network in enumerate(line)]
    target = parse_target(WWW)
    allowed = [bool({INHERIT, WWW, "*.example.org:443"} & set(network)) for network in line]
    assert decide_subagent_egress(subs, target).allowed == all(allowed)
