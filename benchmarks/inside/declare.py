"""Declares so many agents that are to be stopped, while hived does not run; says who they are.

Runs in a lab as the user of hived, with its Python.
"""

import json
import sys
import time
from uuid import uuid4

sys.path[:1] = ["/usr/src/hive"]

from hive_core.host.config import settings as config  # noqa: E402 - after the path
from hive_core.host.storage.stores import Stores  # noqa: E402
from hive_core.model.agents.agent import AgentSpec  # noqa: E402
from hive_core.model.agents.hive import Hive  # noqa: E402
from hive_core.model.agents.machine import DesiredState  # noqa: E402
from hive_core.model.agents.topology import Topology  # noqa: E402

BELOW_ONE = 10


def hive_with_agents(hive: Hive, count: int) -> Hive:
    """The hive with a tree of new agents below the root agent, ten below each."""
    (root,) = hive.topology.roots
    names = [f"a{number}" for number in range(count)]
    above = [root, *names]
    parents = {name: above[number // BELOW_ONE] for number, name in enumerate(names)}
    specs = {name: AgentSpec(uuid=uuid4()) for name in names}
    forest = Topology.forest({**hive.topology.parents, **parents}, 32)
    return Hive(hive.commit, forest, {**hive.specs, **specs}).validate()


def main() -> None:
    settings = config.load(config.FILE)
    stores = Stores.open(settings)
    ledger, repo, before = stores.ledger, stores.repo, stores.hive
    after = hive_with_agents(before, int(sys.argv[1]))
    oid = repo.write(after, before, "declare many", {"Hive-Caller": "operator"})
    bases = {}
    with repo.hold(before.commit) as move:
        with ledger.transaction():
            for name in after.specs.keys() - before.specs.keys():
                uuid = after.specs[name].id
                ledger.runs.want(uuid, DesiredState.STOPPED, time.time(), reason="a benchmark")
                bases[uuid] = ledger.ranges.allocate(uuid, settings.uid_start)
            ledger.head = oid
        move(oid)
    ledger.close()
    print(json.dumps(bases))


if __name__ == "__main__":
    main()
