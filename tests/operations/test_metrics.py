"""get_metrics and the page of it: names that people know, labels that do not grow."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import pytest
from each import for_each
from fixtures.world import World, rows
from prometheus_client.parser import text_string_to_metric_families

from hive_core.cli.host.metrics import merge_families, page

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def series(text: str) -> Series:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def families(world: World) -> list[Mapping[str, object]]:
    pages = world.ask("operator", "get_metrics", more=True).pages
    return merge_families(family for shown in pages for family in rows(shown["families"]))


def scrape(world: World) -> Series:
    return series(page(families(world)))


def test_agents_mail_and_tasks_are_counted(world: World) -> None:
    """The names that dashboards for agents expect."""
    before = scrape(world)
    assert before["hive_agents", (("state", "running"),)] == len(world.hive.specs)
    world.call("a1", "send", to="a2", body="x")
    world.call("a1", "send", to="a2", body="x", kind="made-up-1")
    world.call("a1", "send", to="a2", body="x", kind="made-up-2")
    task = str(world.call("root", "assign_task", agent="a", description="x")["task"])
    world.call("a", "begin_task", task=task)
    result = scrape(world)
    assert result["hive_messages_total", (("kind", "message"),)] == 1
    assert result["hive_messages_total", (("kind", "other"),)] == 2
    assert result["hive_queue_depth", ()] >= before["hive_queue_depth", ()] + 3
    assert result["hive_tasks", (("state", "in_progress"),)] == 1
    assert result["hive_events_total", ()] == world.ledger.events.last
    assert task not in page(families(world))
    world.call("root", "cancel_task", task=task)


def test_what_was_rolled_back_is_not_counted(world: World) -> None:
    def fails() -> None:
        with world.ledger.transaction():
            world.ledger.events.tally.count("messages", "message")
            raise LookupError

    before = dict(world.ledger.events.tally.counts_by_label("messages"))
    with suppress(LookupError):
        fails()
    assert {
        k: v for k, v in world.ledger.events.tally.counts_by_label("messages").items() if v
    } == before


def test_an_approval_is_counted_until_and_after_its_decision(world: World) -> None:
    id_ = str(
        world.call("a", "request_apply_commit", agent="a1", commit="1a" * 20, message="x")[
            "approval"
        ]
    )
    with world.ledger.transaction():
        world.ledger.approvals.move(id_, "check", world.clock.now())
    assert scrape(world)["hive_approvals_pending", ()] == 1
    world.advance(30)
    world.call("operator", "deny", id=id_, why="no")
    result = scrape(world)
    assert result["hive_approvals_pending", ()] == 0
    assert result["hive_approval_wait_seconds_count", ()] == 1
    assert result["hive_approval_wait_seconds_sum", ()] == 30


def test_no_agent_reads_them(world: World) -> None:
    assert world.fault("root", "get_metrics") == "NotAllowed"


def test_turns_are_a_histogram_by_role_and_by_nothing_that_grows(world: World) -> None:
    """`hive_turn_duration_seconds`."""
    world.call("a1", "report_usage", turn_seconds=[0.2, 0.5, 7, 4000])
    world.call("a2", "report_usage", turn_seconds=7.5, tokens_in=1)
    name, agent = "hive_turn_duration_seconds", ("role", "agent")
    result = scrape(world)
    buckets = {
        dict(labels)["le"]: value for (key, labels), value in result.items()
        if key == f"{name}_bucket"
    }  # fmt: skip
    assert buckets == {
        "0.5": 2, "1.0": 2, "2.5": 2, "5.0": 2, "10.0": 4, "30.0": 4, "60.0": 4, "120.0": 4,
        "300.0": 4, "600.0": 4, "+Inf": 5,
    }  # fmt: skip
    assert result[f"{name}_count", (agent,)] == 5
    assert result[f"{name}_sum", (agent,)] == 4015.2
    reports = [event for event in world.events() if event["operation"] == "report_usage"]
    entries = [event["fields"] for event in reports if isinstance(event["fields"], dict)]
    assert {"turns": 4, "seconds": 4007.7}.items() <= dict(entries[0]).items()
    assert {dict(labels)["role"] for key, labels in result if key.startswith(name)} == {"agent"}


@pytest.mark.parametrize("turns", [[-1], [86_401], [1] * 65])
def test_a_turn_has_bounds_and_so_has_how_many_are_said_at_once(
    world: World, turns: list[int]
) -> None:
    assert world.fault("a1", "report_usage", turn_seconds=turns) == "InvalidArgument"


@for_each("turns", ["1", [None], [True], {}])
def test_what_is_no_time_of_a_turn_is_refused(world: World, turns: object) -> None:
    assert world.fault("a1", "report_usage", turn_seconds=turns) == "InvalidParameter"


def test_the_whole_page_is_read_by_prometheus_s_own_parser(world: World) -> None:
    world.call("a1", "report_usage", turn_seconds=1, tokens_in=1, cost=1, model="m")
    said = {family["name"]: family for family in families(world)}
    collected = {
        family.name: family for family in text_string_to_metric_families(page(list(said.values())))
    }
    assert collected.keys() == said.keys()
    assert {name: family.type for name, family in collected.items()} == {
        name: family["type"] for name, family in said.items()
    }
    assert collected["hive_start_time_seconds"].samples[0].value == world.seen.since()
