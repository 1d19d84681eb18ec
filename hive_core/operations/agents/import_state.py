"""Importing files of an older installation into the state of an agent."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.login_rule import LOCAL
from hive_core.broker.operation import Result, operation
from hive_core.operations.fields import Agent, WaitParams
from hive_core.operations.host.jobs import create_job
from hive_core.policy.rules import OPERATOR

IMPORT: Final = "import"  # goal of a job: the files are in the agent's state


class ImportParams(WaitParams):
    agent: Agent = Field(description="The agent that gets the files.")
    source: str = Field(
        pattern=r"^import-[0-9a-f]{16}$",
        examples=["import-0123456789abcdef"],
        description="Name that root gave the folder in /etc/hive/imports.",
    )
    into: str = Field(
        "",
        pattern=r"^([a-z][a-z0-9.-]{0,62})?$",
        description="Name of a new folder in its state; empty: the state itself.",
    )


class Imported(Result):
    agent: str = Field(description="The agent that gets the files.")
    job: str = Field(description="The job; it ends when all files are copied.")


@operation(action="administer", allow=OPERATOR, target="agent", preposition="of", login=LOCAL)
def import_state(call: Call, params: ImportParams) -> Record[Imported]:
    """Copy a folder of the host into the state of an agent. Root allows it in /etc/hive/imports.

    Existing files are kept, and the copies are placed beside them. The same folder is copied only
    once, however often it is requested.
    """
    uuid = call.hive.spec(params.agent).id
    job = create_job(call, "import_state", {uuid: f"{IMPORT}:{params.source}:{params.into}"})
    fields = {"source": params.source, "into": params.into}
    call.notify(f"{IMPORT}:{uuid}")
    return Record(Imported(agent=params.agent, job=job), fields=fields)
