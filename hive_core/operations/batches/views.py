"""Batches as they are asked for and shown."""

from __future__ import annotations

import json
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from hive_core.broker.call import Call
from hive_core.broker.operation import Mutation, Params, Result
from hive_core.model.work.planning import BatchItem, ItemState
from hive_core.model.work.task import ResultStatus
from hive_core.operations.approvals.outcome import display_name
from hive_core.operations.fields import Agent, bounded_text
from hive_core.operations.pages import Page, Paged
from hive_core.operations.tasks.funds import TaskBudget

TASKS_MOST: Final = 64
TIMEOUT_MOST: Final = 86_400.0
_DATA_MOST: Final = 32 * 1024

Id = Annotated[str, Field(max_length=64)]


def _small(data: dict[str, object]) -> dict[str, object]:
    if len(json.dumps(data)) > _DATA_MOST:
        raise ValueError(f"is longer than {_DATA_MOST} bytes")
    return data


class FanTask(Params):
    task: Annotated[str, bounded_text(_DATA_MOST)] = Field(
        min_length=1, description="What is to be done; the worker always gets it."
    )
    data: Annotated[dict[str, object], AfterValidator(_small)] | None = Field(
        None, description="Given together with the text."
    )
    title: str = Field("", max_length=200, description="A few words for listings.")
    budget: TaskBudget | None = Field(
        None,
        description="What it has of its own, out of the caller's budget from when it is given out"
        " to its end.",
    )


def _whole(task: object) -> object:
    return {"task": task} if isinstance(task, str) else task


class Template(Params):
    """Workers that are made for a batch. Absent values: as `spawn` has them."""

    role: Literal["worker", "task"] = Field("worker", description="What they are.")
    command: list[Annotated[str, Field(max_length=4096)]] = Field(
        ["hive-agent", "worker"], max_length=64, description="What each of them runs."
    )
    title: str = Field("", max_length=200, description="Free text.")
    image: str | None = Field(None, max_length=64, description="Name of an image of this host.")
    capabilities: list[str] | None = Field(
        None, max_length=64, description="A subset of the creator's."
    )
    tools: list[str] | None = Field(None, max_length=256, description="Tools that they may use.")


class RunParams(Mutation):
    tasks: list[Annotated[FanTask, BeforeValidator(_whole)]] = Field(
        min_length=1, max_length=TASKS_MOST,
        description="What is to be done, at most 64; a bare text is a `task`.",
    )  # fmt: skip
    timeout: float | None = Field(
        None, gt=0, le=TIMEOUT_MOST,
        description="Seconds after which the rest ends as `timeout`; a setting (600) when absent.",
    )  # fmt: skip
    concurrency: int | None = Field(
        None, ge=1, le=TASKS_MOST, description="Tasks beside each other; a setting when absent."
    )
    agents: list[Agent] = Field(
        [], max_length=TASKS_MOST,
        description="Descendants that do the work; without any, workers are made.",
    )  # fmt: skip
    reuse: bool = Field(
        default=False, description="Take idle children that run the same command first."
    )
    spawn: Template = Field(
        Template.model_construct(), description="How workers are made that are missing."
    )
    keep: bool = Field(default=False, description="Workers that were made stay afterwards.")
    requeue: int = Field(
        0, ge=0, le=10, description="How often a task is done again whose worker ended."
    )
    title: str = Field("", max_length=200, description="A few words for listings.")


class BatchBegun(Result):
    batch: str = Field(description="The batch.")
    worker_count: int = Field(description="Who works for it now.")
    workers: list[str] = Field(description="Their names.")
    tasks: list[str] = Field(
        description="For each task that was given out its id, and empty for one that is queued."
    )
    deadline: float = Field(description="When the rest ends, in seconds since 1970.")


class GetBatchParams(Paged):
    batch: Id = Field(description="The batch.")


class Report(Result):
    item: int = Field(description="Its place among the tasks as they were given, from 0.")
    title: str = Field(description="A few words of what it is about.")
    task: str = Field(description="The task; empty for one that was never given out.")
    worker: str = Field(description="Name of the worker; empty for none.")
    state: str = Field(description="queued, given or ended.")
    status: str = Field(
        description="success, partial, failed, timeout or stopped; empty while it is not over."
    )
    summary: str = Field(description="What the worker says.")
    data: dict[str, object] | None = Field(description="What it gives back.")
    artifacts: list[str] = Field(description="What it stored.")
    error: str = Field(description="Why it did not go well.")
    duration: float | None = Field(description="Seconds from its start to its end.")
    attempts: int = Field(description="How often it was given to a worker.")
    tokens: int | None = Field(description="As was reported for it, also by report_usage.")
    cost: int | None = Field(description="Millionths of the currency, reported likewise.")


class BatchReports(Page):
    batch: str = Field(description="The batch.")
    title: str = Field(description="A few words.")
    state: str = Field(description="running, done, timeout or stopped.")
    worker_count: int = Field(description="Who works for it, or did at its end.")
    open: int = Field(description="Tasks that are not over.")
    deadline: float = Field(description="Seconds since 1970.")
    reports: list[Report] = Field(description="In the order of the tasks as they were given.")


class ListBatchesParams(Params):
    agent: Agent | None = Field(None, description="Whose; the caller's own when absent.")
    limit: int = Field(20, ge=1, le=200, description="Batches at most.")


class BatchRow(Result):
    batch: str = Field(description="The batch.")
    title: str = Field(description="A few words.")
    state: str = Field(description="running, done, timeout or stopped.")
    tasks: int = Field(description="How many there are.")
    open: int = Field(description="How many of them are not over.")
    created: float = Field(description="Seconds since 1970.")


class BatchRows(Result):
    batches: list[BatchRow] = Field(description="The newest first.")


def report(call: Call, item: BatchItem) -> Report:
    task = call.ledger.tasks.get(item.task) if item.task else None
    result = task.result if task is not None else None
    ended = item.state is ItemState.ENDED
    lasted = task.ended - task.started if task and task.ended and task.started else None
    return Report(
        item=item.number, title=item.title, task=item.task,
        worker=display_name(call, item.worker) if item.worker else "", state=item.state,
        status=result.status if result else _synthetic(item) if ended else "",
        summary=result.summary if result else "",
        data=dict(result.data) if result and result.data is not None else None,
        artifacts=list(result.artifacts) if result else [],
        error=result.error if result else item.reason, duration=lasted,
        attempts=task.attempt if task else 0, **_spent(call, item.task),
    )  # fmt: skip


def _spent(call: Call, task: str) -> dict[str, int | None]:
    """All that was reported for the task, on the way and at its end; None: nothing was."""
    used = call.ledger.budgets.usage.of_task(task) if task else {}
    tokens = [used[kind] for kind in ("tokens", "tokens_in", "tokens_out") if kind in used]
    return {"tokens": sum(tokens) if tokens else None, "cost": used.get("money")}


def _synthetic(item: BatchItem) -> str:
    """How one ended that nobody ever had: the word before the colon."""
    word = item.reason.partition(":")[0]
    return word if word in frozenset(ResultStatus) else ResultStatus.FAILED
