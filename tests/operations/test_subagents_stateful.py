"""Sub-agents opened and closed in any order, by agents and by sub-agents: no limit is passed."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import pairwise

from fixtures.subagents import allow_subagents, listening
from fixtures.world import Reply, World, rows, world
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from long import times
from typing_extensions import override

from hive_core.errors import HiveError, LimitReached, NotAllowed, NotFound
from hive_core.model.agents.subagent import FORK_TOOL, SUBAGENT_UIDS
from hive_core.model.config.limits import SubAgentSettings
from hive_core.model.config.settings import Settings

BOUNDS = SubAgentSettings(most=3, max_depth=2, max_clone_fork_depth=1)
TOOLS = (FORK_TOOL, "get_task", "list_artifacts", "bash", "no_such_tool")
SECONDS = st.sampled_from([1.0, 5.0, 30.0])


class SubAgents(RuleBasedStateMachine):
    """`opened`: every sub-agent that ever was, by its address, with the address of its parent."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        made = world(Settings(subagents=BOUNDS), "root/a", "root/b")
        self.world: World = self.stack.enter_context(made)
        self.opened: dict[str, str] = {}

    @override
    def teardown(self) -> None:
        self.stack.close()

    @initialize()
    def allow(self) -> None:
        allow_subagents(self.world, "a", "b")
        profile = "network:egress-allowlist"
        self.world.call("operator", "grant_capability", agent="a", capability=profile)

    def rows(self) -> dict[str, Reply]:
        """The open ones, by address."""
        listed = rows(self.world.call("operator", "list_subagents")["subagents"])
        return {f"{row['agent']}/{row['id']}": row for row in listed}

    @rule(
        caller=st.data(), clone=st.booleans(), seconds=SECONDS,
        tools=st.lists(st.sampled_from(TOOLS), max_size=3),
        network=st.sampled_from([[], ["inherit"]]),
    )  # fmt: skip
    def open(
        self, caller: st.DataObject, tools: list[str], seconds: float, network: list[str], *,
        clone: bool,
    ) -> None:  # fmt: skip
        who = caller.draw(st.sampled_from(["a", "b", *self.opened]))
        kind, name = ("clone", "clone") if clone else ("named", "echo")
        try:
            new = self.world.call(
                who, "open_subagent", kind=kind, name=name, tools=tools, timeout_seconds=seconds,
                network=network,
            )  # fmt: skip
        except (LimitReached, NotAllowed, NotFound):
            return
        else:
            assert "bash" not in tools, "a manager has no tools of execution"
            assert "no_such_tool" not in tools
            self.opened[str(new["inbox"])] = who

    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        if not self.opened:
            return
        address = data.draw(st.sampled_from(list(self.opened)))
        who = data.draw(st.sampled_from(["a", "b", *self.opened]))
        is_open = address in self.rows()
        try:
            id_ = address.partition("/")[2]
            self.world.call(who, "close_subagent", id=id_, status="success")
        except HiveError:
            return
        assert is_open
        assert who in (address.partition("/")[0], self.opened[address])

    @rule(seconds=SECONDS)
    def wait(self, seconds: float) -> None:
        self.world.advance(seconds)

    @rule()
    def restart(self) -> None:
        self.world.restart()
        self.world.advance(0)
        assert not self.rows()

    @invariant()
    def holds_the_limits(self) -> None:
        open_rows = self.rows()
        for agent in ("a", "b"):
            own = [row for row in open_rows.values() if row["agent"] == agent]
            assert len(own) <= BOUNDS.most
            uids = [row["uid"] for row in own]
            assert len(set(uids)) == len(uids)
            assert all(uid in SUBAGENT_UIDS for uid in uids)
        for address, row in open_rows.items():
            line = self.line(address)
            kinds = [open_rows[above]["kind"] for above in line]
            assert row["depth"] == len(line) <= BOUNDS.max_depth
            assert row["clone_depth"] == kinds.count("clone") <= BOUNDS.max_clone_fork_depth
            assert float(str(row["deadline"])) > self.world.clock.now()
            for below, above in pairwise(line):
                assert bool(open_rows[below]["network"]) <= bool(open_rows[above]["network"])
                assert set(tools_of(open_rows[below])) <= set(tools_of(open_rows[above]))
                assert float(str(open_rows[below]["deadline"])) <= float(
                    str(open_rows[above]["deadline"])
                )
        assert len(listening(self.world)) == len(open_rows)
        wired = [address for address, row in open_rows.items() if row["network"]]
        assert len(self.world.reads.sockets.networked) == len(wired)
        assert not any(address.startswith("b/") for address in wired), "b has no profile"

    def line(self, address: str) -> list[str]:
        """The sub-agent and those above it; all of them are open."""
        line = [address]
        while "/" in (above := self.opened[line[-1]]):
            line.append(above)
        return line


def tools_of(row: Reply) -> list[object]:
    tools = row["tools"]
    assert isinstance(tools, list)
    return tools


TestSubAgents = SubAgents.TestCase
TestSubAgents.settings = settings(
    max_examples=times(10, 200), stateful_step_count=25, deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)  # fmt: skip
