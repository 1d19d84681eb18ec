"""What counts as a leftover on disk."""

from __future__ import annotations

from uuid import uuid4

from hive_core.plan.agent_steps import job_id
from hive_core.plan.kinds import JobKind
from hive_core.plan.results import StorageFacts
from hive_core.plan.storage_state import StorageState


def test_the_mount_of_a_job_is_no_leftover_of_an_agent() -> None:
    agent, other = str(uuid4()), str(uuid4())
    mounts = (agent, *(job_id(other, kind) for kind in JobKind))
    storage = StorageState()
    storage.update(StorageFacts((), (), (), mounts, ()))

    assert storage.uuids == {agent}
