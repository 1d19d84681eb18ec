"""Files of an older install, carried into the state of an agent."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.operation import Result, operation
from hive_core.operations.fields import Agent, WaitParams
from hive_core.operations.host.jobs import create_job
from hive_core.policy.rules import OPERATOR

IMPORT: Final = "import"  # of a job: reached when the files lie in the agent's state


class ImportParams(WaitParams):
    agent: Agent = Field(description="Who gets them.")
    source: str = Field(
        pattern=r"^import-[0-9a-f]{16}$", examples=["import-0123456789abcdef"],
        description="Under which name root entered the folder in /etc/hive/imports.",
    )  # fmt: skip
    into: str = Field(
        "", pattern=r"^([a-z][a-z0-9.-]{0,62})?$",
        description="A new folder in its state; empty: the state itself.",
    )  # fmt: skip


class Imported(Result):
    agent: str = Field(description="Who gets them.")
    job: str = Field(description="Ends when all of it is there.")


@operation(action="administer", allow=OPERATOR, target="agent", preposition="of")
def import_state(call: Call, params: ImportParams) -> Record[Imported]:
    """Copy a folder of the host that root has entered for it into the state of an agent.

    What lies there already under the same name stays, and what came is kept beside it. The same
    folder is copied once, however often it is asked for.
    """
    uuid = call.hive.spec(params.agent).id
    job = create_job(call, "import_state", {uuid: f"{IMPORT}:{params.source}:{params.into}"})
    fields = {"source": params.source, "into": params.into}
    wakes = frozenset({f"{IMPORT}:{uuid}"})
    return Record(Imported(agent=params.agent, job=job), wakes, fields)
