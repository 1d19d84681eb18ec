"""Each read of the registry, with the inputs that cost most in a hive that is full."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, get_args, get_origin

from security.full_hive import FilledHive, Reply

from hive_core.broker.operation import Mutation, Operation
from hive_core.operations import load

# What each read takes that cannot do without: ids, and the like. Of all others the parameters are
# worked out from their model, so that a new one is tried as it comes.
BY_HAND: Mapping[str, Callable[[FilledHive, str], Reply]] = {
    "get_job": lambda here, name: {"id": _job(here, name)},
    "wait_job": lambda here, name: {"id": _job(here, name), "wait": 0},
    "get_approval": lambda here, name: {"id": _approval(here, name)},
    "get_task": lambda here, name: {"task": _task(here, name)},
    "watch_task": lambda here, name: {"task": _task(here, name), "wait": 0},
    "wait_tasks": lambda here, name: {
        "tasks": [task.id for task in here.ledger.tasks.tasks_from(here.uuid(name), 64)], "wait": 0,
    },
    "get_plan": lambda here, name: {"plan": here.ledger.plans.newest(_planned_task(here, name))},
    "list_plans": lambda here, name: {"task": _planned_task(here, name)},
    "get_batch": lambda here, name: {
        "batch": here.ledger.plans.batches.page(here.uuid(name), 1)[0].id
    },
    "get_question": lambda here, name: {
        "question": here.ledger.questions.open_of_holder(here.uuid(name))[0].id, "wait": 0,
    },
    "list_fires": lambda here, name: {
        "trigger": here.ledger.triggers.page(here.uuid(name), 0, 1)[0].id
    },
    "wait_reply": lambda _, __: {"id": "f" * 13, "wait": 0},
    "wait_agents": lambda here, _: {
        "agents": list(here.broker.hive.specs)[:1000], "states": ["running"], "wait": 0,
    },
    "get_agent": lambda _, name: {"agent": name},
    "get_figures": lambda _, name: {"agent": name},
    "show_link": lambda _, __: {"secret": "x" * 128},
    # They record, but take no key, since their own ids do the same.
    "reserve_model": lambda here, name: {
        "agent": here.uuid(name), "alias": "hive-small", "wire": "chat", "bytes": 1, "out_most": 1,
    },
    "stream_turn": lambda _, __: {"conversation": "x", "turn": 1, "text": "x" * (16 << 10)},
    "open_egress": lambda here, name: {"agent": here.uuid(name), "host": "x." * 149, "port": 443},
    "close_egress": lambda here, name: {
        "agent": here.uuid(name), "connection": "x", "host": "x." * 149, "port": 443,
        "status": "done", "reason": "x" * 1000,
    },
    "note_model": lambda _, __: {"reservation": "x"},
    "note_prices": lambda _, __: {"unknown": ["x" * 64] * 1000},
    "note_routes": lambda _, __: {"faults": {f"r{number}": "x" * 2000 for number in range(32)}},
    "settle_model": lambda _, __: {"reservation": "x", "status": "done"},
    "get_definition": lambda _, __: {"name": "none"},
    "get_skill": lambda _, __: {"name": "none"},
    "get_colony": lambda _, name: {"agent": f"{name}-w1"},
    "read_pipe": lambda here, name: {"pipe": _pipe(here, name), "wait": 0},
    "take": lambda _, __: {"queue": "q0", "max": 1, "lease": 1},
    "recv": lambda _, __: {"max": 1, "lease": 1, "wait": 0},
    "get_artifact": lambda _, __: {"name": f"{'a' * 60}/{'b' * 60}/1"},
    "append_artifact": lambda _, __: {"upload": "x", "offset": 0, "data": "eHg="},
    "why": lambda _, name: {"caller": name, "operation": "stop", "target": f"{name}-w1"},
    "get_worker_status": lambda _, name: {"worker": f"{name}-w1"},
    "watch_config": lambda _, __: {"wait": 0},
    "locate": lambda _, name: {"agent": name},
    "count_reads": lambda _, name: {"caller": name},
    "list_secrets": lambda _, name: {"agent": name},
    "list_refs": lambda _, __: {"repo": "meta"},
    "export_pack": lambda _, __: {"repo": "meta", "wants": ["ab" * 20] * 200},
}  # fmt: skip


def _job(here: FilledHive, name: str) -> str:
    return here.ledger.jobs.page(here.uuid(name), 1, None)[0].id


def _approval(here: FilledHive, name: str) -> str:
    return here.ledger.approvals.page(None, 1, here.uuid(name), open_=True)[0].id


def _task(here: FilledHive, name: str) -> str:
    return here.ledger.tasks.open_tasks(here.uuid(name), 1)[0].id


def _planned_task(here: FilledHive, name: str) -> str:
    return here.ledger.tasks.open_tasks(here.uuid(f"{name}-w210"), 1)[0].id


def _pipe(here: FilledHive, name: str) -> str:
    (row, *_) = here.say(name, "list_pipes", [{}])
    pipes = row["pipes"]
    assert isinstance(pipes, list)
    return str(pipes[0]["id"] if "id" in pipes[0] else pipes[0]["pipe"])


def reads() -> dict[str, Operation]:
    """Every operation that records nothing by its declaration, or is asked for what there is."""
    return {
        name: operation
        for name, operation in load().items()
        if not issubclass(operation.params, Mutation)
    }


def costly_parameters(here: FilledHive, name: str, operation: Operation) -> list[Reply]:
    """Inputs that cost most: all that it gives at once, then with each switch and word it knows."""
    by_hand = BY_HAND.get(operation.name)
    said = dict(by_hand(here, name)) if by_hand is not None else {}
    fields = operation.params.model_fields
    missing = [key for key, field in fields.items() if field.is_required() and key not in said]
    assert not missing, f"say in BY_HAND with which {missing} {operation.name} costs most"
    if "limit" in fields:
        said["limit"] = max(_bounds(fields["limit"].metadata), default=100)
    replies: list[Reply] = [said]
    for key, field in fields.items():
        replies += [{**said, key: value} for value in _values(field.annotation) if key not in said]
    if "agent" in fields and "agent" not in said:
        replies.append({**said, "agent": name})
    return replies


def _bounds(metadata: Iterable[object]) -> Iterator[int]:
    for bound in metadata:
        if isinstance(most := getattr(bound, "le", None), int):
            yield most


def _values(annotation: object) -> Iterator[object]:
    """Both switches of a switch, and the words of a choice."""
    if annotation is bool:
        yield from (True, False)
    elif get_origin(annotation) is Literal:
        yield from get_args(annotation)
    else:
        for argument in get_args(annotation):
            yield from _values(argument)
