"""The daemon `hived`: builds all parts, connects them and runs them."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
import time
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Final

from hive_core import VERSION, operations
from hive_core.broker.batch import Services
from hive_core.broker.core import Broker
from hive_core.duties import Duties, stop_daemon_on_failure
from hive_core.errors import HiveError
from hive_core.host.config import settings as config
from hive_core.host.config.command_line import check_user, parse_settings_file
from hive_core.host.config.diffs import ReviewDiffs
from hive_core.host.config.models import MODELS, check_models, load_models
from hive_core.host.config.nix_profiles import NixProfiles
from hive_core.host.config.operator_texts import load_texts, text_faults
from hive_core.host.git.applied_repositories import AppliedRepositories
from hive_core.host.git.manual_commits import ManualCommits
from hive_core.host.git.pack_exports import PackExports
from hive_core.host.git.pushes import Pushes
from hive_core.host.git.seed import write_seeds
from hive_core.host.git.server import MetaGitServer
from hive_core.host.git.signed_approvals import SignedApprovals, create_signed_approvals
from hive_core.host.git.watch import watch_branch
from hive_core.host.sockets.egress_sockets import EgressFacts, EgressSockets, egress_doors
from hive_core.host.sockets.login_socket import LoginSocket
from hive_core.host.sockets.model_sockets import AgentSocketGroup, ModelSockets
from hive_core.host.sockets.server import SocketServer
from hive_core.host.sockets.service_sockets import MODEL_SOCKETS, ServiceSockets, user_id
from hive_core.host.sockets.subagent_sockets import SubAgentServices, SubAgentSocketPairs
from hive_core.host.storage.backups import BackupRunner
from hive_core.host.storage.credentials import Credentials
from hive_core.host.storage.deferred_reads import DeferredReads
from hive_core.host.storage.disk_usage import disk_usage
from hive_core.host.storage.socket_directory import SocketDirectories
from hive_core.host.storage.stores import Stores
from hive_core.host.storage.uploads import PushUploads
from hive_core.host.systemd import notify
from hive_core.host.systemd.bus import Bus
from hive_core.host.systemd.clock import SystemClock
from hive_core.host.systemd.host_shutdown import wait_for_agents
from hive_core.host.systemd.job_exchange import sweep
from hive_core.host.systemd.jobs import JOBS, NspawnJobs
from hive_core.host.systemd.journal import HostJournal
from hive_core.host.systemd.machines import AGENTS, NspawnMachines
from hive_core.host.systemd.root_helper import Privd
from hive_core.host.systemd.signals import ShutdownSignals, fatal
from hive_core.host.systemd.watchdog import freeze_heap, send_life_signs
from hive_core.ledger.core.ballast import Ballast
from hive_core.model.config.settings import Settings
from hive_core.reconcile import built_in_agents, root_agent
from hive_core.reconcile.deploy.deployer import Deployer
from hive_core.reconcile.deploy.wiring import DeployWiring
from hive_core.reconcile.deps import BrokerHandle, Ports, TopicListener
from hive_core.reconcile.disk_limits import DiskLimiter
from hive_core.reconcile.jobs.import_state import ImportJobs
from hive_core.reconcile.observed import ObservedState
from hive_core.reconcile.reconciler import Reconciler
from hive_core.reconcile.timers.upkeep import Upkeep
from hive_core.surfaces import service

log = logging.getLogger("hived")
BALLAST_EVERY: Final = 2.0
FIRST_LOOK: Final = 5.0


class Daemon:
    """The parts of the daemon; each is built at its first use, inside the running loop."""

    def __init__(self, settings: Settings, file: Path = config.FILE) -> None:
        self.settings = settings
        self.models = load_models(file.parent / MODELS)
        self.texts = load_texts(file.parent)
        notify.starting()
        self.stores = Stores.open(settings)
        notify.starting()
        self.clock, self.journal = SystemClock(), HostJournal()
        self.keeper = notify.SystemdDescriptorStore()
        self.signals = ShutdownSignals(
            refusals=lambda: [
                *(fault.text for fault in config.check(file)),
                *(fault.text for fault in check_models(file.parent / MODELS)),
                *text_faults(file.parent),
            ]
        )

    @cached_property
    def observed(self) -> ObservedState:
        look = ObservedState.build(self.stores.ledger, self.settings, self.stores.hive, self.clock)
        look.damage = self.stores.damage
        look.faults += [*self.models.faults(self.settings.models), *self.texts.faults()]
        look.disk_is_full = lambda: self.ballast.short
        return look

    @cached_property
    def broker(self) -> Broker:
        stores, ballast = self.stores, self.ballast
        parts = stores.ledger, stores.repo, self.settings, self.observed, self.clock
        registry = stores.served_operations(operations.load())
        served = stores.vault, stores.contents, self.git, self.models.file, self.texts.prompts
        world = Services(*parts, *served, skills=self.texts.skills)
        broker = Broker(
            world, stores.hive, registry, service.introspection_methods(registry, VERSION)
        )
        broker.release_ballast, broker.disk_full = ballast.release, lambda: ballast.spent
        return broker

    @cached_property
    def ballast(self) -> Ballast:
        return Ballast(self.settings.paths.ballast, self.settings.ballast)

    @cached_property
    def sockets(self) -> SocketServer:
        plan = lambda: self.reconciler.fresh_plan()  # noqa: E731, PLW0108 - the reconciler needs sockets
        diffs = ReviewDiffs(self.settings.paths.applied)
        reads = DeferredReads(
            self.journal, plan, diffs.read, self.observed.machines, self._wait_for_observation,
            self.subagent_sockets,
        )  # fmt: skip
        return SocketServer(self.broker, reads, fatal, self.keeper)

    @cached_property
    def service_sockets(self) -> ServiceSockets:
        return ServiceSockets(user_id(MODEL_SOCKETS.user), self.keeper)

    @cached_property
    def model_sockets(self) -> ModelSockets:
        hive, troubles = lambda: self.broker.hive, self.observed.troubles
        return ModelSockets(self.sockets, self.service_sockets, self.settings.paths, troubles, hive)

    @cached_property
    def agent_sockets(self) -> AgentSocketGroup:
        return AgentSocketGroup(
            self.sockets, self.service_sockets, self._name_of, self.egress_sockets
        )

    @cached_property
    def egress_sockets(self) -> EgressSockets:
        hive, allow = lambda: self.broker.hive, self.settings.egress.allow
        parts = self.sockets, egress_doors(self.keeper), self.settings.paths, self.observed.troubles
        return EgressSockets(*parts, EgressFacts(hive, allow, self.stores.ledger))

    @cached_property
    def subagent_sockets(self) -> SubAgentSocketPairs:
        services = SubAgentServices(self.service_sockets, lambda: self.egress_sockets)
        parts = services, self.settings.paths
        return SubAgentSocketPairs(lambda: self.sockets, *parts, self.stores.ledger, self._name_of)

    def _name_of(self, uuid: str) -> str:
        return self.broker.hive.name(uuid) or uuid

    @cached_property
    def bus(self) -> Bus:
        return Bus(self.settings.grace.bus, self._on_unit_signal, (AGENTS, JOBS))

    @cached_property
    def privd(self) -> Privd:
        return Privd(self.settings.paths.privd_socket, self.settings.grace.privd)

    @cached_property
    def machines(self) -> NspawnMachines:
        paths = self.settings.paths
        credentials = Credentials(self.stores.vault, self.observed.base)
        shown = SocketDirectories(self.agent_sockets, paths, self.applied.nar, credentials)
        return NspawnMachines(self.bus, self.privd, shown, paths, self.observed)

    @cached_property
    def applied(self) -> AppliedRepositories:
        return AppliedRepositories(self.settings.paths.applied)

    @cached_property
    def jobs(self) -> NspawnJobs:
        paths = self.settings.paths
        return NspawnJobs(self.bus, self.privd, paths.exits, paths.work, self.journal)

    @cached_property
    def reconciler(self) -> Reconciler:
        return Reconciler.build(self.ports, self.broker_handle, self.observed, fatal)

    @cached_property
    def ports(self) -> Ports:
        return Ports(
            self.machines, self.journal, self.jobs, self.clock, self.stores.ledger, self.settings,
            self.models.file,
        )  # fmt: skip

    @cached_property
    def broker_handle(self) -> BrokerHandle:
        return BrokerHandle(lambda: self.broker.hive, self._touch, self.broker.perform)

    def _touch(self, topics: frozenset[str]) -> None:
        self.broker.touch(topics)
        self.deployer.on_topics(topics)

    @cached_property
    def deployer(self) -> Deployer:
        works = DeployWiring(self.ports, self.applied, NixProfiles())
        hive, spare = lambda: self.broker.hive, self.ballast.release
        return Deployer.build(works.context(self.observed, hive, self.broker.perform, spare), fatal)

    @cached_property
    def manual_commits(self) -> ManualCommits:
        return ManualCommits(self.stores.repo, self.broker, self.observed)

    @cached_property
    def signed_approvals(self) -> SignedApprovals:
        return create_signed_approvals(self.broker, self.applied.repo)

    @cached_property
    def git(self) -> MetaGitServer:
        served = self.settings.paths.served
        sweep(served)
        return MetaGitServer(
            self.stores.repo, self.applied.repo, PackExports(served), lambda: self.pushes
        )

    @cached_property
    def pushes(self) -> Pushes:
        uploads = PushUploads(self.settings.paths.served, self.settings.intake.pack)
        judges = (lambda: self.manual_commits), (lambda: self.signed_approvals)
        return Pushes(self.settings, self.jobs, *judges, self.applied.repo, uploads)

    @cached_property
    def upkeep(self) -> Upkeep:
        copies = BackupRunner(self.stores, self.settings.paths.backup, stop_daemon_on_failure)
        alarm = partial(self.observed.troubles.__setitem__, "audit")
        moved = self.duties.on_clock_set
        return Upkeep(
            self.ports, self.broker_handle, copies.begin, alarm, self.observed.cache.load, moved
        )

    @cached_property
    def duties(self) -> Duties:
        return Duties(self.ports, self.broker_handle, self.observed)

    @cached_property
    def imports(self) -> ImportJobs:
        return ImportJobs.build(self.ports, self.broker_handle, fatal)

    def _on_unit_signal(self, unit: str) -> None:
        """Forward a unit's signal from systemd; an empty name means any unit."""
        if unit.startswith(JOBS) or not unit:
            self.jobs.on_unit_signal(unit)
        if unit.startswith(AGENTS) or not unit:
            self.machines.on_unit_signal(unit)

    async def serve(self) -> None:
        """Serve until a signal asks the daemon to end."""
        self.signals.listen()
        await self._open()
        if self.stores.damage:
            log.critical("Serving the operator only: %s", self.stores.damage)
        else:
            self._start_background()
            notify.starting()
            await self.duties.open(self.stores)
            notify.starting()
            await self._wait_for_observation()
        freeze_heap()
        notify.ready(self._status())
        self.duties.run_until_close(send_life_signs(self.broker))
        self.duties.run_until_close(self._restore_ballast())
        await self.signals.asked.wait()
        await self._close()

    async def _open(self) -> None:
        """Listen on the sockets of the daemon before this one; clients have queued meanwhile."""
        login = LoginSocket(self.sockets, self.settings.paths, self.stores.ledger.logins)
        if not self.stores.damage:  # first of all, so that no topic is missed
            self.applied.open()
            write_seeds(self.settings.paths.seeds)
            to: tuple[TopicListener, ...] = (
                self.machines, self.reconciler, self.deployer, self.imports, self.upkeep,
                self.duties, self.model_sockets, self.egress_sockets, self.subagent_sockets, login,
            )  # fmt: skip
            self.broker.listeners += [*(part.on_topics for part in to), self._update_status]
        for name, fd in notify.stored_descriptors():
            self.agent_sockets.adopt(name, fd)
        self.broker.branch_moved = self.manual_commits.check_branch
        self.stores.repo.schedule = asyncio.get_running_loop().call_soon
        if self.stores.recovery is not None:
            self.manual_commits.apply_recovery(self.stores.recovery)
        paths = self.settings.paths
        self.subagent_sockets.remove_left()
        for uuid, base in self.observed.cache.bases.items():
            if uuid in self.observed.places.by_uuid and paths.socket(uuid).parent.is_dir():
                with suppress(HiveError):  # the reconciler tries again, and reports it
                    await self.agent_sockets.listen(uuid, paths.socket(uuid), base)
                notify.starting()
        await self.sockets.listen_operator(paths.operator_socket, self.settings.operator_group)
        for served in (self.model_sockets, self.egress_sockets, login):
            await served.listen()
        self.agent_sockets.close_unadopted_sockets()

    def _start_background(self) -> None:
        """Start the reconciler, the watch over the meta repository, and the timers."""
        self.duties.run_until_close(self.bus.run())
        self.duties.run_until_close(self.machines.mounts.run())
        for work in (self._converge(), self._deploy(), self.signed_approvals.run()):
            self.duties.run_until_close(work)
        folder, hand = self.stores.repo.folder, self.manual_commits
        watch = watch_branch(folder, hand.check_branch, hand.check_quickly, self.signals.asked)
        self.duties.run_until_close(watch)
        self.upkeep.start()
        self.duties.start(self.broker)
        if not self.machines.has_quota:
            ways = (
                partial(disk_usage, self.settings.paths.state),
                self.reconciler.requeue,
                self.ballast.release,
            )
            self.duties.run_until_close(
                DiskLimiter(self.ports, self.broker_handle, self.observed, *ways).run()
            )
        wanted = self.settings.root
        if wanted.autostart and wanted.name not in self.broker.hive.specs:
            made = self.broker.perform(root_agent.NAME, root_agent.create_root_agent)
            log.info("Created the root agent %s", made.name, extra={"HIVE_UUID": made.uuid})
        self.observed.faults += built_in_agents.ensure_built_in_agents(
            self.broker_handle, self.settings
        )

    async def _wait_for_observation(self) -> None:
        """Wait a while for the first pass: before it, states are not known."""
        with suppress(TimeoutError):
            async with asyncio.timeout(0 if self.stores.damage else FIRST_LOOK):
                await self.reconciler.first_observation.wait()

    async def _converge(self) -> None:
        with self.jobs.hold_back(), suppress(HiveError):  # the first pass reports what is wrong
            await self.bus.ready()
            await self.jobs.sweep()
        await self.reconciler.run()

    async def _deploy(self) -> None:
        """Start deploying after the first observation: then no job of an earlier daemon runs."""
        await self.reconciler.first_observation.wait()
        self.imports.start()
        await self.deployer.run()

    async def _restore_ballast(self) -> None:
        """Restore the ballast whenever the disk has room for it."""
        while True:
            self.ballast.restore()
            notify.status(self._status())
            await asyncio.sleep(BALLAST_EVERY)

    def _update_status(self, topics: frozenset[str]) -> None:
        if "tree" in topics:
            notify.status(self._status())

    def _status(self) -> str:
        count = len(self.broker.hive.specs)
        return "; ".join(
            ["1 agent" if count == 1 else f"{count} agents", *self.observed.alarms()][:2]
        )

    async def _close(self) -> None:
        notify.stopping()
        self.subagent_sockets.stop()
        self.agent_sockets.stop()
        await self.duties.close()
        self.privd.close()
        self.stores.ledger.close()


async def _serve(settings: Settings, file: Path) -> None:
    await Daemon(settings, file).serve()
    await wait_for_agents(settings)


def main() -> None:
    """Entry point of `hived`."""
    file = parse_settings_file(sys.argv[1:])
    gc.disable()  # until the daemon serves: objects made before that stay
    notify.log_to_journal()
    began = time.monotonic()
    os.umask(0o027)
    for fault in config.check(file):
        log.critical("Cannot use the settings: %s", fault.text)
    try:
        said = config.load(file)
        check_user(said.paths.state)
        settings = config.with_machine_size(said, config.MachineSize.here(said.paths.state))
        log.info("Starting hived %s", VERSION)
        asyncio.run(_serve(settings, file))
    except HiveError as error:
        log.critical("Cannot start: %s", error)
        sys.exit(error.exit_code)
    log.info("Stopped after %.0f s", time.monotonic() - began)
