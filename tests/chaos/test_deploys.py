"""R18: after any event at any step of a deploy, the agent has exactly the old or the new."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from each import for_each
from fixtures.deploys import FAMILY, DeployHarness
from fixtures.proposed_commits import Proposed, proposal
from long import figure, seed, times
from typing_extensions import override

from hive_core.errors import Conflict, HiveError, StorageFull
from hive_core.model.agents.machine import DesiredState, State
from hive_core.model.config.approval import FINALS, ApprovalState
from hive_core.model.config.seed import seed_for

OLD = seed_for("host").commit
NEW = proposal({"agent.toml": "", "AGENTS.md": "Be kind.\n"})
SLOW = 200.0  # seconds in which everything has come to rest
_S = ApprovalState


class Killed(BaseException):
    """kill -9."""


class DeployFault:
    """Something happens at the step with this number; `None`: nothing does, the steps are named."""

    def __init__(self, harness: DeployHarness, at: int | None) -> None:
        self.harness, self.at = harness, at
        self.names: list[str] = []
        harness.step = self._step

    def _step(self, name: str) -> None:
        self.names.append(name)
        if len(self.names) - 1 == self.at:
            self.happen()

    def happen(self) -> None:
        """Nothing, here."""


class KillDaemon(DeployFault):
    @override
    def happen(self) -> None:
        raise Killed


class FullDisk(DeployFault):
    """The next two commits find no room."""

    @override
    def happen(self) -> None:
        left = [1, 2]

        def full(step: str) -> None:
            if step == "commit" and left:
                left.pop()
                raise StorageFull("no room")

        self.harness.commits = full


class UnhealthyAgent(DeployFault):
    """The agent crashes, if it runs."""

    @override
    def happen(self) -> None:
        if self.harness.uuid("bob") in self.harness.host.units:
            self.harness.host.crash(self.harness.uuid("bob"))


class LostPack(DeployFault):
    """The source of the build is gone: both pack and archive."""

    @override
    def happen(self) -> None:
        repo, spec = self.harness.git("bob"), self.harness.spec("bob")
        if spec.config != OLD or self.harness.last == "deploying":
            return  # too late to keep it from being deployed
        for path in (*repo.path.glob("objects/pack/*"), *repo.path.glob("hive/*.nar")):
            if path.stem != OLD:
                path.unlink()


class CancelledDeploy(DeployFault):
    """The operator withdraws the approval: denies it, or stops the agent."""

    @override
    def happen(self) -> None:
        approval = self.harness.ledger.approvals.page(None, 1)[0]
        with suppress(HiveError):
            self.harness.decide(approval.id, "deny", "no")
            return
        uuid = self.harness.uuid("bob")
        with self.harness.ledger.transaction():
            self.harness.ledger.runs.want(uuid, DesiredState.STOPPED, self.harness.clock.now())
        self.harness.reconciler.on_topics(frozenset({f"run:{uuid}"}))
        self.harness.deploys.on_topics(frozenset({f"run:{uuid}"}))


KINDS: dict[str, type[DeployFault]] = {
    "kill": KillDaemon, "full": FullDisk, "unhealthy": UnhealthyAgent, "damaged": LostPack,
    "cancelled": CancelledDeploy,
}  # fmt: skip


async def run_over_kills(harness: DeployHarness, work: Callable[[], object]) -> None:
    """Do something and let it settle, over a kill or two."""
    for attempt in count():
        try:
            if attempt == 0:
                work()
            await harness.settle()
        except Killed:
            await harness.kill()
            while not _open(harness):
                pass  # systemd starts it again
        else:
            return


def _open(harness: DeployHarness) -> bool:
    try:
        harness.open()
    except StorageFull:
        return False
    return True


async def deploy(harness: DeployHarness, proposed: Proposed) -> str:
    """Requested, approved as soon as it waits, and left alone until it is over."""
    made: list[str] = []
    await run_over_kills(harness, lambda: made.append(harness.request("bob", proposed)))
    for _ in range(12):
        if harness.state_of(made[0]) is _S.PENDING:
            await run_over_kills(harness, lambda: _approve(harness, made[0]))
        await run_over_kills(harness, lambda: harness.clock.advance(SLOW / 6))
    return made[0]


def _approve(harness: DeployHarness, approval: str) -> None:
    with suppress(Conflict, StorageFull):  # then the operator tries again
        harness.decide(approval)


def check(harness: DeployHarness, approval: str) -> None:
    """Ledger, meta repo, applied repo and host agree, and it is the old or the new."""
    found_approval, spec = harness.approval(approval), harness.spec("bob")
    assert found_approval.state in FINALS, found_approval
    wanted = NEW.binding.commit if found_approval.state is _S.DEPLOYED else OLD
    assert spec.config == wanted, found_approval
    assert harness.repo.is_at(harness.broker.hive.commit)
    assert harness.ledger.head == harness.broker.hive.commit
    assert harness.repo.read(harness.ledger.head).spec("bob") == spec
    assert harness.ledger.deploys.all() == []
    assert harness.job(approval)[0] == ("done" if found_approval.state is _S.DEPLOYED else "failed")
    newest = harness.ledger.generations.newest(spec.id)
    assert newest is None or newest.commit == wanted
    _check_repo(harness, approval)
    run = harness.ledger.runs.get(spec.id)
    assert run is not None
    starts = harness.ledger.starts.get(spec.id)
    if run.wanted is not DesiredState.RUNNING:
        assert harness.state("bob") is State.STOPPED
    elif starts is not None and starts.failures and starts.nonce >= run.nonce:
        assert harness.state("bob") is State.FAILED  # outside of the window that is its own affair
    else:
        unit = harness.host.units[spec.id]
        assert unit.nonce == run.nonce
        assert harness.state("bob") is State.RUNNING
        assert harness.shown_commit("bob") == wanted


def _check_repo(harness: DeployHarness, approval: str) -> None:
    """The deployed files can be read, tags record the outcome, and the old commit is there."""
    spec, found_approval = harness.spec("bob"), harness.approval(approval)
    repo = harness.git("bob")
    assert harness.applied.nar(spec.id, OLD, seed_for("host").nar)
    assert harness.applied.nar(spec.id, spec.config or "", spec.nar or "")
    if repo.has_proposal(approval):
        ends = {"deployed", "failed", "denied"} & harness.tags("bob")
        right = {_S.DEPLOYED: "deployed", _S.FAILED: "failed"}.get(found_approval.state, "denied")
        assert ends == {right}
        assert repo.ref("refs/heads/main") == spec.config


async def trial(kind: type[DeployFault], at: int | None) -> list[str]:
    with TemporaryDirectory(dir="/dev/shm") as folder:
        harness = DeployHarness(Path(folder))
        await harness.grow(FAMILY)
        trouble = kind(harness, at)
        approval = await deploy(harness, NEW)
        harness.step = harness.commits = lambda _: None
        await harness.settle()
        try:
            check(harness, approval)
        except AssertionError as error:
            where = trouble.names[at] if at is not None and at < len(trouble.names) else at
            raise AssertionError(f"{kind.__name__} at {where}") from error
        finally:
            await harness.kill()
        return trouble.names


STEPS = [
    "received", "taken in", "promoted", "pending", "tagged approved", "building",
    "tagged building", "built", "deploying", "deployed", "watching", "confirmed",
    "tagged at its end", "settled", "tidied",
]  # fmt: skip


def test_an_undisturbed_deploy_goes_through_all_steps() -> None:
    names = asyncio.run(trial(DeployFault, None))
    assert list(dict.fromkeys(names)) == STEPS


@for_each("kind", KINDS)
def test_r18_a_fault_at_any_step_leaves_exactly_the_old_or_the_new(kind: str) -> None:
    """R18, attack 49: every step of a deploy x kill, full disk, damage, crash, cancel."""
    for at in range(len(STEPS)):
        asyncio.run(trial(KINDS[kind], at))


@pytest.mark.sized
def test_r18_several_faults_in_one_deploy_leave_the_old_or_the_new() -> None:
    """R18 at random: up to four troubles one after another."""
    drawn, trials = random.Random(start := seed()), times(4, 6000)  # noqa: S311 - no secret
    for number in range(trials):
        kinds = [drawn.choice([*KINDS.values()]) for _ in range(4)]
        places = sorted(drawn.sample(range(24), 4))
        try:
            asyncio.run(_several(kinds, places))
        except BaseException as error:
            raise AssertionError(f"--seed {start}, trial {number}: {kinds} {places}") from error
    figure("deploys with troubles", trials=trials)


async def _several(kinds: list[type[DeployFault]], places: list[int]) -> None:
    with TemporaryDirectory(dir="/dev/shm") as folder:
        harness = DeployHarness(Path(folder))
        await harness.grow(FAMILY)
        troubles = [kind(harness, None) for kind in kinds]
        steps = count()

        def step(_: str) -> None:
            if (at := next(steps)) in places:
                troubles[places.index(at)].happen()

        harness.step = step
        approval = await deploy(harness, NEW)
        harness.step = harness.commits = lambda _: None
        for _ in range(4):
            await harness.advance(SLOW / 4)
        try:
            check(harness, approval)
        finally:
            await harness.kill()
