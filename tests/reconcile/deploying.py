"""Both roads and the deploy road on a host in memory: real broker, ledger and git repositories."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from seeds import empty_ledger, empty_repo
from typing_extensions import override

from hive_core.broker.batch import Services
from hive_core.broker.call import Call, Change, Record
from hive_core.broker.core import Broker
from hive_core.broker.operation import Result
from hive_core.errors import HiveError, InvalidArgument
from hive_core.host.git import MetaRepo
from hive_core.host.git.applied_repositories import AppliedRepositories
from hive_core.host.git.applied_repository import AppliedRepo, ReviewFiles, tree_of
from hive_core.host.git.initial_pack import build_pack, object_name
from hive_core.host.git.object_writer import commit_bytes, tree_bytes
from hive_core.host.git.store import FILES, FOLDER, TreeEntry
from hive_core.ledger.agents.archives import Archive
from hive_core.ledger.approvals.storage import ApprovalRequest
from hive_core.ledger.core.ledger import Ledger
from hive_core.ledger.machines.check_ins import CheckIn
from hive_core.model.agents.agent import AgentSpec
from hive_core.model.agents.hive import Hive
from hive_core.model.agents.machine import DesiredState, State
from hive_core.model.config.approval import (
    Approval,
    ApprovalKind,
    ApprovalState,
    Binding,
    Generation,
)
from hive_core.model.config.seed import seed_for
from hive_core.model.config.settings import Paths, Settings
from hive_core.model.wire.record import Message
from hive_core.operations.approvals.outcome import end_approval
from hive_core.plan import nar
from hive_core.plan.actions import Action, JobKind, RunJob
from hive_core.plan.daemon_actions import DaemonAction, ShowConfig
from hive_core.plan.effect import ConfiguredAgent, effect
from hive_core.plan.results import Result as Outcome
from hive_core.reconcile.deploy.context import BuiltSystem, CheckedRequest, DeployContext, no_hook
from hive_core.reconcile.deploy.deployer import Deployer
from hive_core.reconcile.deploy.effects import changed_paths, config_in, files_of
from hive_core.reconcile.deps import BrokerHandle as Given
from hive_core.reconcile.deps import Ports
from hive_core.reconcile.observed import ObservedState
from hive_core.reconcile.reconciler import Reconciler
from hive_core.testing import ManualClock, MemoryJobs, MemoryJournal, MemoryMachines

MANY = 200
FAMILY: Mapping[str, str | None] = {"root": None, "ann": "root", "bob": "ann"}
LIVE = '[harness]\nreload = "live"\n'
Texts = Mapping[str, str]


class Done(Result):
    """Nothing more."""

    id: str = ""


@dataclass(frozen=True)
class Proposed:
    """A commit with its files, as jobs would hand it over."""

    binding: Binding
    parts: ReviewFiles
    files: Mapping[str, tuple[bool, bytes]]
    wishes: Mapping[str, object] = field(default_factory=dict)


def objects_of(files: Mapping[str, tuple[bool, bytes]]) -> list[tuple[str, bytes]]:
    """Blobs and trees, the top tree last."""
    objects: list[tuple[str, bytes]] = []
    entries: dict[str, TreeEntry] = {}
    below: dict[str, dict[str, tuple[bool, bytes]]] = {}
    for path, (executable, data) in files.items():
        top, slash, rest = path.partition("/")
        if slash:
            below.setdefault(top, {})[rest] = (executable, data)
        else:
            objects.append(("blob", data))
            entries[top] = TreeEntry(FILES[executable], object_name("blob", data))
    for name, inside in below.items():
        objects += objects_of(inside)
        entries[name] = TreeEntry(FOLDER, object_name(*objects[-1]))
    return [*objects, ("tree", tree_bytes(entries))]


def proposal(texts: Texts, message: str = "change", **wishes: object) -> Proposed:
    files = {path: (False, text.encode()) for path, text in texts.items()}
    objects = objects_of(files)
    signed = "ann <ann@localhost> 1700000000 +0000"
    commit = ("commit", commit_bytes(object_name(*objects[-1]), (), signed, f"{message}\n"))
    pack, table = build_pack([*objects, commit])
    archive = nar.pack(files)
    binding = Binding(object_name(*commit), tree_of(files), nar.digest(archive))
    return Proposed(binding, ReviewFiles(pack, table, archive, b"{}", b""), files, wishes)


@dataclass
class MemoryIntake:
    """`fault`: what the next check ends with."""

    applied: AppliedRepositories
    known: dict[str, Proposed] = field(default_factory=dict)
    fault: HiveError | None = None
    checks: int = 0
    gate: asyncio.Event | None = None

    async def take_in(self, approval: Approval, hive: Hive) -> CheckedRequest:
        self.checks += 1
        if self.gate is not None:
            await self.gate.wait()
        if self.fault is not None:
            raise self.fault
        result = self.known.get(approval.binding.commit)
        if result is None:
            raise InvalidArgument("there is no such commit", field="commit")
        spec = hive.spec(hive.names[approval.agent])
        before = files_of(self.applied, spec)
        shown = (
            ConfiguredAgent(spec, config_in(before)),
            ConfiguredAgent(spec, config_in(result.files)),
        )
        does = effect(*shown, changed_paths(before, result.files))
        binding = Binding(
            result.binding.commit, result.binding.tree, result.binding.nar, spec.config or "",
            meta=hive.commit,
        )  # fmt: skip
        return CheckedRequest(
            binding, does, result.wishes, {"files": len(result.files)}, result.parts
        )


@dataclass
class MemoryBuilder:
    system: str = "/nix/store/00000000000000000000000000000000-nixos"
    fault: HiveError | None = None
    builds: int = 0

    async def build(self, approval: Approval, hive: Hive, name: str) -> BuiltSystem:
        self.builds += 1
        if self.fault is not None:
            raise self.fault
        return BuiltSystem(
            self.system, {"approval": approval.id, "name": name, "hive": hive.commit}
        )


@dataclass
class Host(MemoryMachines):
    """One that cannot show what is not there, as the real one."""

    source: Callable[[str, str, str], bytes] = lambda *_: b""

    @override
    async def apply(self, action: Action | DaemonAction) -> Outcome:
        if isinstance(action, ShowConfig) and action.commit:
            self.source(action.uuid, action.commit, action.nar)
        return await super().apply(action)


def no_links(_: RunJob, folder: Path) -> None:
    """What the job says that finds no file linked from elsewhere."""
    (folder / "out/said.json").write_text('{"ok": true, "figures": {"links": 0}}')


class Stage:
    """`settle` runs both roads until nothing is left to do; time stands still meanwhile."""

    def __init__(self, folder: Path, **settings: object) -> None:
        self.folder = folder
        self.step: Callable[[str], None] = no_hook
        self.last = ""
        self.commits: Callable[[str], None] = no_hook  # called between the parts of a COMMIT
        paths = Paths(state=folder / "state", runtime=folder / "run")
        self.settings = Settings.model_validate(settings).model_copy(update={"paths": paths})
        self.clock = ManualClock()
        self.host = Host(self.clock)
        self.journal = MemoryJournal()
        self.builder = MemoryBuilder()
        self.faults: list[BaseException] = []
        self.known: dict[str, Proposed] = {}
        empty_ledger().plant(folder)
        empty_repo().plant(folder)
        self.open()

    def open(self) -> None:
        """The daemon starts (anew): ledger, repositories and host are as they were left."""
        limits = self.settings.limits
        self.ledger = Ledger.open(
            self.folder / "hive.db", limits=limits, primed=0, step=self._committing
        )
        self.repo = MetaRepo.open(self.folder / "meta", limits.depth, clock=self.clock.now)
        self.repo.recover(self.ledger.head, lambda _, __: None)
        hive = self.repo.read(self.ledger.head) if self.ledger.head else Hive()
        self.host.forget_watchers()
        self.look = ObservedState.build(self.ledger, self.settings, hive, self.clock)
        self.host.known = self.look.uuids
        world = Services(self.ledger, self.repo, self.settings, self.look, self.clock)
        self.broker = Broker(world, hive, {}, {})
        self.jobs = MemoryJobs(self.host, work=self.settings.paths.work)
        self.jobs.programs[JobKind.OWN_INODES] = no_links
        self.ports = Ports(
            self.host, self.journal, self.jobs, self.clock, self.ledger, self.settings
        )
        result = Given(lambda: self.broker.hive, self._touch, self.broker.perform)
        self.road = Reconciler.build(self.ports, result, self.look, self.faults.append)
        self.applied = AppliedRepositories(self.folder / "applied")
        self.applied.open()
        self.host.source = self.applied.nar
        self.intake = MemoryIntake(self.applied, self.known)
        means = DeployContext(
            self.ports, self.look, lambda: self.broker.hive, self.broker.perform, self.applied,
            self.intake, self.builder, step=self._stepping,
        )  # fmt: skip
        self.deploys = Deployer.build(means, self.faults.append)
        self.broker.listeners += [self.road.on_topics, self.deploys.on_topics]

    def _stepping(self, name: str) -> None:
        self.last = name
        self.step(name)

    def _committing(self, name: str) -> None:
        self.commits(name)

    def _touch(self, topics: frozenset[str]) -> None:
        self.broker.touch(topics)
        self.deploys.on_topics(topics)

    async def kill(self) -> None:
        """The process is gone, between two instructions."""
        roads = (self.road.runner, self.deploys.tasks, self.road.revoker.tasks)
        tasks = [task for road in roads for task in road.busy.values()]
        await asyncio.sleep(0)  # what was only just begun could not be told to end
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.ledger.connection.close()

    async def settle(self) -> None:
        for _ in range(MANY):
            await self.road.converge()
            await self.deploys.run_once()
            for busy in (
                self.road.runner.busy, self.deploys.tasks.busy, self.road.revoker.tasks.busy,
            ):  # fmt: skip
                while busy:
                    await asyncio.gather(*busy.values(), return_exceptions=True)
            if self.faults:
                raise self.faults.pop()
            if self.road.idle and self.deploys.idle:
                return
        raise AssertionError("it never settles")

    async def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        await self.settle()

    # What operations do.

    async def grow(self, parents: Mapping[str, str | None], **specs: Mapping[str, object]) -> None:
        hive = self.broker.hive
        for number, (name, parent) in enumerate(parents.items(), 1):
            answer = specs.get(name, {})
            start = seed_for(str(answer.get("image", "host")))
            uuid = f"{number:08x}-0000-4000-8000-000000000000"
            result = {"uuid": uuid, "config": start.commit, "nar": start.nar, **answer}
            hive = hive.with_agent(name, parent, AgentSpec.model_validate(result))
        self.change(hive)
        await self.settle()

    def change(self, hive: Hive) -> None:
        """Somebody else's commit."""
        self.broker.perform("test", lambda _: Change(Done(), hive, "test"))

    def request(self, agent: str, proposed: Proposed, by: str = "ann") -> str:
        self.known[proposed.binding.commit] = proposed
        spec = self.broker.hive.spec(agent)
        binding = Binding(proposed.binding.commit, base=spec.config or "")
        asked = self.uuid(by) if by != "operator" else by
        request = ApprovalRequest(ApprovalKind.CONFIG, spec.id, asked, spec.id, "please", binding)
        return self._create(request)

    def _create(self, request: ApprovalRequest) -> str:
        def handler(call: Call) -> Record[Done]:
            approvals = call.ledger.approvals
            result = approvals.create(request, call.now, call.now + 86_400)
            goals = {request.agent: f"approval:{result.id}"}
            job = call.ledger.jobs.create("test", "operator", goals, call.now)
            approvals.attach(result.id, job.id)
            if request.kind is not ApprovalKind.CONFIG:
                approvals.move(result.id, "check", call.now)
                approvals.move(result.id, "approve", call.now, by="operator")
            call.notify(f"approval:{result.id}")
            return Record(Done(id=result.id))

        return self.broker.perform("request", handler).id

    def decide(self, approval: str, event: str = "approve", reason: str = "") -> None:
        def handler(call: Call) -> Record[Done]:
            result = call.ledger.approvals.get(approval)
            assert result is not None
            if event == "approve":
                call.ledger.approvals.move(approval, "approve", call.now, by="uid:0")
                call.notify(f"approval:{approval}")
                return Record(Done())
            end_approval(call, result, event, by="uid:0", reason=reason)
            return Record(Done())

        self.broker.perform(event, handler)

    def roll_back(self, agent: str, number: int) -> str:
        spec = self.broker.hive.spec(agent)
        result = self.ledger.generations.get(spec.id, number)
        assert result is not None
        binding = Binding(result.commit, base=spec.config or "")
        review = {"generation": number}
        return self._create(
            ApprovalRequest(
                ApprovalKind.ROLLBACK, spec.id, "operator", "", "", binding, review=review
            )
        )

    async def want(self, agent: str, wanted: DesiredState, *, fresh: bool = False) -> None:
        uuid = self.uuid(agent)

        def handler(call: Call) -> Record[Done]:
            call.ledger.runs.want(uuid, wanted, call.now, fresh=fresh)
            call.notify(f"run:{uuid}")
            return Record(Done())

        self.broker.perform("want", handler)
        await self.settle()

    async def deploy(self, agent: str, proposed: Proposed, by: str = "ann") -> str:
        """Asked for, checked, approved; what follows is up to the road."""
        approval = self.request(agent, proposed, by)
        await self.settle()
        assert self.state_of(approval) is ApprovalState.PENDING, self.approval(approval).reason
        self.decide(approval)
        await self.settle()
        return approval

    def hello(self, agent: str, commit: str, fault: str = "") -> None:
        uuid = self.uuid(agent)

        def handler(call: Call) -> Record[Done]:
            run = call.ledger.runs.get(uuid)
            nonce = run.nonce if run else 0
            call.ledger.hellos.put(CheckIn(uuid, call.now, nonce, commit, fault=fault))
            call.notify(f"hello:{uuid}")
            return Record(Done())

        self.broker.perform("hello", handler)

    def destroy(self, agent: str) -> None:
        spec, hive = self.spec(agent), self.broker.hive.without(agent)

        def handler(call: Call) -> Change[Done]:
            gone = call.now + 86_400
            archive = Archive(spec.id, agent, spec.model_dump_json(), None, call.now, gone)
            call.ledger.archives.put(archive)
            call.ledger.runs.want(spec.id, DesiredState.STOPPED, call.now, reason="destroyed")
            call.notify(f"run:{spec.id}")
            return Change(Done(), hive, "destroy")

        self.broker.perform("destroy", handler)

    # What there is to see.

    def uuid(self, name: str) -> str:
        return self.broker.hive.spec(name).id

    def spec(self, name: str) -> AgentSpec:
        return self.broker.hive.spec(name)

    def approval(self, approval: str) -> Approval:
        result = self.ledger.approvals.get(approval)
        assert result is not None
        return result

    def state_of(self, approval: str) -> ApprovalState:
        return self.approval(approval).state

    def state(self, name: str) -> State:
        return self.look.state(self.uuid(name))

    def shown_commit(self, name: str) -> str:
        return self.host.storage.configs.get(self.uuid(name), "")

    def git(self, agent: str) -> AppliedRepo:
        return self.applied.repo(self.uuid(agent))

    def tags(self, agent: str) -> set[str]:
        names = (name.removeprefix("refs/tags/") for name in self.git(agent).refs())
        return {name.partition("/")[0] for name in names if not name.startswith("refs/")}

    def generations(self, agent: str) -> list[Generation]:
        return self.ledger.generations.all(self.uuid(agent))

    def mail(self, name: str) -> list[Message]:
        return self.ledger.messages.inbox(self.uuid(name), dead=False, limit=100)

    def job(self, approval: str) -> tuple[str, str]:
        job = self.ledger.jobs.get(self.approval(approval).job)
        assert job is not None
        return job.state, job.error

    def log(self) -> str:
        words = ["git", "-C", str(self.repo.folder), "log", "--format=%B", "main"]
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout


Story = Callable[[Stage], Awaitable[None]]


def play(story: Story, tree: Mapping[str, str | None] = FAMILY, **settings: object) -> None:
    """A story, on a RAM disk: what is durable is not the question here."""
    with TemporaryDirectory(dir="/dev/shm") as folder:
        asyncio.run(_play(Stage(Path(folder), **settings), story, tree))


async def _play(stage: Stage, story: Story, tree: Mapping[str, str | None]) -> None:
    await stage.grow(tree)
    try:
        await story(stage)
    finally:
        with suppress(HiveError):
            await stage.kill()
