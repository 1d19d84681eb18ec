"""An agent, hive-model and hived together: real sockets, the real broker, a model of rules."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from fixtures.models import ModelHost, until
from fixtures.world import World, world

from hive_core.host.sockets.model_sockets import AgentSocketGroup, ModelSockets
from hive_core.host.sockets.server import SocketServer
from hive_core.host.sockets.service_sockets import ServiceSockets
from hive_core.model.config.models import parse_models
from hive_core.model.config.settings import Paths, Settings
from hive_core.model.work.budget import BudgetKind
from hive_core.proxy.main import ProxyOptions, build

RULES = """
[[rules]]
match = "hello"
text = "good morning"
"""
MODELS = """
default = "rules"
[providers.one]
kind = "scripted"
path = "{folder}/rules.toml"
[models.rules]
provider = "one"
name = "rules"
price_in = 1.0
price_out = 2.0
[models.dear]
provider = "one"
name = "dear"
"""
BODY = {
    "model": "rules", "max_tokens": 100, "messages": [{"role": "user", "content": "hello there"}],
}  # fmt: skip


@dataclass
class Together:
    """The agent `a` with its socket, served by hive-model, accounted for by hived."""

    world: World
    folder: Path
    sockets: SocketServer
    doors: ServiceSockets
    agent: ModelHost

    def budget(self) -> tuple[int, int, int]:
        budget = self.world.ledger.budgets.get(self.world.uuid("a"), BudgetKind.TOKENS)
        assert budget is not None
        return budget.free, budget.held, budget.spent

    def events(self) -> list[dict[str, object]]:
        """The events of calls, read from the ledger: the broker belongs to the sockets now."""
        events = self.world.ledger.events.page(0, 1000)
        return [dict(event.fields) for event in events if event.kind == "model"]


@asynccontextmanager
async def together(made: World, folder: Path) -> AsyncIterator[Together]:
    faults: list[BaseException] = []
    sockets = SocketServer(made.broker, made.reads, faults.append)
    doors, paths = ServiceSockets(os.getuid()), Paths(runtime=folder)
    await ModelSockets(sockets, doors, paths, {}, lambda: made.broker.hive).listen()
    pair = AgentSocketGroup(sockets, doors, lambda uuid: made.hive.names[uuid])
    await pair.listen(made.uuid("a"), folder / "broker.sock", 0)
    program = build(ProxyOptions(
        folder / "models.toml", folder / "keys", paths.model_control_socket,
        paths.hand_model_socket, folder / "operator.sock", folder / "small.sock",
        folder / "unsettled", note_every=0.05, patience=5.0,
    ))  # fmt: skip
    program.start()
    try:
        await until(lambda: len(program.listeners) == 1)
        agent = ModelHost(folder, None, program, folder / "model.sock")  # type: ignore[arg-type]
        yield Together(made, folder, sockets, doors, agent)
    finally:
        await program.stop()
        doors.stop()
        sockets.stop()
        await asyncio.sleep(0)
        made.broker.attach(made)
    assert not faults


def run(tmp_path: Path, tokens: int, main: Callable[[Together], Awaitable[None]]) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "rules.toml").write_text(RULES)
    text = MODELS.replace("{folder}", str(tmp_path))
    (tmp_path / "models.toml").write_text(text)
    with world(Settings(), "root/a", models=parse_models(text)) as made:
        made.call("operator", "allocate_budget", agent="a", kind="tokens", amount=tokens)

        async def whole() -> None:
            async with together(made, tmp_path) as all_parts:
                await main(all_parts)

        asyncio.run(asyncio.wait_for(whole(), 60))


def test_a_call_is_answered_measured_and_paid(tmp_path: Path) -> None:
    """Rows Q39 and Q43."""

    async def main(parts: Together) -> None:
        answer = await parts.agent.post("/v1/chat/completions", BODY)
        assert answer.status == 200, answer.body
        assert answer.json["choices"][0]["message"]["content"] == "good morning"
        usage = answer.json["usage"]
        used = usage["prompt_tokens"] + usage["completion_tokens"]
        await until(lambda: bool(parts.events()))
        assert parts.budget() == (1000 - used, 0, used)
        (event,) = parts.events()
        assert (event["alias"], event["status"], event["source"]) == ("rules", "done", "measured")
        assert event["tokens_in"] == usage["prompt_tokens"]

    run(tmp_path, 1000, main)


def test_a_call_beyond_the_budget_or_to_a_model_of_others_is_refused(tmp_path: Path) -> None:
    async def main(parts: Together) -> None:
        refused = await parts.agent.post("/v1/chat/completions", BODY)
        assert refused.status == 402
        assert "the token budget of a" in str(refused.json)
        assert refused.headers["x-should-retry"] == "false"
        refused = await parts.agent.post("/v1/chat/completions", {**BODY, "model": "dear"})
        assert refused.status == 403
        refused = await parts.agent.post("/v1/chat/completions", {**BODY, "model": "gone"})
        assert refused.status == 404
        assert parts.budget() == (1, 0, 0)
        assert parts.events() == []

    run(tmp_path, 1, main)


def test_calls_of_an_agent_that_is_gone_are_not_accepted(tmp_path: Path) -> None:
    async def main(parts: Together) -> None:
        assert (await parts.agent.post("/v1/chat/completions", BODY)).status == 200
        parts.doors.close(parts.world.uuid("a"))
        await until(lambda: len(parts.agent.program.listeners) == 0)
        assert not (parts.folder / "model.sock").exists()

    run(tmp_path, 1000, main)
