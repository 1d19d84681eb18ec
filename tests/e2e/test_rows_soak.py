"""Row R23: a host at work under faults; nothing grows without end, and nothing stays stuck."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import long
import pytest
from chaos import campaign, soak
from chaos.campaign import Row
from chaos.oracle import Evidence, lines, verdict
from chaos.soak import DUMMIES, FaultSequence, Slope
from e2e.hivehost import HiveHost
from e2e.labhost import Lab

pytestmark = pytest.mark.lab("slow")

SECONDS = long.seconds(3, minutes=30)
# Seconds between samples, between two faults, and between two calls of one client.
SAMPLE, EVERY, PACE = (5.0, 4.0, 0.3) if long.asked.chosen else (1.0, 0.7, 0.1)
WAL = 64.0  # MiB at most
HELD = ("mounts", "groups", "socket_directories", "roots", "archived")


@pytest.fixture(name="host")
def _host(lab: Lab) -> Iterator[HiveHost]:
    made = HiveHost(lab)
    yield made
    made.close_connections()


def sample_at_rest(host: HiveHost, folder: Path) -> Row:
    """What the host holds when no work and no storage to wipe are left."""
    host.until(lambda: _has_nothing_to_do(host), "left to do", 60)
    host.until(lambda: not _has_archives(host), "archives and what wipes them are left", 60)
    with soak.gauge(host, folder / "once.jsonl", 60) as samples:
        host.until(lambda: samples, "no sample")
    return samples[0]


def at_rest(host: HiveHost, folder: Path, before: Row) -> Row:
    """What the host holds once it holds no more than before, or after half a minute.

    The mounts of a job go a moment after its unit has.
    """
    end = time.monotonic() + 30
    while True:
        sample = sample_at_rest(host, folder)
        if not _differences(before, sample) or time.monotonic() > end:
            return sample


def _differences(before: Row, after: Row) -> set[str]:
    """What differs, but for the slice that is there since the first job."""
    differing = {line for name in HELD for line in _differing(before[name], after[name])}
    return differing - {"+/sys/fs/cgroup/systemd/hive.slice/hive-jobs.slice"}


def _report_left(host: HiveHost, left: set[str]) -> str:
    """What is left, and what the journal has about it, since such a fault may not come again."""
    names = {part for line in left for part in line.split("/") if "@" in part or len(part) == 36}
    journal = host.run("journalctl", "--no-pager", "-o", "short-precise").stdout.splitlines()
    lines_about = [line for line in journal if any(name in line for name in names)]
    return "\n".join([*sorted(left), *lines_about])


def _has_exits_of_living(sample: Row) -> bool:
    """Whether all exit records are of agents that live; `.new`: a kill left it half written.

    The next exit of any unit removes such a file.
    """
    return {exit_ for exit_ in sample["exits"] if ".new" not in exit_} <= set(
        sample["socket_directories"]
    )


def _has_nothing_to_do(host: HiveHost) -> bool:
    """Nothing is left to do. Some time after the disk was full there is no room yet to ask."""
    done = host.run("hive", "converge", "--dry-run", "-o", "json", check=False)
    return done.returncode == 0 and not json.loads(done.stdout)["steps"]


def _has_archives(host: HiveHost) -> bool:
    units = host.run("systemctl", "list-units", "--plain", "--no-legend", "hive-job@*").stdout
    archive = host.lab.path("/var/lib/hive/tree/.archive")
    return bool(units) or (archive.is_dir() and any(archive.iterdir()))


@pytest.mark.sized
def test_a_host_at_work_under_faults_holds_no_more_at_the_end_than_at_the_start(
    host: HiveHost, tmp_path: Path
) -> None:
    """Kills of hived end after a third of the time, so that its memory is watched in one life."""
    seed = long.seed()
    file = (long.asked.file or tmp_path / "figures").with_suffix(".samples.jsonl")
    answer = [*campaign.make(host), campaign.operator_row("spawn", len(DUMMIES))]
    host.grow(**dict.fromkeys(DUMMIES, "root"))
    before, leaders = sample_at_rest(host, tmp_path), campaign.leaders(host)
    faults = FaultSequence(host, seed, every=EVERY)
    with soak.gauge(host, file, SAMPLE) as samples, campaign.crowd(host, seed, PACE) as crowd:
        faults.run(SECONDS / 3)
        faults.killing = False
        faults.run(SECONDS * 2 / 3)
        faults.leave()
    crowd.keep()
    for name in DUMMIES:
        faults.start(name)
    host.wait("running", *campaign.TREE, *DUMMIES)
    after = at_rest(host, tmp_path, before)
    _report(samples, {
        "seed": seed, "seconds": SECONDS, "faults": faults.done,
        "before": _with_counts(before), "after": _with_counts(after),
        "heard": Counter(row["what"] for row in crowd.rows),
    })  # fmt: skip
    assert campaign.leaders(host) == leaders
    # The alarm of a look that a fault interrupted goes with the next look.
    host.until(lambda: not host.call("Status")["alarms"], "alarms that stay", 90)
    assert not (left := _differences(before, after)), _report_left(host, left)
    host.until(
        lambda: _has_exits_of_living(sample_at_rest(host, tmp_path)),
        "exits of destroyed agents",
        30,
    )
    assert max(row["wal"] for row in samples) <= WAL
    assert after["hived"]["fds"] <= before["hived"]["fds"] + 2
    host.run("systemctl", "stop", "hived.service")
    evidence = Evidence(campaign.copy_state(host, tmp_path), [*answer, *faults.told, *crowd.rows])
    result = verdict(evidence)
    assert not result, f"--seed {seed}\n{lines(result)}"


def _differing(before: list[str], after: list[str]) -> list[str]:
    one, other = Counter(before), Counter(after)
    return [*(f"-{row}" for row in one - other), *(f"+{row}" for row in other - one)]


def _with_counts(sample: Row) -> Row:
    return {key: len(value) if isinstance(value, list) else value for key, value in sample.items()}


def _report(samples: list[Row], more: dict[str, Any]) -> None:
    """Slopes over the last life of each daemon, without its first minutes."""
    slopes = {}
    for unit in ("hived", "privd"):
        life = soak.one_life(samples, unit)
        settled = life[len(life) // 4 :]
        if len(settled) > 10:
            for value in ("rss", "fds", "threads"):
                points = [(row["at"], row[unit][value]) for row in settled]
                slopes[f"{unit} {value}"] = Slope.of(points).rounded
    long.figure(
        "soak", samples=len(samples), an_hour=slopes, wal=max(row["wal"] for row in samples), **more
    )  # fmt: skip
