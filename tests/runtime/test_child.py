"""The runtime as a process: its loop against a model server on a real socket, on every wire."""

from __future__ import annotations

import select
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.fake_model import FakeModel, ModelAnswer, fake_model
from fixtures.runtime_process import RuntimeProcess, runtime_process, texts_of

WIRES = ("chat", "responses", "messages")
CALL = ("a", "send", {"text": "hi"})


@pytest.fixture(name="shared", scope="module")
def _shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[FakeModel, RuntimeProcess]]:
    """One process for all tests, as one serves many turns: it takes a second to start."""
    path = tmp_path_factory.mktemp("runtime") / "model.sock"
    with fake_model(path) as server, runtime_process(path) as process:
        yield server, process


@pytest.fixture(name="model")
def _model(shared: tuple[FakeModel, RuntimeProcess]) -> FakeModel:
    server = shared[0]
    server.start_over()
    return server


@pytest.fixture(name="child")
def _child(shared: tuple[FakeModel, RuntimeProcess]) -> RuntimeProcess:
    process = shared[1]
    process.history, process.seen = [], []
    return process


@pytest.mark.parametrize("wire", WIRES)
def test_a_turn_calls_through_the_session_and_ends_with_text(
    model: FakeModel, child: RuntimeProcess, wire: str
) -> None:
    model.script = [ModelAnswer(calls=[CALL]), ModelAnswer("all done")]
    child.turn("hello", wire=wire)
    first = child.keep()
    assert first["calls"] == [{"id": "a", "name": "send", "arguments": {"text": "hi"}}]
    child.answer_calls(1, "sent as m7")
    assert child.keep()["text"] == "all done"
    end = child.next("end")
    assert (end["status"], end["text"]) == ("done", "all done")
    usage = end["usage"]
    assert isinstance(usage, dict)
    assert (usage["requests"], usage["tokens_in"], usage["tokens_out"]) == (2, 20, 10)
    assert end["model"] == "fake-1"
    latency = end["latency_ms"]
    assert isinstance(latency, float)
    assert latency > 0
    assert texts_of(child.seen) == "all done"
    one, two = model.bodies
    assert b"You are bob." in one
    assert b"hello" in one
    assert b"sent as m7" in two


@pytest.mark.parametrize("wire", WIRES)
def test_a_history_that_was_read_again_makes_the_same_request(
    model: FakeModel, child: RuntimeProcess, wire: str
) -> None:
    model.script = [
        ModelAnswer("thinking", calls=[CALL, ("b", "bash", {"text": "ls é"})]),
        ModelAnswer("one"), ModelAnswer("two"), ModelAnswer("one"), ModelAnswer("two"),
    ]  # fmt: skip
    child.turn("hello", wire=wire)
    child.keep()
    before = list(child.history)
    child.answer_calls(2, "result ü", is_error=True)
    child.keep()
    child.next("end")
    child.turn("more", wire=wire)
    child.keep()
    child.next("end")
    # Another process, from the log: the results of the open calls come with the turn.
    with runtime_process(model.path) as again:
        again.history = before
        results = {id_: {"content": "result ü", "is_error": True} for id_ in ("a", "b")}
        again.turn(wire=wire, results=results)
        again.keep()
        again.next("end")
        again.turn("more", wire=wire)
        again.keep()
        again.next("end")
    digests = model.digests()
    assert digests[1:3] == digests[3:5]
    assert len(set(digests)) == 3


def test_no_call_begins_before_the_answer_is_on_disk(
    model: FakeModel, child: RuntimeProcess
) -> None:
    model.script = [ModelAnswer(calls=[CALL]), ModelAnswer("done")]
    child.turn("hello")
    child.next("rendered")
    response = child.next("response")
    assert not child.has_more(seconds=0.2)
    child.send({"type": "kept", "seq": response["seq"]})
    child.answer_calls(1)
    child.keep()
    child.next("end")


def test_mail_joins_the_next_request_of_the_running_turn(
    model: FakeModel, child: RuntimeProcess
) -> None:
    model.script = [ModelAnswer(calls=[CALL]), ModelAnswer("done")]
    child.turn("hello")
    child.keep()
    (call,) = [child.next("call")]
    child.send({"type": "enqueue", "input": {"kind": "mail", "text": "also this"}})
    child.send({"type": "result", "id": call["id"], "content": "ok"})
    rendered = child.next("rendered")
    assert rendered["inputs"] == 2
    assert "also this" in str(rendered["messages"])
    response = child.next("response")
    child.send({"type": "kept", "seq": response["seq"]})
    child.next("end")


def test_mail_that_comes_after_the_last_answer_asks_the_model_again(
    model: FakeModel, child: RuntimeProcess
) -> None:
    model.script = [ModelAnswer("one"), ModelAnswer("two")]
    child.turn("hello")
    child.next("rendered")
    response = child.next("response")
    child.send({"type": "enqueue", "input": {"kind": "mail", "text": "wait"}})
    child.send({"type": "kept", "seq": response["seq"]})
    assert child.keep()["text"] == "two"
    assert child.next("end")["status"] == "done"
    assert b"wait" in model.bodies[1]


def test_a_cancelled_request_ends_at_once_and_leaves_nothing(
    model: FakeModel, child: RuntimeProcess
) -> None:
    held = threading.Event()
    model.script = [ModelAnswer("late", held=held), ModelAnswer("now")]
    child.turn("hello")
    model.wait_for(1)
    child.send({"type": "cancel"})
    assert child.next("end")["status"] == "cancelled"
    held.set()
    child.turn("urgent")
    assert child.keep()["text"] == "now"
    assert child.next("end")["status"] == "done"


def test_after_the_last_round_there_is_one_request_with_the_report_alone(
    model: FakeModel, child: RuntimeProcess
) -> None:
    model.answer = lambda number, _: ModelAnswer(calls=[(f"c{number}", "send", {"text": "x"})])
    settings = {"rounds": 2, "report": "finish_task", "last": {"text": "This is your last step."}}
    child.turn("hello", settings=settings)
    for _ in range(3):
        child.keep()
        child.answer_calls(1)
    assert child.next("end")["status"] == "limit"
    names = [[_tool_name(tool) for tool in _list(body["tools"])] for body in model.requests()]
    assert names == [["bash", "send", "finish_task"]] * 2 + [["finish_task"]]
    assert b"last step" in model.bodies[2]


def test_without_a_report_the_last_request_may_call_nothing(
    model: FakeModel, child: RuntimeProcess
) -> None:
    model.script = [ModelAnswer(calls=[CALL]), ModelAnswer("so far")]
    child.turn("hello", settings={"rounds": 1})
    child.keep()
    child.answer_calls(1)
    child.keep()
    end = child.next("end")
    assert (end["status"], end["text"]) == ("limit", "so far")
    assert model.requests()[1]["tool_choice"] == "none"


@pytest.mark.parametrize(
    ("status", "kind"),
    [(402, "budget"), (429, "rate"), (503, "provider"), (413, "overflow"), (403, "provider")],
)  # fmt: skip
@pytest.mark.parametrize("wire", WIRES)
def test_a_refusal_ends_the_turn_with_its_kind_and_the_words_of_hive_model(
    model: FakeModel, child: RuntimeProcess, wire: str, status: int, kind: str
) -> None:
    headers: dict[str, object] = {"retry-after": "7"} if status == 429 else {}
    body: dict[str, object] = {"type": "error", "error": {"type": "x", "message": "cannot: why"}}
    model.script = [ModelAnswer(status=status, headers=headers, body=body)]
    child.turn("hello", wire=wire)
    end = child.next("end")
    assert (end["status"], end["error_kind"]) == ("error", kind)
    assert "cannot: why" in str(end["error"])
    assert end.get("retry_after") == (7.0 if headers else None)
    assert len(model.bodies) == 1


@pytest.mark.parametrize("wire", WIRES)
def test_a_stream_that_breaks_is_an_error_and_no_answer(
    model: FakeModel, child: RuntimeProcess, wire: str
) -> None:
    model.script = [ModelAnswer("one two three four", calls=[CALL], breaks=True)]
    child.turn("hello", wire=wire)
    line = child.next("end", "response")
    assert line["type"] == "end", line
    assert line["error_kind"] == "provider"


def test_a_model_socket_that_is_away_is_an_error_of_the_provider(tmp_path: Path) -> None:
    with runtime_process(tmp_path / "nowhere.sock") as child:
        child.turn("hello")
        end = child.next("end")
        assert (end["status"], end["error_kind"]) == ("error", "provider")


def test_arguments_that_are_no_object_reach_the_session_as_null(
    model: FakeModel, child: RuntimeProcess
) -> None:
    model.script = [ModelAnswer(calls=[("a", "send", "{not json"), ("a", "send", "[1]")])]
    child.turn("hello")
    child.keep()
    calls = child.answer_calls(2)
    assert [call["arguments"] for call in calls] == [None, None]
    # Two calls of one id could not be told apart.
    assert [call["id"] for call in calls] == ["a", "a.1"]
    child.keep()
    assert child.next("end")["status"] == "done"


def test_an_unknown_wire_and_a_foreign_history_are_refused_with_the_reason(
    child: RuntimeProcess,
) -> None:
    child.turn("hello", wire="soap")
    assert "unknown wire 'soap'" in str(child.next("end")["error"])
    child.history = ['{"kind":"letter"}']
    child.turn("hello")
    assert child.next("end")["status"] == "error"


def test_the_runtime_ends_with_its_session(tmp_path: Path) -> None:
    with runtime_process(tmp_path / "nowhere.sock") as child:
        child.next("ready")
        child.disconnect()
        assert select.select([child.process.handle], [], [], 120)[0]


def _list(value: object) -> list[dict[str, object]]:
    assert isinstance(value, list)
    return value


def _tool_name(tool: dict[str, object]) -> object:
    function = tool["function"]
    assert isinstance(function, dict)
    return function["name"]


def test_a_runtime_that_was_forked_reads_no_library_and_no_certificate_of_its_own(
    tmp_path: Path,
) -> None:
    """Its server has done that for all of them; each reads what the turn needs."""
    path = tmp_path / "model.sock"
    with fake_model(path), runtime_process(path) as process:
        process.turn("hello")
        process.keep()
        process.next("end")
        name, size = Path(f"/proc/{process.process.pid}/io").read_text().split()[:2]
        assert name == "rchar:"  # proc(5): what it read, from files and from the disk's cache
        assert int(size) < 100_000
