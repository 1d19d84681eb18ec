"""The maid: what it finds, what it cleans up, what it reports and to whom (rows K36, K43)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.machines import end_machine, start_machines
from fixtures.maid import MaidHost, maid_host
from fixtures.world import rows

from hive_core.agent.maid import HostUsage, MaidFinding, host_usage, report_text, usage_findings
from hive_core.model.agents.machine import State
from hive_core.model.config.limits import LifeSettings
from hive_core.model.config.settings import Settings


@pytest.fixture(name="harness")
def _house() -> Iterator[MaidHost]:
    with maid_host(Settings(life=LifeSettings(reap=3600))) as made:
        made.world.grow("queen/lead:lead", "lead/once:task", "lead/work:worker")
        start_machines(made.world, "lead", "once", "work")
        yield made


def test_when_all_is_well_no_report_is_sent(harness: MaidHost) -> None:
    maid = harness.maid()
    for _ in range(3):
        maid.look()
    assert harness.reports() == []


def test_a_zombie_is_told_and_cleared_away(harness: MaidHost) -> None:
    """K36: once it has been one for as long as a round takes."""
    maid = harness.maid()
    end_machine(harness.world, "once", 0)
    maid.look()
    assert harness.reports() == [
        "1 findings\n- zombie: once ended, and its parent has not asked how"
    ]
    assert "once" in harness.world.hive.specs
    harness.world.advance(61)
    maid.look()
    assert "once" not in harness.world.hive.specs
    (report,) = harness.reports()
    assert "- reaped: once" in report
    maid.look()
    assert harness.reports() == ["all is well"]


def test_the_report_is_an_artifact_that_those_above_read(harness: MaidHost) -> None:
    """K36: `maid/health-report`, a version for each time that something changed."""
    maid = harness.maid()
    maid.look()
    harness.world.seen.states[harness.world.uuid("lead")] = State.PARKED
    for _ in range(2):
        maid.look()
    artifacts = rows(harness.world.call("queen", "list_artifacts")["artifacts"])
    assert [(row["name"], row["version"]) for row in artifacts] == [("maid/health-report", 2)]


def test_the_same_trouble_is_told_once(harness: MaidHost) -> None:
    harness.world.seen.states[harness.world.uuid("lead")] = State.PARKED
    maid = harness.maid()
    for _ in range(3):
        maid.look()
    (report,) = harness.reports()
    assert report.splitlines() == [
        "3 findings", "- orphan: once runs, and its parent lead does not",
        "- orphan: work runs, and its parent lead does not", "- unwell: lead is parked",
    ]  # fmt: skip


def test_work_without_a_word_is_told(harness: MaidHost) -> None:
    """K36: stuck, and unanswered."""
    harness.world.call("lead", "assign_task", agent="work", description="dig", deadline=900)
    harness.world.call("work", "recv")
    harness.world.call("once", "ask", items=[{"prompt": "why?"}])
    harness.world.advance(301)
    harness.maid().look()
    (report,) = harness.reports()
    assert "- stuck: work has not reported on its task for 301 s" in report
    assert "- unanswered: a question has waited on lead for 301 s" in report


def test_the_host_is_compared_with_what_was_usual_here(harness: MaidHost) -> None:
    """K36, K43: the baseline is kept over a restart of the maid."""
    maid = harness.maid()
    for _ in range(6):
        maid.look()
    maid.save()
    harness.host = [HostUsage(0.55, 0.4)]
    harness.maid().look()
    assert harness.reports() == ["1 findings\n- memory: memory: 55% in use, usually 30%"]


def test_what_was_told_before_a_restart_is_not_told_again(harness: MaidHost) -> None:
    harness.world.seen.states[harness.world.uuid("lead")] = State.FAILED
    harness.maid().look()
    assert len(harness.reports()) == 1
    harness.maid().look()
    assert harness.reports() == []


@pytest.mark.parametrize(
    ("now", "before", "kinds"),
    [(HostUsage(0.91, 0.2), [], ["memory"]), (HostUsage(0.2, 0.95), [], ["disk"]),
     (HostUsage(0.6, 0.2), [HostUsage(0.3, 0.2)] * 4, []),
     (HostUsage(0.6, 0.2), [HostUsage(0.3, 0.2)] * 5, ["memory"]),
     (HostUsage(0.49, 0.39), [HostUsage(0.3, 0.2)] * 5, []),
     (HostUsage(0.2, 0.4), [HostUsage(0.3, 0.2)] * 5, ["disk"])],
)  # fmt: skip
def test_a_bound_is_a_bound(now: HostUsage, before: list[HostUsage], kinds: list[str]) -> None:
    assert [finding.kind for finding in usage_findings(now, before)] == kinds


def test_the_first_look_is_early_and_a_parent_that_asks_is_answered(harness: MaidHost) -> None:
    """K36: after ten seconds, then each minute."""
    maid, began = harness.maid(), harness.world.clock.monotonic()
    maid.wait(maid._first_pause())
    assert harness.world.clock.monotonic() - began == pytest.approx(10)
    harness.world.call("queen", "send", to="maid", body="how is it?")
    maid.wait(1)
    replies = [row for row in harness.world.mail("queen") if row["reply_to"]]
    assert [row["body"] for row in replies] == ["all is well"]
    assert maid.every == 60


def test_a_damaged_memory_is_no_memory(harness: MaidHost) -> None:
    for data in ("{", "[]", '{"samples": 3}', '{"samples": [[1]], "told": []}'):
        harness.world.call("maid", "keep_snapshot", data=data)
        assert harness.maid().samples == []


def test_the_host_is_measured(tmp_path: Path) -> None:
    file = tmp_path / "meminfo"
    file.write_text("MemTotal:  1000 kB\nMemFree: 10 kB\nMemAvailable:  250 kB\n")
    usage = host_usage(file, str(tmp_path))
    assert usage.memory == 0.75
    assert 0 <= usage.disk <= 1
    assert 0 < host_usage().memory < 1


def test_a_report_fits_into_a_message() -> None:
    """Which the daemon counts in UTF-8."""
    findings = [MaidFinding("left-over", f"{n}", "\N{GRINNING FACE}" * 1000) for n in range(100)]
    assert 59_000 < len(report_text(findings, []).encode()) <= 60_000
