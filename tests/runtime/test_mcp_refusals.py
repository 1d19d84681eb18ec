"""What a failed call tells a model to do next, and connections that break."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import product
from pathlib import Path

import pytest
from each import for_each

from hive_core.errors import (
    BY_WIRE,
    HiveError,
    Internal,
    InvalidArgument,
    LimitReached,
    NotAllowed,
    NotRunning,
    TimedOut,
    Unreachable,
)
from hive_core.runtime.mcp.broker import BrokerConnections
from hive_core.runtime.mcp.refusals import CalledTool, next_step, refusal
from hive_core.varlink import decode, encode

SCHEMA = {
    "properties": {"role": {"enum": ["lead", "worker"], "description": "Its role."}, "name": {}},
    "required": ["name"],
}
TOOL = CalledTool("spawn", SCHEMA, ("send", "ask", "escalate", "start"))
ALONE = CalledTool("whoami", {"properties": {}}, ("whoami",))


@for_each(
    "kind, tool",
    list(product([*BY_WIRE.values(), Unreachable, TimedOut], [TOOL, ALONE, CalledTool("fly")])),
)
def test_every_error_has_a_name_a_reason_and_a_next_step(
    kind: type[HiveError], tool: CalledTool
) -> None:
    fields = refusal(kind.of({kind.key: "because"}), tool)
    assert fields["error"] == kind.__name__
    assert fields["reason"]
    assert str(fields["next"]).endswith(".")


STEPS = [
    (LimitReached("x", retry_after=4.2), "Call again in 4 seconds."),
    (LimitReached("x", retry_after=0.2), "Call again in 1 seconds."),
    (LimitReached("x", rule="budget"), "Do without it, give back what you no longer need, or ask"
     " for more with `escalate`."),
    (NotRunning("x"), "Start the agent first with `start`."),
    (InvalidArgument("x", field="role.part"), "Correct the arguments and call `spawn` again. role"
     " is one of lead, worker. role: Its role."),
    (InvalidArgument("x", field="rolle"), "Correct the arguments and call `spawn` again. Its"
     " parameters are role, name (required)."),
    (Unreachable("x"), "It is unknown whether the call had an effect. Read the present state before"
     " you repeat it."),
]  # fmt: skip


@for_each("error, step", STEPS)
def test_the_next_step_fits_the_error(error: HiveError, step: str) -> None:
    assert next_step(error, TOOL) == step


def test_advice_names_no_tool_that_the_caller_does_not_have() -> None:
    for error in (NotAllowed("x"), LimitReached("x"), NotRunning("x")):
        assert "`" not in next_step(error, ALONE)
    assert next_step(InvalidArgument("x", field="y"), ALONE).endswith("It has no parameters.")


def test_a_field_of_an_error_never_replaces_the_reason() -> None:
    fields = refusal(NotAllowed("no", next="do it anyway", rule="tree"), TOOL)
    assert fields["reason"] == "no"
    assert fields["rule"] == "tree"
    assert str(fields["next"]).startswith("Do not repeat")


Answers = Callable[[int, bytes], bytes | None]


def talk(
    folder: Path, answers: Answers, story: Callable[[BrokerConnections], Awaitable[None]]
) -> list[bytes]:
    """The calls of a story to a daemon; `answers` gets the number of a call, None hangs up."""
    calls: list[bytes] = []
    served: list[asyncio.Task[None] | None] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(asyncio.current_task())
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                calls.append(await reader.readuntil(b"\0"))
                answer = answers(len(calls), calls[-1])
                if answer is None:
                    break
                writer.write(answer)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    async def run() -> None:
        path = folder / "broker.sock"
        async with await asyncio.start_unix_server(serve, path):
            async with BrokerConnections(str(path), patience=5, answer=0.5) as broker:
                await story(broker)
            await asyncio.gather(*(task for task in served if task is not None))

    asyncio.run(run())
    return calls


OK = encode({"parameters": {"id": "m1"}})


def test_a_call_whose_connection_breaks_is_repeated_under_its_key(tmp_path: Path) -> None:
    async def story(broker: BrokerConnections) -> None:
        assert await broker.call("send", {"idempotency_key": "k"}) == {"id": "m1"}
        assert await broker.call("get_task", {}) == {"id": "m1"}

    calls = talk(tmp_path, lambda number, _: None if number < 3 else OK, story)
    assert calls[0] == calls[1] == calls[2]
    assert decode(calls[3][:-1])["method"] == "org.hive.Broker.GetTask"


def test_a_refusal_is_not_repeated_and_keeps_its_type(tmp_path: Path) -> None:
    no = encode({"error": NotAllowed.wire, "parameters": {"reason": "no", "rule": "tree"}})

    async def story(broker: BrokerConnections) -> None:
        with pytest.raises(NotAllowed, match="no") as caught:
            await broker.call("stop", {})
        assert caught.value.fields == {"rule": "tree"}

    assert len(talk(tmp_path, lambda *_: no, story)) == 1


@pytest.mark.parametrize(
    ("answer", "kind"), [(b"nonsense\0", Internal), (b"{" * (2 << 20), Internal), (b"", TimedOut)]
)
def test_what_is_not_an_answer_is_an_error(
    tmp_path: Path, answer: bytes, kind: type[HiveError]
) -> None:
    async def story(broker: BrokerConnections) -> None:
        with pytest.raises(kind):
            await broker.call("whoami", {})

    assert len(talk(tmp_path, lambda *_: answer, story)) == 1


def test_a_daemon_that_is_not_there_is_unreachable(tmp_path: Path) -> None:
    path = tmp_path / "no.sock"
    with pytest.raises(Unreachable, match=f"cannot reach {path}: it does not exist"):
        asyncio.run(BrokerConnections(str(path)).call("whoami", {}))

    async def story(_: BrokerConnections) -> None:
        with pytest.raises(Unreachable, match=r"cannot reach .*broker\.sock"):
            await BrokerConnections(str(tmp_path / "broker.sock"), patience=0).call("whoami", {})

    talk(tmp_path, lambda *_: None, story)
