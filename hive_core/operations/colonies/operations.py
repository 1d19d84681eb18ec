"""Colonies: a queen prepares a worker for work that goes on by itself (rows Q14, Q15, Q18).

All of it or nothing: the agent, its row, its task and its skill are one commit and one transaction.
Nothing starts; the user opens the colony later.
"""

from __future__ import annotations

import json
from typing import Annotated, Final, Literal

from pydantic import Field

from hive_core.broker.call import Call, Change, EventTarget, Record
from hive_core.broker.hooks import AgentDestroyed, on
from hive_core.broker.operation import Mutation, Params, Result, operation
from hive_core.errors import AlreadyExists, InvalidArgument, NotFound
from hive_core.ledger.colonies.storage import Colony
from hive_core.model.agents.agent import AgentName, Role
from hive_core.model.agents.roles import ROLE_DEFAULTS
from hive_core.model.work.artifact import Visibility
from hive_core.model.work.skill import SKILL_MOST, check_skill
from hive_core.model.work.tools import find_tool, parse_entry
from hive_core.operations.agents.spawn import DEFINITION, SpawnParams, create_agent
from hive_core.operations.approvals.outcome import display_name
from hive_core.operations.fields import Agent, bounded_text
from hive_core.operations.notices import send_notice
from hive_core.operations.tasks.params import Text
from hive_core.policy.rules import ANCESTOR, OPERATOR, QUEEN, SELF, holds

SKILL: Final = "skill"
SEGMENT: Final = "segment"
_NAMED: Final = 128


class CreateColonyParams(Mutation):
    name: AgentName = Field(description="Name of the colony and of its agent.")
    task: Text = Field(
        description="What the worker is for, complete in itself; at most 32 KiB. It becomes part of"
        " the worker's prompt."
    )
    skill_path: str = Field(
        min_length=1, max_length=400,
        description="Folder below the workspace with the SKILL.md that says how the work is done.",
    )  # fmt: skip
    inherit: Literal["none", "summary", "full"] = Field(
        "none",
        description="What the worker has of the conversation: nothing, `summary`, or all of it up"
        " to the end of the last turn (full).",
    )
    summary: Annotated[str, bounded_text(SKILL_MOST // 4)] = Field(
        "", description="Summary of the conversation for the worker, with `inherit` summary."
    )
    without_tools: list[Annotated[str, Field(max_length=64)]] = Field(
        [], max_length=64, description="Tools of a worker that this one does not have."
    )
    skill: Annotated[str, bounded_text(SKILL_MOST)] = Field(
        "", description="Text of SKILL.md; a session reads it from the folder."
    )
    skill_files: str = Field(
        "", max_length=64,
        description="Artifact of the caller with the further files of the skill; a session stores"
        " it.",
    )  # fmt: skip
    skill_files_sha256: str = Field(
        "", max_length=64, description="SHA-256 of that artifact, which the worker compares."
    )
    segment: str = Field(
        "", max_length=64,
        description="Artifact of the caller with the conversation, with `inherit` full; a session"
        " stores it.",
    )  # fmt: skip
    segment_sha256: str = Field(
        "", max_length=64, description="SHA-256 of that artifact, which the worker compares."
    )
    source_conversation: str = Field(
        "", max_length=_NAMED, description="Conversation in which the colony is prepared."
    )
    source_turn: int = Field(0, ge=0, description="Turn in which the colony is prepared.")


class ColonyCreated(Result):
    name: str = Field(description="Name of the colony and of its agent.")
    uuid: str = Field(description="UUID of its agent.")
    skill: str = Field(description="Name of its skill.")
    tools: list[str] = Field(description="Its tools of execution.")
    created: bool = Field(description="False: it existed, and its task and skill were replaced.")


class GetColonyParams(Params):
    agent: Agent = Field(description="The agent of the colony.")


class ColonyView(Result):
    name: str = Field(description="Name of the colony and of its agent.")
    queen: str = Field(description="The queen that prepared it.")
    task: str = Field(description="What the worker is for.")
    skill: str = Field(description="Name of its skill.")
    inherit: str = Field(description="What it has of her conversation: none, summary or full.")
    conversation: str = Field(description="Her conversation in which she prepared it.")
    turn: int = Field(description="Turn of that conversation.")
    created: float = Field(description="Seconds since 1970.")


@operation(action="spawn", allow=SELF & QUEEN & holds("spawn"))
def create_colony(
    call: Call, params: CreateColonyParams
) -> Change[ColonyCreated] | Record[ColonyCreated]:
    """Prepare a worker below the queen for work that has to go on by itself; nothing starts.

    Write its skill first. A worker gets what the queen may give: no more tools than she may give
    to others, none of her capabilities beyond those of its role, and neither her persona nor her
    memories. The same name again replaces task and skill of the colony.
    """
    skill = check_skill(params.skill_path, params.skill)
    tools = _tools(call, params)
    if (params.inherit == "summary") != bool(params.summary):
        raise InvalidArgument("`summary` is for `inherit` summary", field="summary")
    _check_handover(call, params)
    if params.name in call.hive.specs:
        return _replace(call, params, skill)
    spec = call.hive.spec(call.caller)
    spawned = create_agent(call, SpawnParams(
        name=params.name, role="worker", tools=tools, title=params.name,
        runtime=None if spec.runtime is None else spec.runtime.value,
    ), starts=False)  # fmt: skip
    _equip(call, spawned.hive.spec(params.name).id, params, skill)
    _tell_worker(call, params, skill, spawned)
    result = ColonyCreated(
        name=params.name, uuid=spawned.result.uuid, skill=skill, tools=tools, created=True
    )
    message = f"prepare the colony {params.name}"
    fields = _provenance(params, result)
    return Change(result, spawned.hive, message, fields=fields, target=spawned.target)


@operation(action="read", allow=SELF | ANCESTOR | OPERATOR, target="agent", preposition="of")
def get_colony(call: Call, params: GetColonyParams) -> ColonyView:
    """Show what a colony is for, and from which turn of its queen it comes."""
    row = call.ledger.colonies.get(call.hive.spec(params.agent).id)
    if row is None:
        raise NotFound(f"{params.agent} was not prepared as a colony")
    return ColonyView(
        name=params.agent, queen=display_name(call, row.queen), task=row.task, skill=row.skill,
        inherit=row.inherit, conversation=row.conversation, turn=row.turn, created=row.created,
    )  # fmt: skip


@on(AgentDestroyed)
def forget_colony(call: Call, event: AgentDestroyed) -> None:
    """Forget the row of a destroyed colony; the log of events has where it came from."""
    call.ledger.colonies.delete(event.uuid)


def _tools(call: Call, params: CreateColonyParams) -> list[str]:
    """The tools of a worker that the queen may give, without those that the call takes away."""
    away = {find_tool(name).name for name in params.without_tools}
    own = call.hive.spec(call.caller).tools
    entries = ROLE_DEFAULTS[Role.WORKER].tools if own is None else own
    return [entry for entry in entries if parse_entry(entry).tool not in away]


def _check_handover(call: Call, params: CreateColonyParams) -> None:
    """Whether the worker can read what it is to fetch; the bytes are not looked into."""
    if (params.inherit == "full") != bool(params.segment):
        raise InvalidArgument("`segment` is for `inherit` full", field="segment")
    _check_artifact(call, "segment", params.segment, params.segment_sha256)
    _check_artifact(call, "skill_files", params.skill_files, params.skill_files_sha256)


def _check_artifact(call: Call, field: str, id_: str, sha256: str) -> None:
    if not id_:
        return
    artifact = call.ledger.artifacts.get(id_)
    if artifact is None or artifact.owner != call.uuid or artifact.visibility is Visibility.PRIVATE:
        raise InvalidArgument(
            f"{id_} is not an artifact of yours that your descendants may read", field=field
        )
    if artifact.digest != sha256:
        raise InvalidArgument(f"{id_} has another SHA-256", field=f"{field}_sha256")


def _replace(call: Call, params: CreateColonyParams, skill: str) -> Record[ColonyCreated]:
    """Give a colony of the same queen another task and skill; AlreadyExists for any other agent."""
    spec = call.hive.spec(params.name)
    row = call.ledger.colonies.get(spec.id)
    if row is None or row.queen != call.uuid:
        raise AlreadyExists(f"the name {params.name} is taken", agent=params.name)
    _equip(call, spec.id, params, skill)
    _tell_worker(call, params, skill)
    result = ColonyCreated(
        name=params.name, uuid=spec.id, skill=skill, tools=list(spec.tools or ()), created=False
    )
    target = EventTarget(spec.id, params.name)
    return Record(result, fields=_provenance(params, result), target=target)


def _equip(call: Call, uuid: str, params: CreateColonyParams, skill: str) -> None:
    call.ledger.colonies.put(Colony(
        uuid, call.uuid, params.task, skill, params.inherit, params.source_conversation,
        params.source_turn, call.now,
    ))  # fmt: skip


def _tell_worker(
    call: Call, params: CreateColonyParams, skill: str, spawned: Change[Result] | None = None
) -> None:
    """The worker's definition, skill and conversation, as mail that waits for its first start."""
    hive = call.hive if spawned is None else spawned.hive
    about = f"\n\nWhat was said before:\n\n{params.summary}" if params.summary else ""
    send_notice(call, hive, params.name, DEFINITION, f"{params.task}{about}")
    head: dict[str, object] = {"name": skill}
    if params.skill_files:
        head["files"] = {"artifact": params.skill_files, "sha256": params.skill_files_sha256}
    send_notice(call, hive, params.name, SKILL, f"{json.dumps(head)}\n{params.skill}")
    if params.segment:
        named = {"artifact": params.segment, "sha256": params.segment_sha256}
        send_notice(call, hive, params.name, SEGMENT, json.dumps(named))


def _provenance(params: CreateColonyParams, result: ColonyCreated) -> dict[str, object]:
    return {
        "colony": result.name, "uuid": result.uuid, "skill": result.skill,
        "inherit": params.inherit, "conversation": params.source_conversation,
        "turn": params.source_turn,
        **({"segment": params.segment, "sha256": params.segment_sha256} if params.segment else {}),
        **({"skill_files": params.skill_files} if params.skill_files else {}),
    }  # fmt: skip
