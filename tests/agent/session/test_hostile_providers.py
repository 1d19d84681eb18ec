"""What a hostile provider sends passes hive-model, runtime and session, and the task goes on."""

from __future__ import annotations

from pathlib import Path

from fixtures.providers import ProviderReply, event_reply, flood
from fixtures.proxied_model import proxied_model
from fixtures.session_host import SessionHost
from proxy.calling import sse

DEEP = 10_000
GIB = 1 << 30
MEMORY_MOST = 200  # MiB of the session
HEAD = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}


def chunk(delta: object, finish: str | None = None) -> bytes:
    return sse({**HEAD, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def report() -> ProviderReply:
    """An honest answer that ends the task."""
    function = {"name": "finish_task", "arguments": '{"status": "success", "summary": "ok"}'}
    call = {"index": 0, "id": "call", "type": "function", "function": function}
    usage = {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}
    return event_reply(
        chunk({"role": "assistant", "tool_calls": [call]}), chunk({}, "tool_calls"),
        sse({**HEAD, "choices": [], "usage": usage}), sse("[DONE]"),
    )  # fmt: skip


def deep_event() -> bytes:
    return b'data: {"choices": ' + b"[" * DEEP + b"]" * DEEP + b"}\n\n"


def replies() -> list[ProviderReply]:
    """Two hostile answers before each honest one: after three in a row a turn waits."""
    block = b"x" * (1 << 16)
    events = (("content-type", "text/event-stream"),)
    endless_line = ProviderReply(headers=events, pieces=[b"data: ", *flood(block, GIB)])
    no_stream = ProviderReply(pieces=flood(block, GIB))
    text = chunk({"role": "assistant", "content": "AB"})
    bad_text = event_reply(text.replace(b"AB", b"\xff\xfe"), chunk({}, "stop"), sse("[DONE]"))
    deep = event_reply(deep_event(), chunk({}, "stop"), sse("[DONE]"))
    return [endless_line, no_stream, report(), deep, bad_text, report()]


def peak_memory(pid: int) -> int:
    """MiB that the process had at most."""
    status = Path(f"/proc/{pid}/status").read_text()
    (peak,) = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
    return int(peak) >> 10


def test_hostile_answers_cost_requests_and_no_task(host: SessionHost) -> None:
    """1 GiB in one line, 1 GiB that is no stream, JSON 10,000 deep, invalid UTF-8."""
    with proxied_model(*replies()) as model:
        host.model_socket = model.socket
        tasks = [host.assign("Do it."), host.assign("Do it again.")]
        host.start()
        for task in tasks:
            host.until(lambda task=task: host.task(task)["state"] == "done")  # type: ignore[misc]
            host.until(lambda task=task: "closed" in host.kinds(f"task-{task}"))  # type: ignore[misc]
        assert model.provider.sent < GIB // 8
        peak = peak_memory(host.server.processes[0].pid)
        host.kill()
    assert peak < MEMORY_MOST
    assert [host.task(task)["attempt"] for task in tasks] == [1, 1]
    ends = [row for row in host.events("finish_task") if row["allowed"] is not False]
    assert len(ends) == len(tasks)
