"""Rows H15 and H19: an older install is taken over; nothing of it is lost, nothing done twice."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from cli.golden_old import TOPOLOGY, listing, make
from cli.run import Hive
from fixtures.fake_broker import FakeBroker

from hive_core.cli.core.session import Session
from hive_core.cli.host.install import imports
from hive_core.cli.host.install.older_install import MARKER, Old
from hive_core.cli.host.install.takeover import Takeover, steps
from hive_core.errors import Conflict, NotAllowed
from hive_core.model.config.settings import HostLimits
from hive_core.varlink import Message

STEPS = [
    "copy {}/manager/state to /agents/root/state",
    "create solo as a root",
    "create alice below root",
    "copy {}/agents/alice/state to /agents/alice/state",
    "copy {}/agents/alice/config to /agents/alice/state/old-config",
    "copy {}/applied/alice to /agents/alice/state/old-applied.git",
    "copy {}/agents/alice/claude to /agents/alice/state/old-claude",
    "create dora below root",
    "copy {}/agents/dora/state to /agents/dora/state",
    "copy {}/agents/dora/config to /agents/dora/state/old-config",
    "copy {}/applied/dora to /agents/dora/state/old-applied.git",
    "create bob below alice",
    "copy {}/agents/bob/state to /agents/bob/state",
    "copy {}/agents/bob/config to /agents/bob/state/old-config",
    "copy {}/applied/bob to /agents/bob/state/old-applied.git",
    "create carol below bob",
]


class Killed(Exception):
    """Instead of a kill: nothing of what the process had in mind is done after it."""


class Daemon:
    """Answers as hived does, and remembers what was made and copied."""

    def __init__(self, peer: FakeBroker, table: Path) -> None:
        self.agents: dict[str, str | None] = {"root": None}
        self.copied: dict[tuple[str, str], str] = {}
        self.table = table
        peer.answers |= {
            "ListAgents": lambda _: {
                "agents": [{"name": n, "parent": p} for n, p in self.agents.items()], "next": None,
            },
            "Spawn": self._spawn,
            "ImportState": self._import,
            "WaitJob": lambda params: {"id": params["id"], "state": "done", "error": ""},
            "GetJob": lambda _: {"progress": {"files": 1, "kept_aside": 0}},
        }  # fmt: skip

    def _spawn(self, params: Message) -> Message:
        name, parent = str(params["name"]), str(params["parent"]) or None
        assert name not in self.agents
        assert parent is None or parent in self.agents
        self.agents[name] = parent
        return {"name": name, "uuid": "u", "job": "j"}

    def _import(self, params: Message) -> Message:
        entries = dict(line.split(maxsplit=1) for line in self.table.read_text().splitlines())
        source = entries[str(params["source"])]
        self.copied[str(params["agent"]), str(params.get("into", ""))] = source
        return {"agent": params["agent"], "job": "j"}


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return make(tmp_path / "hyperhive").resolve()


@pytest.fixture
def daemon(hive: Hive, tmp_path: Path) -> Daemon:
    return Daemon(hive.peer, tmp_path / "imports")


def take_over(
    hive: Hive, daemon: Daemon, folder: Path, step: Callable[[str], None] = lambda _: None
) -> list[str]:
    said: list[str] = []
    session = Session(hive.peer.path)
    takeover = Takeover(session, Old(folder, "root"), said.append, daemon.table)
    takeover.step = step
    try:
        takeover.check("root", HostLimits())
        takeover.run("root")
    finally:
        session.close()
    return said


@pytest.fixture(name="as_root")
def _as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)


@pytest.mark.usefixtures("daemon", "as_root")
def test_a_dry_run_prints_every_step_and_changes_nothing(hive: Hive, old: Path) -> None:
    before = listing(old)
    done = hive("migrate", "--from", str(old), "--dry-run")
    expected = [f"would {step.format(old)}" for step in STEPS] + [f"would write {old / MARKER}"]
    assert (done.status, done.out.splitlines()) == (0, expected)
    assert f"not copied: {old}/agents/alice/loose-file" in done.err
    assert listing(old) == before
    assert {name for name, _ in hive.peer.calls} == {"ListAgents"}


BOTH = pytest.mark.parametrize("dry", [(), ("--dry-run",)])


def faults_of(hive: Hive, old: Path, dry: tuple[str, ...]) -> list[str]:
    """The output of a run that refuses before it changes anything."""
    before = listing(old)
    done = hive("migrate", "--from", str(old), *dry)
    assert (done.status, done.out, listing(old)) == (1, "", before)
    assert {name for name, _ in hive.peer.calls} <= {"ListAgents"}
    return done.err.splitlines()


@BOTH
@pytest.mark.usefixtures("as_root")
def test_a_dry_run_refuses_what_the_real_run_refuses(
    hive: Hive, daemon: Daemon, old: Path, dry: tuple[str, ...]
) -> None:
    """It printed a whole plan where the real run then refused."""
    daemon.agents["bob"] = "root"
    assert "fault: 'bob': an agent of this name exists" in faults_of(hive, old, dry)
    del daemon.agents["bob"], daemon.agents["root"]
    assert "`hive setup` creates it" in faults_of(hive, old, dry)[-1]


@BOTH
def test_a_dry_run_needs_root_too(
    hive: Hive, old: Path, monkeypatch: pytest.MonkeyPatch, dry: tuple[str, ...]
) -> None:
    """Other users cannot read the files that it reports."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    done = hive("migrate", "--from", str(old), *dry)
    assert (done.status, done.out, hive.peer.calls) == (NotAllowed.exit_code, "", [])


@pytest.mark.parametrize(
    ("bounds", "fault"),
    [
        (
            HostLimits(agents=5),
            "5 agents: this host has 1 agents, and its limit is 5 (limits.agents)",
        ),
        (HostLimits(depth=3), "'carol': 4 levels deep, of 3 (limits.depth)"),
    ],
)
def test_limits_are_checked_before_the_first_step(
    hive: Hive, daemon: Daemon, old: Path, bounds: HostLimits, fault: str
) -> None:
    old_hive, session = Old(old, "root"), Session(hive.peer.path)
    takeover = Takeover(session, old_hive, lambda _: None, daemon.table)
    takeover.check("root", HostLimits())
    assert old_hive.faults == []
    takeover.check("root", bounds)
    session.close()
    assert old_hive.faults == [fault]


def test_a_path_that_cannot_be_entered_is_a_fault(
    hive: Hive, daemon: Daemon, tmp_path: Path
) -> None:
    folder = make(tmp_path / "odd\x1b").resolve()
    old_hive, session = Old(folder, "root"), Session(hive.peer.path)
    Takeover(session, old_hive, lambda _: None, daemon.table).check("root", HostLimits())
    session.close()
    assert old_hive.faults
    assert all(
        "the path has characters that cannot be stored" in fault for fault in old_hive.faults
    )


@pytest.mark.usefixtures("as_root")
def test_a_dry_run_omits_the_finished_steps_of_a_killed_run(
    hive: Hive, daemon: Daemon, old: Path
) -> None:
    def end(step: str) -> None:
        if step == "created alice":
            raise Killed

    with pytest.raises(Killed):
        take_over(hive, daemon, old, end)
    out = hive("migrate", "--from", str(old), "--dry-run").out
    assert "would create alice" not in out
    assert "would create bob below alice" in out


def test_the_manager_becomes_the_root_agent_and_children_keep_their_parents(
    hive: Hive, daemon: Daemon, old: Path
) -> None:
    before = listing(old)
    said = take_over(hive, daemon, old)
    assert said == [step.format(old) for step in STEPS]
    assert daemon.agents == {
        "root": None, "alice": "root", "bob": "alice", "carol": "bob", "dora": "root", "solo": None
    }  # fmt: skip
    assert daemon.copied["root", ""] == f"{old}/manager/state"
    after = listing(old)
    assert {name: after[name] for name in before} == before, "nothing of the old is touched"
    assert after.keys() - before.keys() == {MARKER}
    marker = json.loads((old / MARKER).read_text())
    assert marker["agents"]["root"] == {"was": "manager", "parent": None}
    assert {copy["to"] for copy in marker["copied"]} >= {"/agents/root/state"}
    assert daemon.table.read_text() == "", "nothing more may be imported"


def test_the_second_run_finds_the_marker_and_does_nothing(
    hive: Hive, daemon: Daemon, old: Path
) -> None:
    take_over(hive, daemon, old)
    asked, before = len(hive.peer.calls), listing(old)
    done = hive("migrate", "--from", str(old))
    assert (done.status, done.out) == (0, f"nothing to do: {old / MARKER} lists what was copied\n")
    assert (len(hive.peer.calls), listing(old)) == (asked, before)


def test_a_migration_killed_at_any_step_continues(hive: Hive, daemon: Daemon, old: Path) -> None:
    reached: list[str] = []

    def end(step: str) -> None:
        if step not in reached:
            reached.append(step)
            raise Killed

    for _ in range(100):
        try:
            take_over(hive, daemon, old, end)
            break
        except Killed:
            assert (old / MARKER).exists() == (reached[-1] == "marked")
            if reached[-1] == "marked":
                break
    assert len(reached) == 23
    assert daemon.agents.keys() == {"root", "alice", "bob", "carol", "dora", "solo"}
    assert len(daemon.copied) == 11
    assert hive("migrate", "--from", str(old)).out.startswith("nothing to do")


def test_an_existing_agent_is_never_taken_for_a_migrated_one(
    hive: Hive, daemon: Daemon, old: Path
) -> None:
    daemon.agents["bob"] = "root"
    result = Old(old, "root")
    session = Session(hive.peer.path)
    Takeover(session, result, lambda _: None, daemon.table).check("root", HostLimits())
    session.close()
    assert result.faults == ["'bob': an agent of this name exists"]
    assert daemon.copied == {}


def test_a_migration_needs_a_root_agent(hive: Hive, daemon: Daemon, old: Path) -> None:
    del daemon.agents["root"]
    with pytest.raises(Conflict, match="hive setup"):
        take_over(hive, daemon, old)


@pytest.mark.parametrize(
    ("topology", "faults"),
    [
        ({**TOPOLOGY, "Bad Name": "manager"}, ["'Bad Name': a name must be"]),
        ({**TOPOLOGY, "host": "manager"}, ["'host': a name is reserved"]),
        ({**TOPOLOGY, "x": "gone"}, ["'x': its parent 'gone' does not exist"]),
        ({**TOPOLOGY, "x": "y", "y": "x"}, ["'x': is its own", "'y': is its own"]),
        ({**TOPOLOGY, "x": "x"}, ["'x': is its own ancestor"]),
        ({**TOPOLOGY, "root": None}, ["'root': this name belongs to the root agent"]),
        ({**TOPOLOGY, "manager": "solo"}, ["'manager': it has a parent, 'solo'"]),
        ({**TOPOLOGY, "x": 7}, ["the parent of 'x' is not a name"]),
        ([], ["meta/topology.json: no object"]),
    ],
)
def test_each_fault_of_the_old_tree_is_a_line_and_nothing_is_changed(
    hive: Hive, tmp_path: Path, topology: object, faults: list[str]
) -> None:
    folder = make(tmp_path / "old", topology)
    before = listing(folder)
    done = hive("migrate", "--from", str(folder))
    assert done.status == 1
    lines = [line for line in done.err.splitlines() if line.startswith("fault: ")]
    assert len(lines) == len(faults), lines
    assert all(any(fault in line for line in lines) for fault in faults)
    assert "nothing was changed" in done.err
    assert listing(folder) == before
    assert hive.peer.calls == []


def test_an_unreadable_topology_is_reported_and_a_missing_one_is_no_fault(
    old: Path,
) -> None:
    (old / "meta/topology.json").write_text("{")
    (fault,) = Old(old, "root").faults
    assert fault.startswith(f"{old}/meta/topology.json: Expecting")
    (old / "meta/topology.json").unlink()
    result = Old(old, "root")
    assert not result.faults
    parents = {agent.name: agent.parent for agent in result.agents}
    assert parents == {"root": None, **dict.fromkeys(("alice", "bob", "carol", "dora"), "root")}


def test_links_instead_of_agent_folders_are_not_followed(old: Path) -> None:
    (old / "agents/carol/state").rmdir()
    (old / "agents/carol/state").symlink_to("/root")
    (fault,) = Old(old, "root").faults
    assert fault == f"{old}/agents/carol/state: is not a folder, and links are not followed"


def test_two_states_of_the_manager_need_a_decision_of_the_operator(old: Path) -> None:
    (old / "agents/manager/state").mkdir(parents=True)
    assert not Old(old, "root").faults, "an empty one is in nobody's way"
    (old / "agents/manager/state/notes.md").write_text("another\n")
    (fault,) = Old(old, "root").faults
    assert fault.endswith("both have files; empty one of them")


def test_running_agents_are_not_copied(old: Path, tmp_path: Path) -> None:
    (tmp_path / "machines").mkdir()
    (tmp_path / "machines/hm1nd").touch()
    (fault,) = Old(old, "root", tmp_path / "machines").faults
    assert fault == "'root': its container hm1nd runs; stop it first"


def test_any_name_may_be_that_of_the_root_agent(old: Path) -> None:
    result = Old(old, "queen")
    assert not result.faults
    assert next(steps(result, "queen")).text == f"copy {old}/manager/state to /agents/queen/state"


def test_an_import_is_listed_only_while_it_is_used(tmp_path: Path) -> None:
    table = tmp_path / "imports"
    table.write_text("import-0000000000000000 /kept\n")
    with imports.import_entry(Path("/old/state"), table) as name:
        assert table.read_text().splitlines()[1] == f"{name} /old/state"
    assert table.read_text() == "import-0000000000000000 /kept\n"
