"""Frames from results and errors."""

from __future__ import annotations

import json

from hive_core import errors, varlink
from hive_core.broker.operation import Result
from hive_core.errors import HIVE, HiveError, Internal, LimitReached
from hive_core.model.wire.record import JobRecord


def body(result: Result) -> bytes:
    """The result as JSON, bounded so that its frame can be read by every client."""
    text = result.__pydantic_serializer__.to_json(result, by_alias=True)
    if len(text) > varlink.FRAME_LIMIT - 64:
        raise LimitReached("the answer does not fit in one frame; ask for less")
    return text


def last_frame(text: bytes) -> bytes:
    """The only reply to a call, or the last one of a stream."""
    return b'{"parameters":' + text + b"}\0"


def continued_frame(text: bytes) -> bytes:
    """A reply that is followed by others."""
    return b'{"parameters":' + text + b',"continues":true}\0'


def error_frame(error: HiveError) -> bytes:
    return varlink.encode({"error": error.wire, "parameters": error.parameters})


def job_of(text: bytes) -> str | None:
    """The job that a stored result names."""
    job = json.loads(text).get("job")
    return job if isinstance(job, str) else None


def frame_after_job(text: bytes, job: JobRecord) -> bytes:
    """The reply after a successful job, with the fields that only the job could fill in."""
    result = json.loads(text)
    progress = {name: value for name, value in job.progress.items() if name in result}
    return varlink.encode({"parameters": {**result, **progress}}) if progress else last_frame(text)


def job_error(job: JobRecord) -> HiveError:
    """How a failed job ends the call that waits for it: `NotRunning: reason`, or Internal."""
    name, _, reason = job.error.partition(": ")
    kind = errors.BY_WIRE.get(HIVE + name)
    return kind(reason, job=job.id) if kind else Internal(job.error, job=job.id)
