"""Pipes: ordered chunks of text between a parent and its child."""

from __future__ import annotations

import json
from secrets import token_hex
from typing import Annotated, Final

from pydantic import Field

from hive_core.broker.call import Call, Record, Wait
from hive_core.broker.operation import Mutation, Params, Result, Whose, operation
from hive_core.errors import LimitReached, NotFound
from hive_core.model.work.queue import Pipe
from hive_core.operations.fields import WAIT_MOST, Agent, bounded_text
from hive_core.operations.notices import send_notice
from hive_core.policy.rules import PARENT, SELF

PIPE: Final = "pipe"
DATA_MOST: Final = 64 * 1024
Id = Annotated[str, Field(max_length=64, description="The pipe.")]


class OpenPipeParams(Mutation):
    agent: Agent = Field(description="A child of the caller.")


class OpenedPipe(Result):
    pipe: str = Field(
        description="Id of the pipe, the same for both ends; the child gets it as mail of kind"
        " `pipe`."
    )


class WritePipeParams(Mutation):
    pipe: Id
    data: Annotated[str, bounded_text(DATA_MOST)] = Field(description="Text, at most 64 KiB.")
    wait: float = Field(
        0.0,
        ge=0,
        le=WAIT_MOST,
        description="Seconds to wait for room; 0: refuse the chunk when the pipe is full.",
    )


class Written(Result):
    seq: int | None = Field(description="Number of the chunk; null when there was no room in time.")


class ReadPipeParams(Params):
    pipe: Id
    wait: float = Field(
        0.0, ge=0, le=WAIT_MOST, description="Seconds to wait when there are no chunks."
    )
    max: int = Field(64, ge=1, le=1000, description="Maximum number of chunks.")
    up_to: int = Field(
        0, ge=0, description="Number of the last chunk that arrived; chunks up to it are deleted."
    )


class PipeChunk(Result):
    seq: int = Field(description="Number of the chunk: one more than the previous one.")
    data: str = Field(description="The text.")


class Read(Result):
    chunks: list[PipeChunk] = Field(
        description="The chunks, in the order in which they were written."
    )
    closed: bool = Field(description="Whether no chunk follows these.")


class ClosePipeParams(Mutation):
    pipe: Id


class ClosedPipe(Result):
    unread: int = Field(
        description="Number of chunks that the caller did not read; they are deleted."
    )


class ListPipesParams(Params):
    """Nothing."""


class PipeRow(Result):
    pipe: str = Field(description="The pipe.")
    other: str = Field(description="Agent at the other end; its UUID if destroyed.")
    to_read: int = Field(description="Chunks that wait for the caller.")
    to_write: int = Field(description="Chunks of the caller that wait for the other end.")
    closed: bool = Field(description="Whether the pipe is closed for writing.")


class PipeRows(Result):
    pipes: list[PipeRow] = Field(description="Pipes with an end at the caller, the oldest first.")


def _mine(call: Call, params: WritePipeParams | ReadPipeParams | ClosePipeParams) -> str | None:
    """The caller, if it is at one end of the pipe; for others the pipe does not exist."""
    pipe = call.ledger.queues.pipes.get(params.pipe)
    return call.caller if pipe is not None and call.uuid in (pipe.parent, pipe.child) else None


_THE_PIPE = Whose("pipe", "pipe", _mine)


@operation(action="send", allow=PARENT, target="agent")
def open_pipe(call: Call, params: OpenPipeParams) -> Record[OpenedPipe]:
    """Open a pipe between the caller and a child, for both directions.

    The child gets its id as mail.

    Chunks are durable and read in order; at most 64 wait in each direction.
    """
    pipes, most = call.ledger.queues.pipes, call.settings.queues.open
    if pipes.count(call.uuid) >= most:
        raise LimitReached(f"cannot open a pipe to {params.agent}: {call.caller} has {most} pipes")
    id_ = token_hex(6)
    pipes.open(id_, call.uuid, call.hive.spec(params.agent).id, call.now)
    body = f"{json.dumps({'pipe': id_})}\n{call.caller} opened a pipe to you"
    send_notice(call, call.hive, params.agent, PIPE, body)
    return Record(OpenedPipe(pipe=id_))


@operation(action="send", allow=SELF, whose=_THE_PIPE)
def write_pipe(call: Call, params: WritePipeParams) -> Record[Written] | Wait[Written]:
    """Write a chunk for the other end. A full pipe refuses it, or the call waits for room."""
    pipe, pipes = _pipe(call, params.pipe), call.ledger.queues.pipes
    _check_family(call, pipe)
    reader, slots = pipe.other(call.uuid), call.settings.queues.slots
    if not pipe.closed and pipes.count_unread(pipe, reader) >= slots:
        if params.wait <= 0:
            raise LimitReached(f"cannot write to pipe {pipe.id}: it is full ({slots} chunks)")
        return Wait(frozenset({_topic(pipe)}), call.now + params.wait, Written(seq=None))
    seq = pipes.write(pipe, reader, params.data)
    call.notify(_topic(pipe))
    return Record(Written(seq=seq))


@operation(action="receive", allow=SELF, whose=_THE_PIPE)
def read_pipe(call: Call, params: ReadPipeParams) -> Record[Read] | Wait[Read]:
    """Read chunks of the other end.

    A chunk is returned again until `up_to` confirms it; then its room is free. A closed pipe can be
    read to its end.
    """
    pipe, pipes = _pipe(call, params.pipe), call.ledger.queues.pipes
    before = pipes.count_unread(pipe, call.uuid)
    chunks = pipes.read(pipe, call.uuid, params.up_to, params.max)
    left = pipes.count_unread(pipe, call.uuid)
    rows = [PipeChunk(seq=chunk.seq, data=chunk.data) for chunk in chunks]
    answer = Read(chunks=rows, closed=bool(pipe.closed) and len(chunks) == left)
    if chunks or pipe.closed or params.wait <= 0:
        if not left:
            pipes.drop_if_read(pipe)
        if left < before:
            call.notify(_topic(pipe))
        return Record(answer)
    if left < before:  # the other end may wait for the room: answer with no chunks, then read again
        call.notify(_topic(pipe))
        return Record(answer)
    return Wait(frozenset({_topic(pipe)}), call.now + params.wait, answer)


@operation(action="send", allow=SELF, whose=_THE_PIPE)
def close_pipe(call: Call, params: ClosePipeParams) -> Record[ClosedPipe]:
    """Close a pipe for the caller. The other end can still read what was written before."""
    pipe, pipes = _pipe(call, params.pipe), call.ledger.queues.pipes
    unread = pipes.count_unread(pipe, call.uuid)
    pipes.close(pipe, call.uuid)
    call.notify(_topic(pipe))
    return Record(ClosedPipe(unread=unread))


@operation(action="read", allow=SELF)
def list_pipes(call: Call, _params: ListPipesParams) -> PipeRows:
    """List the pipes with an end at the caller."""
    pipes = call.ledger.queues.pipes
    rows = [
        PipeRow(
            pipe=pipe.id, other=call.hive.name(other) or other,
            to_read=pipes.count_unread(pipe, call.uuid), to_write=pipes.count_unread(pipe, other),
            closed=bool(pipe.closed),
        )
        for pipe in pipes.of(call.uuid)
        for other in (pipe.other(call.uuid),)
    ]  # fmt: skip
    return PipeRows(pipes=rows)


def _pipe(call: Call, id_: str) -> Pipe:
    pipe = call.ledger.queues.pipes.get(id_)
    if pipe is None:
        raise NotFound(f"no pipe {id_}")
    return pipe


def _check_family(call: Call, pipe: Pipe) -> None:
    """Refuse writes after the child was moved to another parent."""
    parent, child = call.hive.name(pipe.parent), call.hive.name(pipe.child)
    if parent and child and call.hive.topology.parent(child) != parent:
        raise NotFound(f"cannot write to pipe {pipe.id}: {child} is no longer a child of {parent}")


def _topic(pipe: Pipe) -> str:
    return f"pipe:{pipe.id}"
