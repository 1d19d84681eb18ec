"""Parameters and results of the operations on batches."""

from __future__ import annotations

import json
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from hive_core.broker.call import Call
from hive_core.broker.operation import Params, Result
from hive_core.model.work.planning import BatchItem, ItemState
from hive_core.model.work.task import ResultStatus
from hive_core.operations.agents.spawn_params import Runtimes
from hive_core.operations.approvals.outcome import display_name
from hive_core.operations.fields import Agent, bounded_text
from hive_core.operations.mail.hops import InTurn
from hive_core.operations.pages import Page, Paged
from hive_core.operations.tasks.funds import TaskBudget

TASKS_MOST: Final = 64
TIMEOUT_MOST: Final = 86_400.0
_DATA_MOST: Final = 32 * 1024

Id = Annotated[str, Field(max_length=64)]


def _check_data_size(data: dict[str, object]) -> dict[str, object]:
    if len(json.dumps(data)) > _DATA_MOST:
        raise ValueError(f"is longer than {_DATA_MOST} bytes")
    return data


class FanTask(Params):
    task: Annotated[str, bounded_text(_DATA_MOST)] = Field(
        min_length=1, description="Text of the task."
    )
    data: Annotated[dict[str, object], AfterValidator(_check_data_size)] | None = Field(
        None, description="Input for programs; the worker gets it together with the text."
    )
    title: str = Field("", max_length=200, description="Short title for lists.")
    budget: TaskBudget | None = Field(
        None,
        description="Budget of the task itself, taken from the caller's budget when the task is"
        " assigned; the rest is returned when the task ends.",
    )


def _task_from_text(task: object) -> object:
    return {"task": task} if isinstance(task, str) else task


class Template(Params):
    """Properties of the workers that a batch creates. Defaults are those of `spawn`."""

    role: Literal["worker", "task"] = Field("worker", description="Role of the workers.")
    command: list[Annotated[str, Field(max_length=4096)]] = Field(
        ["hive-agent", "worker"],
        max_length=64,
        description="Command that each worker runs. Absent, with a runtime: its session.",
    )
    runtime: Runtimes | None = Field(
        None,
        description="What runs the model of each worker: `builtin`, `claude`, `codex`,"
        " `opencode`, `acp`, or `scripted` for tests. Absent: that of the caller, if it"
        " has one and no command is set.",
    )
    title: str = Field("", max_length=200, description="Title of the workers.")
    image: str | None = Field(None, max_length=64, description="Name of an image of this host.")
    capabilities: list[str] | None = Field(
        None, max_length=64, description="Capabilities: a subset of the caller's."
    )
    tools: list[str] | None = Field(
        None, max_length=256, description="Tools that the workers may use."
    )


class RunParams(InTurn):
    tasks: list[Annotated[FanTask, BeforeValidator(_task_from_text)]] = Field(
        min_length=1, max_length=TASKS_MOST,
        description="Tasks, at most 64; a plain string stands for a task with that text.",
    )  # fmt: skip
    timeout: float | None = Field(
        None, gt=0, le=TIMEOUT_MOST,
        description="Seconds after which open tasks end as `timeout`; default: a setting (600).",
    )  # fmt: skip
    concurrency: int | None = Field(
        None, ge=1, le=TASKS_MOST, description="Tasks that run in parallel; default: a setting."
    )
    agents: list[Agent] = Field(
        [], max_length=TASKS_MOST,
        description="Descendants that do the work; default: the daemon creates workers.",
    )  # fmt: skip
    reuse: bool = Field(
        default=False,
        description="Whether to use idle children that run the same command before creating"
        " workers.",
    )
    spawn: Template = Field(Template.model_construct(), description="Properties of new workers.")
    keep: bool = Field(
        default=False, description="Whether to keep the new workers after the batch."
    )
    requeue: int = Field(
        0, ge=0, le=10, description="Number of retries of a task whose worker exits before its end."
    )
    title: str = Field("", max_length=200, description="Short title for lists.")


class BatchBegun(Result):
    batch: str = Field(description="Id of the batch.")
    worker_count: int = Field(description="Number of its workers now.")
    workers: list[str] = Field(description="Their names.")
    tasks: list[str] = Field(
        description="Ids of its tasks in order; empty for one that is not assigned yet."
    )
    deadline: float = Field(description="When open tasks end, in seconds since 1970.")


class GetBatchParams(Paged):
    batch: Id = Field(description="Id of the batch.")


class Report(Result):
    item: int = Field(description="Position of the task in the call, from 0.")
    title: str = Field(description="A few words about the task.")
    task: str = Field(description="Id of the task; empty if it was never assigned.")
    worker: str = Field(description="Name of the worker; empty: none.")
    state: str = Field(description="queued, given or ended.")
    status: str = Field(
        description="success, partial, failed, timeout or stopped; empty while it is open."
    )
    summary: str = Field(description="Summary that the worker reported.")
    data: dict[str, object] | None = Field(description="The result for programs.")
    artifacts: list[str] = Field(description="Ids of artifacts that the worker stored.")
    error: str = Field(description="Why the task is not complete; empty when it is.")
    duration: float | None = Field(description="Seconds from the first start to the end.")
    attempts: int = Field(description="How often the task was given to its worker.")
    tokens: int | None = Field(description="Tokens reported for it, also by report_usage.")
    cost: int | None = Field(description="Cost reported for it, in millionths of the currency.")


class BatchReports(Page):
    batch: str = Field(description="Id of the batch.")
    title: str = Field(description="A few words about the batch.")
    state: str = Field(description="running, done, timeout or stopped.")
    worker_count: int = Field(description="Number of its workers, or those at its end.")
    open: int = Field(description="Number of tasks that have not ended.")
    deadline: float = Field(description="Seconds since 1970.")
    reports: list[Report] = Field(description="In the order of the tasks in the call.")


class ListBatchesParams(Params):
    agent: Agent | None = Field(None, description="Owner of the batches; default: the caller.")
    limit: int = Field(20, ge=1, le=200, description="Largest number of batches.")


class BatchRow(Result):
    batch: str = Field(description="Id of the batch.")
    title: str = Field(description="A few words about the batch.")
    state: str = Field(description="running, done, timeout or stopped.")
    tasks: int = Field(description="Number of its tasks.")
    open: int = Field(description="Number of tasks that have not ended.")
    created: float = Field(description="Seconds since 1970.")


class BatchRows(Result):
    batches: list[BatchRow] = Field(description="The newest first.")


def batch_report(call: Call, item: BatchItem) -> Report:
    task = call.ledger.tasks.get(item.task) if item.task else None
    result = task.result if task is not None else None
    has_ended = item.state is ItemState.ENDED
    duration = task.ended - task.started if task and task.ended and task.started else None
    return Report(
        item=item.number, title=item.title, task=item.task,
        worker=display_name(call, item.worker) if item.worker else "", state=item.state,
        status=result.status if result else _unassigned_status(item) if has_ended else "",
        summary=result.summary if result else "",
        data=dict(result.data) if result and result.data is not None else None,
        artifacts=list(result.artifacts) if result else [],
        error=result.error if result else item.reason, duration=duration,
        attempts=task.attempt if task else 0, **_reported_usage(call, item.task),
    )  # fmt: skip


def _reported_usage(call: Call, task: str) -> dict[str, int | None]:
    """The usage that was reported for the task, before and at its end; None: nothing was."""
    used = call.ledger.budgets.usage.of_task(task) if task else {}
    tokens = [used[kind] for kind in ("tokens", "tokens_in", "tokens_out") if kind in used]
    return {"tokens": sum(tokens) if tokens else None, "cost": used.get("money")}


def _unassigned_status(item: BatchItem) -> str:
    """The status of an item that was never assigned: the word before the colon of its reason."""
    word = item.reason.partition(":")[0]
    return word if word in frozenset(ResultStatus) else ResultStatus.FAILED
