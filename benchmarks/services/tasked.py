"""A whole daemon but for machines: FOLDER AGENTS. `root.sock` is the lead of all others."""

import asyncio
import os
import sys
from contextlib import closing
from pathlib import Path

from fixtures.broker import NothingObserved, SlowReads
from fuzz.served import BOUNDS as USUAL
from fuzz.served import family

from hive_core.broker.batch import Services
from hive_core.broker.core import Broker
from hive_core.broker.timers import DUES
from hive_core.host.git.repo import MetaRepo
from hive_core.host.sockets.server import SocketServer
from hive_core.host.systemd.clock import SystemClock
from hive_core.ledger.core.ledger import Ledger
from hive_core.model.agents.hive import Hive
from hive_core.model.agents.machine import DesiredState
from hive_core.model.config.settings import Settings
from hive_core.operations import load
from hive_core.reconcile.timers.agenda import Agenda
from hive_core.surfaces.service import introspection_methods

BOUNDS = USUAL.model_copy(update={"connections": 10_000})  # of the one lead


async def serve(folder: Path, agents: int) -> None:
    settings, registry, hive = Settings(limits=BOUNDS), load(), family(agents)
    with closing(Ledger.open(folder / "hive.db", limits=BOUNDS)) as ledger:
        repo, clock = MetaRepo.open(folder / "meta"), SystemClock()
        oid = repo.write(hive, Hive(), "family", {})
        with repo.hold("") as move, ledger.transaction():
            ledger.head = oid
            for spec in hive.specs.values():
                ledger.runs.want(spec.id, DesiredState.RUNNING, clock.now())
            move(oid)
        world = Services(ledger, repo, settings, NothingObserved(), clock)
        broker = Broker(world, hive.at_commit(oid), registry, introspection_methods(registry, "1"))
        agenda = Agenda(clock, ledger, broker.perform, DUES)
        broker.listeners.append(agenda.on_topics)
        agenda.start()
        sockets = SocketServer(broker, SlowReads(), lambda _: os._exit(1))
        for name, spec in hive.specs.items():
            await sockets.listen(spec.id, folder / f"{name}.sock", 0)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), int(sys.argv[2])))
