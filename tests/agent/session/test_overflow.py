"""A conversation that does not fit its model is summarized from a shorter one, and goes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fixtures.fake_model import Json, ModelAnswer
from fixtures.session_host import SessionHost, session_host
from fixtures.world import world

FILES = 5
LIMIT = 80_000  # bytes of a request: the first fits, and one with all files does not
DONE = ModelAnswer(calls=[("z", "finish_task", {"status": "success", "summary": "ok"})])
READS = ModelAnswer(calls=[(f"a{n}", "read", {"path": f"long{n}.txt"}) for n in range(FILES)])
REFUSALS: dict[str, Json] = {
    "chat": {"error": {
        "message": "This model's maximum context length is 128000 tokens",
        "type": "invalid_request_error", "code": "context_length_exceeded",
    }},
    "messages": {"type": "error", "error": {
        "type": "invalid_request_error",
        "message": "prompt is too long: 214315 tokens > 200000 maximum",
    }},
}  # fmt: skip


@pytest.fixture(name="host")
def _host(tmp_path: Path) -> Iterator[SessionHost]:
    with (
        world(None, "root/lead:lead", "lead/worker:worker") as made,
        session_host(made, tmp_path) as host,
    ):
        for number in range(FILES):
            (host.workspace / f"long{number}.txt").write_text(f"{number} word " * 2000)
        yield host


def is_summary(body: Json) -> bool:
    return body.get("tool_choice") in ("none", {"type": "none"})


def bounded_model(
    host: SessionHost, wire: str, limit: int, summary_limit: int
) -> Callable[[int, Json], ModelAnswer]:
    """A model that refuses larger requests, and reads all files until it has a summary."""
    host.model.wire = wire

    def answer(_number: int, body: Json) -> ModelAnswer:
        text = json.dumps(body)
        if len(text) > (summary_limit if is_summary(body) else limit):
            return ModelAnswer(status=400, body=REFUSALS[wire])
        if is_summary(body):
            return ModelAnswer("SUMMARY: the files were read")
        return DONE if "SUMMARY" in text else READS

    return answer


def summaries(host: SessionHost) -> list[Json]:
    return [body for body in host.model.requests() if is_summary(body)]


@pytest.mark.parametrize("wire", ["chat", "messages"])
def test_a_task_goes_on_after_its_conversation_has_overflowed(host: SessionHost, wire: str) -> None:
    host.model.answer = bounded_model(host, wire, LIMIT, LIMIT)
    task = host.assign("Read all files.")
    host.start()
    host.until(lambda: host.task(task)["state"] == "done")
    assert host.task(task)["result"]["status"] == "success"  # type: ignore[index]
    (summary,) = summaries(host)
    text = json.dumps(summary)
    assert "characters left out" in text
    assert all(f"{number} word" in text for number in range(FILES))
    assert "Read all files." in text
    host.kill()


def test_the_history_of_a_summary_is_halved_until_it_fits(host: SessionHost) -> None:
    host.model.answer = bounded_model(host, "chat", LIMIT, 65_000)
    task = host.assign("Read all files.")
    host.start()
    host.until(lambda: host.task(task)["state"] == "done")
    sizes = [len(json.dumps(body)) for body in summaries(host)]
    assert len(sizes) > 1
    assert sizes == sorted(sizes, reverse=True)
    assert host.task(task)["result"]["status"] == "success"  # type: ignore[index]
    host.kill()


def test_a_turn_whose_summary_never_fits_ends_after_three_tries(host: SessionHost) -> None:
    host.model.answer = bounded_model(host, "chat", LIMIT, 10)
    task = host.assign("Read all files.")
    host.start()
    host.until(lambda: bool(host.of_kind("end", f"task-{task}")))
    (end,) = host.of_kind("end", f"task-{task}")
    assert end["status"] == "error"
    assert "does not fit the model" in str(end["error"])
    assert len(summaries(host)) == 3
    host.kill()


def test_a_long_task_overflows_more_than_once(host: SessionHost) -> None:
    rounds = iter(range(2))

    def answer(_number: int, body: Json) -> ModelAnswer:
        if len(json.dumps(body)) > LIMIT:
            return ModelAnswer(status=400, body=REFUSALS["chat"])
        if is_summary(body):
            return ModelAnswer("SUMMARY: the files were read")
        return DONE if next(rounds, None) is None else READS

    host.model.answer = answer
    task = host.assign("Read all files.")
    host.start()
    host.until(lambda: host.task(task)["state"] == "done")
    assert len(summaries(host)) == 2
    assert host.task(task)["result"]["status"] == "success"  # type: ignore[index]
    host.kill()
