"""A maid on the real broker, without containers; and what she checks, as a test has it end."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from operations.machines import end_machine, start_machines
from operations.world import Reply, World, rows, world
from typing_extensions import override

from hive_core.agent.maid import REPORT, HostUsage, MaidAgent
from hive_core.agent.reconnect import Link
from hive_core.errors import HIVE, InvalidArgument
from hive_core.model.agents.agent import Profile
from hive_core.model.config.settings import Settings
from hive_core.model.work.checks import MaidCheck
from hive_core.model.work.checks import MaidConfig as Table
from hive_core.reconcile.built_in_agents import creation_of
from hive_core.varlink import Message

CALM = HostUsage(0.3, 0.4)


class Wire(Link):
    """A link without a socket: the world answers in the same thread, or refuses what it has to."""

    def __init__(self, made: World, refuses: Collection[str]) -> None:
        super().__init__("")
        self._world, self._uuid, self._refuses = made, made.uuid("maid"), refuses

    @override
    def call(self, method: str, params: Message, *, repeat: bool = False) -> Message:
        name = method.removeprefix(HIVE)
        operation = "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")
        if operation in self._refuses:
            raise InvalidArgument(f"no {operation} today")
        asked = self._world.ask_as(self._uuid, operation, params)
        if asked.pending:
            self._world.advance(float(str(params.get("wait", 0))))
        return asked.result()


@dataclass
class MaidHost:
    """A hive with a maid, and what its host looks like."""

    world: World
    host: list[HostUsage] = field(default_factory=list)
    refuses: set[str] = field(default_factory=set)

    def maid(self) -> MaidAgent:
        """As it is after a start."""
        made = MaidAgent(
            Wire(self.world, self.refuses), lambda: self.host.pop() if self.host else CALM,
            lambda: self.world.clock.steady, lambda: self.world.clock.time,
        )  # fmt: skip
        made.restore()
        return made

    def reports(self) -> list[str]:
        """What the parent of the maid got, and takes."""
        messages = [row for row in self.world.mail("queen") if row["kind"] == "health"]
        if messages:
            self.world.call("queen", "ack", ids=[row["id"] for row in messages])
        return [str(row["body"]) for row in messages]

    def checker(self, maid: MaidAgent, check: str) -> str:
        """Who does this check now, as soon as it runs."""
        run = maid.checks.running[check]
        start_machines(self.world, run.agent)
        self.world.finish(run.job)
        maid.checks.step()
        return run.agent

    def run_check(self, maid: MaidAgent, check: str, code: int = 0, output: str = "") -> None:
        """One is done, and the maid has heard of it and looked around."""
        maid.checks.step()
        end_machine(self.world, self.checker(maid, check), code, output=output)
        maid.wait(1)
        self.world.advance(0)
        maid.look()

    def report(self) -> str:
        """The newest that is stored."""
        reply = self.world.call("queen", "get_artifact", name=REPORT, owner="maid")
        return b64decode(str(reply["data"])).decode()

    def escalations(self) -> list[Reply]:
        """Escalations that wait on the queen."""
        return rows(self.world.call("queen", "list_questions")["questions"])

    def set_checks(self, **checks: MaidCheck) -> None:
        """The operator changes the settings, and the daemon reads them."""
        self.world.settings = self.world.settings.model_copy(update={"maid": Table(checks=checks)})
        self.world.restart()

    def below(self) -> list[str]:
        return list(self.world.hive.topology.children("maid"))


@contextmanager
def maid_host(settings: Settings) -> Iterator[MaidHost]:
    """Under the root agent a queen, and under her a maid."""
    with world(settings) as made:
        for profile in (Profile.QUEEN, Profile.MAID):
            made.broker.perform("ensure", creation_of(profile))
        start_machines(made, "root", "queen", "maid")
        yield MaidHost(made)
