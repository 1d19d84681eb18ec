"""How soon people are told of what waits, on the clock of the hive."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
from fixtures.approvals import ask as request_change
from fixtures.approvals import judge
from fixtures.notify_source import WorldSource
from fixtures.tasks import finish, give
from fixtures.world import World, world

from hive_core.model.config.notify import NotifyRoute
from hive_core.notify.deliveries import Delivered, DeliveryOutcome, NoticeDelivery, NotifyState
from hive_core.notify.notifier import EVERY, LOOK_EVERY, Notifier
from hive_core.services.service_files import ServiceStateFile

PROMPT: Final = 1.0


@dataclass
class MemorySender:
    """Takes every notice."""

    titles: list[str] = field(default_factory=list)

    async def send(self, delivery: NoticeDelivery) -> DeliveryOutcome:
        self.titles.append(delivery.notice.title)
        return Delivered()


@pytest.fixture(name="made")
def _made() -> Iterator[World]:
    with world(None, "root/ann:lead") as made:
        yield made


def wait_for_operator(made: World) -> None:
    """A request that the intake has checked."""
    judge(made, request_change(made, "root", "ann"))


def wait_for_plan(made: World) -> None:
    task = give(made, "operator", "ann", plan_required=True)
    made.call("ann", "create_plan", task=task, steps=["dig"])


def wait_for_verdict(made: World) -> None:
    finish(made, "ann", give(made, "operator", "ann", criteria={"text": "It is dug."}))


def ask_question(made: World) -> None:
    made.call("root", "ask_user", items=[{"prompt": "which colour?"}])


@pytest.mark.parametrize(
    ("happen", "title"),
    [
        (wait_for_operator, "hive: a change of ann waits for your approval"),
        (wait_for_plan, "hive: ann's plan waits for your approval"),
        (wait_for_verdict, "hive: ann's result waits for your verdict"),
        (ask_question, "hive: root asks a question"),
    ],
)  # fmt: skip
def test_what_waits_is_told_within_a_second(
    made: World, tmp_path: Path, happen: Callable[[World], None], title: str
) -> None:
    route, sender = NotifyRoute(type="ntfy", url="http://x", topic="t"), MemorySender()
    notifier = Notifier(
        WorldSource(made), {"phone": route}, {"phone": sender},
        ServiceStateFile(tmp_path / "state.json", NotifyState), made.clock.now,
    )  # fmt: skip

    async def tell() -> float:
        notifier.load()
        await notifier.step()
        made.advance(EVERY)
        await notifier.step()  # all that waited before is known
        since = made.clock.now()
        happen(made)
        while title not in sender.titles and made.clock.now() < since + 2 * LOOK_EVERY:
            made.advance(EVERY)
            await notifier.step()
        return made.clock.now() - since

    assert asyncio.run(tell()) <= PROMPT
    assert title in sender.titles
