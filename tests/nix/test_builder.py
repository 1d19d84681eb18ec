"""What the deploy road asks about systems and inputs, with the programs that real jobs run.

The jobs run here instead of in containers; all else is as it is on a host.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest
from fixtures.meta_repo import family
from nix.conftest import OFFLINE, PLAIN, NixJobRunner

from hive_core.errors import Conflict, InvalidArgument
from hive_core.host.config.nix_profiles import NixProfiles
from hive_core.host.git.proposed_lock_files import ProposedLockFiles
from hive_core.jobs import nix_build, nix_evaluate, nix_lock
from hive_core.jobs.nix import JobFolders
from hive_core.model.agents.hive import Hive
from hive_core.model.config.approval import Approval, ApprovalKind, ApprovalState, Binding
from hive_core.model.config.settings import Settings
from hive_core.plan import nar
from hive_core.plan.actions import JobKind, RunJob
from hive_core.plan.results import Done
from hive_core.reconcile.deploy.build import BuildFailed, NixBuilder, NixJobs
from hive_core.reconcile.deploy.context import AppliedRepoSource
from hive_core.reconcile.deploy.inputs import LockUpdates

PROGRAMS = {
    JobKind.EVALUATE: nix_evaluate.main,
    JobKind.BUILD: nix_build.main,
    JobKind.LOCK: nix_lock.main,
}
COMMIT = "c" * 40
T = TypeVar("T")


@dataclass
class LocalJobs:
    """Runs the programs of jobs in this process; `tampers` comes between a job and its answer."""

    work: Path
    store: Path
    ran: list[RunJob] = field(default_factory=list)
    tampers: Callable[[RunJob, Path], None] = lambda _action, _out: None

    async def run(self, action: RunJob) -> Done:
        self.ran.append(action)
        place = self.work / action.job
        scratch = self.work / f"scratch-{len(self.ran)}"
        room = JobFolders(place / "in", place / "out", scratch, str(self.store), OFFLINE)
        PROGRAMS[action.work](action.words, room)
        self.tampers(action, room.out)
        return Done(changed=True)

    @property
    def kinds(self) -> list[JobKind]:
        return [job.work for job in self.ran]


@dataclass
class DeployedFiles:
    """The deployed files of every agent."""

    archive: bytes = b""

    def put(self, text: str) -> str:
        self.archive = nar.pack({"agent.nix": (False, text.encode())})
        return nar.digest(self.archive)

    def nar(self, _uuid: str, _commit: str, expected: str) -> bytes:
        assert nar.digest(self.archive) == expected
        return self.archive


class BuilderHost:
    """A builder with everything that it needs, below one folder."""

    def __init__(self, folder: Path, runner: NixJobRunner) -> None:
        self.runner = runner
        paths = {"state": str(folder / "state"), "runtime": str(runner.fresh())}
        images = {"host": "", "nix": ""}
        self.settings = Settings.model_validate(
            {"paths": paths, "images": images, "nix": {"inputs": dict(runner.inputs)}}
        )
        self.jobs = LocalJobs(self.settings.paths.work, runner.store)
        self.profiles = NixProfiles(folder / "profiles")
        self.profiles.folder.mkdir()
        self.files = DeployedFiles()
        self.nix = NixJobs(self.settings, self.jobs)
        self.builder = NixBuilder(
            self.nix, cast("AppliedRepoSource", self.files), self.profiles, lambda: self.fault
        )
        self.inputs = LockUpdates(
            self.nix, self.profiles, ProposedLockFiles(self.settings.paths.applied)
        )
        self.fault = ""
        self.hive = family("bob", "carl").with_lock(runner.lock)
        self.agent(PLAIN)

    def agent(self, module: str) -> None:
        """What bob was approved to be."""
        files = {"image": "nix", "config": COMMIT, "nar": self.files.put(module)}
        self.hive = self.hive.with_spec("bob", self.hive.spec("bob").model_copy(update=files))

    def approval(self, kind: ApprovalKind = ApprovalKind.CONFIG, **review: object) -> Approval:
        spec = self.hive.spec("bob")
        nar_, lock = spec.nar or "", self.hive.lock_hash
        binding = Binding(COMMIT, "t" * 40, nar_, COMMIT, lock)
        return Approval(
            "0123456789ab", kind, spec.id, "operator", "", "", binding, ApprovalState.BUILDING,
            0.0, 1.0, review=review,
        )  # fmt: skip

    def build(self, **changes: object) -> tuple[str, dict[str, Any]]:
        approval = replace(self.approval(), **cast("dict[str, Any]", changes))
        built = wait(self.builder.build(approval, self.hive, "bob"))
        return built.system, cast("dict[str, Any]", dict(built.report))

    def refusal(self, **changes: object) -> BuildFailed:
        with pytest.raises(BuildFailed) as caught:
            self.build(**changes)
        return caught.value


def wait(task: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(task)


@pytest.fixture
def builder(tmp_path: Path, runner: NixJobRunner) -> Iterator[BuilderHost]:
    before = runner.lock
    yield BuilderHost(tmp_path, runner)
    runner.lock = before


def test_a_system_is_built_and_kept_before_it_is_used(builder: BuilderHost) -> None:
    """attack 32: the collector finds a root at any time from the build on."""
    system, said = builder.build()
    assert (builder.runner.real(system) / "init").is_symlink()
    assert said["drv"].endswith("-nixos-system-bob.drv")
    assert said["closure"]["bytes"] > 0
    assert builder.profiles.links(builder.hive.spec("bob").id) == {"build-0123456789ab": system}
    assert builder.jobs.kinds == [JobKind.EVALUATE, JobKind.BUILD]
    assert not list(builder.settings.paths.work.glob("*-*-*-*-*"))


def test_h4_a_moved_agent_is_built_to_the_same_system(builder: BuilderHost) -> None:
    first = builder.build()
    builder.hive = builder.hive.with_parent("bob", "carl")
    assert builder.build() == first


def test_an_evaluation_sees_no_other_agent(builder: BuilderHost) -> None:
    """Every agent can read the store, and all that is evaluated goes there."""
    other = builder.hive.spec("carl").model_copy(
        update={"image": "nix", "config": COMMIT, "nar": builder.hive.spec("bob").nar}
    )
    builder.hive = builder.hive.with_spec("carl", other)
    seen: list[bytes] = []

    def look(action: RunJob, out: Path) -> None:
        if action.work is JobKind.EVALUATE:
            seen.append((out.parent / "in/flake.nix").read_bytes())

    builder.jobs.tampers = look
    builder.build()
    assert b"bob" in seen[0]
    assert b"carl" not in seen[0]


@pytest.mark.parametrize(
    ("forged", "why"),
    [
        ({"out": "/nix/store/" + "0" * 32 + "-other"}, "not the evaluated system"),
        ({"out": "/etc"}, "invalid result of a Nix job: out"),
        ({"out": None}, "not the evaluated system"),
        ({"more": 1}, "invalid result of a Nix job: more"),
        ({"log": "x" * (1 << 17)}, "invalid result of a Nix job: log"),
    ],
)
def test_attack_21_results_of_a_job_are_verified(
    builder: BuilderHost, forged: dict[str, object], why: str
) -> None:
    def tamper(action: RunJob, out: Path) -> None:
        if action.work is JobKind.BUILD:
            said = json.loads((out / "said.json").read_text()) | forged
            (out / "said.json").write_text(json.dumps(said))

    builder.jobs.tampers = tamper
    with pytest.raises((Conflict, InvalidArgument), match=why):
        builder.build()


def test_attack_21_a_lock_that_moved_since_the_approval_voids_it(builder: BuilderHost) -> None:
    approved = builder.approval().binding
    builder.hive = builder.hive.with_lock(builder.hive.lock + b"\n")
    assert "since it was approved" in builder.refusal(binding=approved).reason
    assert builder.jobs.ran == []


def test_attack_29_nothing_is_evaluated_without_a_build_sandbox(builder: BuilderHost) -> None:
    builder.fault = "the image nix needs `sandbox = true`"
    assert builder.refusal().reason == builder.fault
    assert builder.jobs.ran == []


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("lock", "RequestUpdateMetaInputs"), ("inputs", "lacks these"), ("profiles", "hive setup"),
        ("config", "has no configuration"),
    ],
)  # fmt: skip
def test_a_missing_prerequisite_is_reported_with_its_remedy(
    builder: BuilderHost, change: str, why: str
) -> None:
    if change == "lock":
        builder.hive = builder.hive.with_lock(b"")
    elif change == "inputs":
        inputs = {"inputs": {"hive": "path:/x"}}
        nix = builder.settings.nix.model_validate(inputs)
        builder.nix.settings = builder.settings.model_copy(update={"nix": nix})
    elif change == "profiles":
        builder.profiles.folder.rmdir()
    else:
        spec = builder.hive.spec("bob").model_copy(update={"config": None, "nar": None})
        builder.hive = builder.hive.with_spec("bob", spec)
    kind = ApprovalKind.UPDATE if change == "config" else ApprovalKind.CONFIG
    assert why in builder.refusal(kind=kind).reason
    assert builder.jobs.ran == []


def test_a_failed_build_is_reported_with_its_last_lines(builder: BuilderHost) -> None:
    builder.agent('{ ... }: { fixture.build = "echo so it is >&2; exit 3"; }')
    assert "so it is" in builder.refusal().lines
    builder.agent('{ ... }: throw "not today"')
    assert "not today" in builder.refusal().reason


def test_agents_of_other_images_and_rollbacks_build_nothing(builder: BuilderHost) -> None:
    assert builder.build(kind=ApprovalKind.ROLLBACK) == ("", {})
    approval, hive = builder.approval(), builder.hive
    assert wait(builder.builder.build(approval, hive, "carl")).system == ""
    assert builder.jobs.ran == []


def test_h13_newer_inputs_are_locked_shown_and_applied(builder: BuilderHost) -> None:
    place = Path(builder.runner.inputs["hive"].removeprefix("path:"))
    (place / "newer").write_text("1")
    approval = builder.approval(ApprovalKind.INPUTS, inputs=["hive"])
    taken = wait(builder.inputs.take_in(approval, builder.hive))
    (change,) = cast("list[dict[str, str]]", taken.review["changes"])
    assert change["input"] == "hive"
    assert change["old"] != change["new"]
    judged = replace(approval, binding=taken.binding)
    hive = builder.inputs.change(judged, builder.hive)
    assert sha256(hive.lock).hexdigest()[:40] == taken.binding.commit
    assert taken.binding.lock == builder.hive.lock_hash
    diff_file = builder.settings.paths.applied / ".inputs" / f"{approval.id}.diff"
    assert any(json.loads(line)["sign"] == "+" for line in diff_file.read_text().splitlines())
    assert len(builder.profiles.links("inputs")) == 2


def test_h13_the_first_lock_needs_an_approval_too(builder: BuilderHost) -> None:
    builder.hive = builder.hive.with_lock(b"")
    taken = wait(builder.inputs.take_in(builder.approval(ApprovalKind.INPUTS), builder.hive))
    assert taken.binding.lock == ""
    changes = cast("list[dict[str, str]]", taken.review["changes"])
    assert [change["input"] for change in changes] == ["hive", "nixpkgs"]


def test_current_inputs_need_no_decision(builder: BuilderHost) -> None:
    taken = wait(
        builder.inputs.take_in(builder.approval(ApprovalKind.INPUTS), builder.hive.with_lock(b""))
    )
    hive = builder.inputs.change(
        replace(builder.approval(), binding=taken.binding), builder.hive.with_lock(b"")
    )
    with pytest.raises(Conflict, match="up to date"):
        wait(builder.inputs.take_in(builder.approval(ApprovalKind.INPUTS), hive))


def test_attack_21_only_the_approved_lock_is_applied(builder: BuilderHost) -> None:
    empty = builder.hive.with_lock(b"")
    taken = wait(builder.inputs.take_in(builder.approval(ApprovalKind.INPUTS), empty))
    approval = replace(builder.approval(ApprovalKind.INPUTS), binding=taken.binding)
    with pytest.raises(Conflict, match="since this was requested"):
        builder.inputs.change(approval, builder.hive)
    place = builder.settings.paths.applied / ".inputs" / f"{approval.id}.lock"
    place.write_bytes(place.read_bytes() + b" ")
    with pytest.raises(Conflict, match="not the approved one"):
        builder.inputs.change(approval, empty)
    place.unlink()
    place.symlink_to("/etc/passwd")
    with pytest.raises(Conflict, match="cannot read the proposed lock file"):
        builder.inputs.change(approval, empty)


def test_unavailable_inputs_are_refused(builder: BuilderHost) -> None:
    inputs = {**builder.runner.inputs, "more": "path:/nonexistent"}
    nix = builder.settings.nix.model_copy(update={"inputs": inputs})
    builder.nix.settings = builder.settings.model_copy(update={"nix": nix})
    with pytest.raises(InvalidArgument, match="/nonexistent"):
        wait(builder.inputs.take_in(builder.approval(ApprovalKind.INPUTS), builder.hive))


def test_agents_built_from_the_inputs_follow_parents_first(builder: BuilderHost) -> None:
    def with_build(hive: Hive, name: str) -> Hive:
        made = {
            "image": "nix", "config": "1a" * 20, "system": "/nix/store/" + "0" * 32 + "-system"
        }  # fmt: skip
        return hive.with_spec(name, hive.spec(name).model_copy(update=made))

    hive = with_build(with_build(builder.hive.with_parent("bob", "carl"), "bob"), "carl")
    assert builder.inputs.built_agents(hive) == ["carl", "bob"]
    assert builder.inputs.built_agents(builder.hive) == []
