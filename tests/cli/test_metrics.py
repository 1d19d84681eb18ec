"""`hive metrics` and what `hive events` asks for."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from cli.run import Hive
from operations.test_metrics import series

from hive_core.varlink import Message

ANSWER: Message = {"families": [
    {"name": "hive_agents", "type": "gauge", "help": "Agents.",
     "samples": [{"labels": {"state": "run\"ning\n"}, "value": 3.0, "suffix": ""}]},
]}  # fmt: skip


def test_metrics_are_printed_or_written_atomically(hive: Hive, tmp_path: Path) -> None:
    hive.peer.answers["GetMetrics"] = lambda _: ANSWER
    printed = hive("metrics")
    assert series(printed.out) == {("hive_agents", (("state", 'run"ning\n'),)): 3.0}
    file = tmp_path / "hive.prom"
    assert hive("metrics", "--write", str(file)).status == 0
    assert file.read_text() == printed.out
    assert list(tmp_path.glob(".*")) == []


EVENT: Message = {
    "seq": 7, "time": 1.0, "kind": "own.step", "caller": "a", "caller_uuid": "u", "operation": "x",
    "target": "", "target_uuid": "", "allowed": None, "rule": "", "reason": "", "commit": "",
    "request": "", "digest": "", "fields": {},
}  # fmt: skip


def test_events_are_filtered_by_kind_agent_and_time(hive: Hive) -> None:
    hive.peer.answers["ListEvents"] = lambda _: {"events": [EVENT], "gap": None, "next": None}
    done = hive("events", "--kind", "own.*", "--agent", "a", "--since", "2h", "-o", "name")
    assert (done.status, done.out) == (0, "7\n")
    (asked,) = hive.peer.params_of("ListEvents")
    assert (asked["kinds"], asked["agents"]) == (["own.*"], ["a"])
    assert abs(float(str(asked["since"])) - (time.time() - 7200)) < 60
    assert hive("events", "--since", "yesterday").status == 2


def test_following_events_reports_a_gap(hive: Hive) -> None:
    hive.peer.answers["ListEvents"] = lambda parameters: (
        [{"events": [EVENT], "gap": {"from": 4, "to": 6}, "next": "7"}]
        if parameters.get("after") == "3" and hive.peer.params_of("ListEvents")[1:]
        else {"events": [], "gap": None, "next": None}
    )
    done = hive("events", "-f", "--after", "3", "-o", "name")
    assert done.out == "7\n"
    assert "events 4 to 6 were pruned" in done.err


def test_a_missing_folder_is_a_one_line_error(hive: Hive, tmp_path: Path) -> None:
    hive.peer.answers["GetMetrics"] = lambda _: ANSWER
    file = tmp_path / "none" / "hive.prom"
    done = hive("metrics", "--write", str(file))
    assert (done.status, done.err) == (1, f"hive: {file}: No such file or directory\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [((), "no events yet"), (("--kind", "refusals"), "no such events")],
)
def test_an_empty_filter_result_differs_from_an_empty_log(
    hive: Hive, words: tuple[str, ...], said: str
) -> None:
    hive.peer.answers["ListEvents"] = lambda _: {"events": [], "gap": None, "next": None}
    assert said in hive("events", *words).err
