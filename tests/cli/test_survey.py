"""hive survey and hive reap: their output, and their calls (row K36)."""

from __future__ import annotations

import json

from cli.run import Hive

ROW: dict[str, object] = {
    "name": "bob", "uuid": "u1", "parent": "root", "role": "worker", "state": "running",
    "activity": "running", "ended_at": None, "orphan": False, "tasks": 2, "quiet": 12.4,
    "unanswered": None,
}  # fmt: skip
ENDED = {**ROW, "name": "carl", "state": "stopped", "tasks": 0, "quiet": None, "ended_at": 1.0}
SICK = {**ROW, "name": "dan", "state": "parked", "unanswered": 90.0}


def test_survey_lists_all_agents_or_only_noted_ones(hive: Hive) -> None:
    hive.peer.answers["Survey"] = lambda _: {"agents": [ROW, ENDED, SICK], "next": None}
    lines = hive("survey").out.splitlines()
    assert lines[0].split()[:4] == ["NAME", "STATE", "ACTIVITY", "TASKS"]
    assert lines[1].split() == ["bob", "running", "running", "2", "12s", "-", "no", "-"]
    assert [line.split()[0] for line in lines[1:]] == ["bob", "carl", "dan"]
    assert hive("survey", "--noted", "-o", "name").out == "carl\ndan\n"
    assert json.loads(hive("survey", "-o", "json").out) == [ROW, ENDED, SICK]


def test_zombies_are_cleared_away_until_there_are_none(hive: Hive) -> None:
    left = [["a", "b"], ["c"], []]
    hive.peer.answers["ReapZombies"] = lambda _: {"agents": left.pop(0)}
    done = hive("reap", "--older", "5")
    assert (done.status, done.err) == (0, "removed: a, b\nremoved: c\n")
    assert {param["older"] for param in hive.peer.params_of("ReapZombies")} == {5.0}
