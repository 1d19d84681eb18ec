"""Races of links and renames against everything that the host does with agent storage (row R15).

Attacks 10, 11, 12 and 13. The canaries lie on a file system that keeps the time of each access, so
that what was merely read is found as well. The numbers of the threat model are in the names.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import long
import pytest
from e2e.labhost import Lab
from e2e.privdhost import Agent, PrivdHost, SharedPrivdHost
from e2e.racers import AGENT, DAEMON

from hive_core.errors import Conflict, HiveError, NotFound
from hive_core.plan import actions as a
from hive_core.plan.actions import STORAGE_BASE, Action, JobKind

pytestmark = pytest.mark.lab

_BAIT = """
mkdir /var/lib/bait; mount -t tmpfs -o strictatime tmpfs /var/lib/bait; cd /var/lib/bait
for each in state config kids deep; do mkdir -p $each/$each; echo whole >$each/$each/file; done
chmod 700 state; echo whole >canary; chmod 600 canary; find /var/lib/bait >/root/bait
"""
# By name: to list a directory would be an access too.
_LOOK = "xargs stat -c '%n %F %u:%g %a %s %x %y %z' </root/bait"
# Where systemd-nspawn mounts something over the root of a prepared tree, which is the agent's own.
_TRAPS = ("dev", "proc", "sys", "run", "tmp", "tree", "agents", "opt", "etc", "usr", "var",
          "opt/hive", "etc/systemd", "etc/systemd/system", "run/hive")  # fmt: skip
_TARGETS = ("/", "/var/lib/bait", "/../../../../var/lib/bait", "../../../../../../../var/lib/bait")


@dataclass
class Race:
    """The host's side: actions of the root helper one after another, counted by kind."""

    host: PrivdHost
    dice: random.Random
    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def do(self, action: Action, *, may_fail: bool = False) -> bool:
        kind = type(action).__name__
        self.counts[f"{kind} {action.work}" if isinstance(action, a.RunJob) else kind] += 1
        try:
            self.host.job(action) if isinstance(action, a.RunJob) else self.host.do(action)
        except HiveError as error:
            if not may_fail:
                self.faults.append(f"{action}: {error}")
            return False
        return True

    def racing(self, agent: Agent) -> Agent:
        """Start an agent that races, and see it race."""
        self.host.launch(agent)
        self.host.say(agent, f"cat >racer <<'END'\n{AGENT}\nEND\npython3 -I racer & sleep 0.1")
        return agent

    def move_and_restore(self, child: Agent, other: Agent) -> None:
        """A grandchild comes, runs, moves with its node under running agents, and ends."""
        host, kid = self.host, self.host.agent(child)
        away = (*other.lineage, kid.lineage[-1])
        coming: list[Action] = [
            a.MakeNode(kid.lineage),
            a.MakeSocketDirectory(kid.uuid),
            kid.mount,
            kid.start,
        ]
        moving: list[Action] = [
            a.MoveNode(kid.lineage, away),
            a.MoveNode(away, kid.lineage),
        ]
        archiving: list[Action] = [
            a.Unmount(kid.uuid), a.ArchiveNode(kid.lineage, kid.uuid),
            a.RestoreNode(kid.uuid, kid.lineage), a.ObserveStorage(),
            a.ArchiveNode(kid.lineage, kid.uuid),
        ]  # fmt: skip
        for action in coming:
            self.do(action)
        host.until(lambda: host.runs(kid), "does not run")
        self.counts["ObserveUnit"] += 1
        for action in (*moving, a.StopUnit(kid.uuid, kid.name)):
            self.do(action)
        host.exit_of(kid)
        for action in archiving:
            self.do(action)
        self.purge(kid)

    def purge(self, kid: Agent) -> None:
        """Who still holds a directory in there can keep the job from its end, not lead it out."""
        job, base = self.host.a_job()
        self.do(a.RunJob(job, JobKind.PURGE_ARCHIVE, base, uuid=kid.uuid), may_fail=True)
        self.do(a.DropArchive(kid.uuid), may_fail=True)
        self.do(a.RemoveSocketDirectory(kid.uuid))


def look(lab: Lab) -> str:
    return lab.run(["sh", "-c", _LOOK]).stdout


@pytest.fixture(scope="module")
def race(shared_privd: SharedPrivdHost) -> Race:
    host = shared_privd.prepare()
    host.lab.run(["sh", "-ec", _BAIT])
    host.prepare_tree()
    number = long.seed()
    print("seed", number)  # noqa: T201 - shown when it fails: the way to the same race again
    return Race(host, random.Random(number))  # noqa: S311 - not for secrets


def until(seconds: float, rounds: Iterator[Callable[[], None]]) -> int:
    """Round after round until the time is over, but each of them once."""
    end, done = time.monotonic() + seconds, 0
    for round_ in rounds:
        round_()
        done += 1
        if time.monotonic() > end and done >= 2:
            return done
    return done


def broken_rules(host: PrivdHost, *agents: Agent) -> str:
    """What the racers say that gave way, and whether they raced at all."""
    said = ""
    for agent in agents:
        state = host.lab.path(agent.node / "state")
        said += (state / "broke").read_text()
        assert int((state / "count").read_text()) > 0
    return said


@pytest.mark.sized
def test_10_12_13_nodes_are_moved_archived_and_restored_while_they_are_swapped(race: Race) -> None:
    """Parent and child race in the child's storage while the host works on it."""
    host = race.host
    parent, other = race.racing(host.agent()), host.running()
    child = race.racing(host.agent(parent))
    before = look(host.lab)

    def journey() -> None:
        race.move_and_restore(child, other)
        # Holders are ended, the racers among them: a search that finds them did its work.
        for agent in (parent, child):
            host.say(agent, "pgrep -f racer >/dev/null || { python3 -I racer & sleep 0.1; }")

    rounds = until(long.seconds(2.5, 5), itertools.repeat(journey))
    assert broken_rules(host, parent, child) == ""
    assert race.faults == []
    assert look(host.lab) == before
    swaps = sum(int((host.lab.path(agent.node) / "state/count").read_text())
                for agent in (parent, child))  # fmt: skip
    long.figure("races of nodes", rounds=rounds, swaps=swaps, **race.counts)
    for agent in (child, parent):
        host.do(a.KillUnit(agent.uuid, agent.name))
        host.exit_of(agent)
    # Whoever followed a link would have been seen.
    links = [str(child.node / "state" / f"race-{number}{end}") for number in (1, 2)
             for end in ("", "-link")]  # fmt: skip
    host.lab.run(["find", "-L", *links, "-maxdepth", "1"], check=False)
    assert look(host.lab) != before


@pytest.mark.sized
def test_11_13_a_root_full_of_links_leads_no_start_and_no_purge_outside(race: Race) -> None:
    """The root of a prepared tree belongs to the agent, who may put anything in any place."""
    host = race.host
    before = look(host.lab)
    mounts = host.lab.run(["cat", "/proc/self/mounts"]).stdout.splitlines()

    def life() -> None:
        agent = host.agent(image="plain")
        job, base = host.a_job()
        race.do(a.MakeNode(agent.lineage))
        race.do(a.MakeSocketDirectory(agent.uuid))
        race.do(a.RunJob(job, JobKind.COPY_TREE, base, image="plain"))
        race.do(a.AdoptRoot(job, agent.uuid))
        trap(host.lab, agent, race.dice)
        race.do(agent.mount)
        race.do(agent.start, may_fail=True)
        host.until(lambda: host.runs(agent) or not alive(host, agent), "neither runs nor ends")
        with suppress(Conflict, NotFound):
            race.do(a.KillUnit(agent.uuid, agent.name), may_fail=True)
        host.until(lambda: not alive(host, agent), "does not end")
        race.do(a.Unmount(agent.uuid))
        job, base = host.a_job()
        race.do(a.RunJob(job, JobKind.PURGE_ROOT, base, uuid=agent.uuid))
        race.do(a.DropRoot(agent.uuid))

    rounds = until(long.seconds(2, 3), itertools.repeat(life))
    assert race.faults == []
    assert look(host.lab) == before
    assert host.lab.run(["cat", "/proc/self/mounts"]).stdout.splitlines() == mounts
    long.figure("races of roots", rounds=rounds, **race.counts)
    if long.asked.chosen:
        assert len(race.counts) >= 15


def alive(host: PrivdHost, agent: Agent) -> bool:
    return host.show(agent.unit, "ActiveState") not in ("inactive", "failed")


def trap(lab: Lab, agent: Agent, dice: random.Random) -> None:
    """What an agent may do that can unmount: links, FIFOs and sockets where mounts go."""
    root = lab.path(Path("/var/lib/hive/roots", agent.uuid))
    for place in dice.sample(_TRAPS, 2):
        where = root / place
        if where.parent.resolve() == where.parent and where.is_dir() and not where.is_symlink():
            where.rename(where.with_name(f"{where.name}-old"))
        if not os.path.lexists(where) and where.parent.is_dir() and not where.parent.is_symlink():
            where.symlink_to(dice.choice(_TARGETS))
            os.lchown(where, STORAGE_BASE, STORAGE_BASE)
    os.mkfifo(root / "fifo")
    with (root / "hole").open("wb") as file:
        file.truncate(1 << 40)
    for name in ("fifo", "hole"):
        os.lchown(root / name, STORAGE_BASE, STORAGE_BASE)


@pytest.mark.sized
def test_11_socket_directories_are_used_while_hived_swaps_their_contents(race: Race) -> None:
    """A hived that was taken over owns the leaves of a socket directory, and nothing above them."""
    host = race.host
    agent = host.running()
    before = look(host.lab)
    directory = f"/run/hive/agents/{agent.uuid}"
    # A change of the user would clear the signal that ends it with its parent.
    hive = ["setpriv", "--reuid=hive", "--regid=hive", "--clear-groups", "--pdeathsig=keep", "--"]
    swapper = host.lab.popen([*hive, "/usr/bin/python3", "-Ic", DAEMON, directory])

    def turn() -> None:
        race.do(a.MakeSocketDirectory(agent.uuid), may_fail=True)
        race.do(replace(agent.mount))
        race.do(a.ObserveStorage())
        race.do(a.RemoveSocketDirectory(agent.uuid), may_fail=True)

    rounds = until(long.seconds(0.5, 2), itertools.repeat(turn))
    swapper.kill()
    swapper.communicate()
    assert look(host.lab) == before
    assert race.faults == []
    assert host.lab.path("/run/hive/privd.sock").exists()
    long.figure("races of socket directories", rounds=rounds)
