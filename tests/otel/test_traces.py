"""hive-otel: what a whole hive did, as a receiver of OTLP gets it (row K30)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import pytest
from each import for_each
from fixtures.hostile_text import HOSTILE
from fixtures.logins import LoginClient, open_login
from fixtures.machines import end_machine, start_machines
from fixtures.model_calls import MODELS, TIERS, reserve
from fixtures.model_calls import finish as settle
from fixtures.otlp import OtlpTwin, otlp_receiver
from fixtures.tasks import finish, give, take
from fixtures.world import World, rows, world

from hive_core.errors import InvalidArgument
from hive_core.model.config.settings import Settings
from hive_core.model.wire.trace_context import attempt_span, parse_traceparent
from hive_core.otel.exporter import PAGE, EventPage, TraceExporter
from hive_core.otel.receiver import OtlpReceiver, parse_headers
from hive_core.otel.spans import TEXT_MOST
from hive_core.otel.state import OtelState
from hive_core.services.service_files import ServiceStateFile

FOREIGN = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture(name="world")
def _world() -> Iterator[World]:
    with world(Settings(models=TIERS), "root/a", "a/a1:worker", models=MODELS) as made:
        yield made


@pytest.fixture(name="otlp")
def _otlp() -> Iterator[OtlpTwin]:
    with otlp_receiver() as twin:
        yield twin


@dataclass
class WorldEvents:
    """The log of a world, read by a login that may only read. `reads`: how often."""

    login: LoginClient
    reads: int = 0
    gap: object = None

    async def events(self, after: str | None) -> EventPage:
        self.reads += 1
        if after is None:
            last = rows(self.login.call("list_events", last=1, limit=1)["events"])
            return EventPage([], str(last[-1]["seq"]))
        kinds = ["task", "model", "tool", "record"]
        page = self.login.call("list_events", after=after, kinds=kinds, limit=PAGE)
        events = rows(page["events"])
        cursor = str(events[-1]["seq"]) if events else after
        return EventPage([*events], cursor, gap=self.gap)


@dataclass
class Export:
    """hive-otel with all its parts but the socket."""

    world: World
    otlp: OtlpTwin
    folder: Path
    texts: bool = False
    headers: dict[str, str] = field(default_factory=dict)
    source: WorldEvents = field(init=False)

    def __post_init__(self) -> None:
        self.source = WorldEvents(open_login(self.world, "traces", ["viewer"]))

    def steps(self, count: int = 1) -> list[float]:
        """The pauses after so many steps of a new process."""
        return asyncio.run(self._steps(count))

    async def _steps(self, count: int) -> list[float]:
        async with httpx2.AsyncClient(trust_env=False) as client:
            receiver = OtlpReceiver(self.otlp.url, client, {"service.name": "hive"}, self.headers)
            file = ServiceStateFile(self.folder / "state.json", OtelState)
            now = self.world.clock.now
            exporter = TraceExporter(self.source, receiver, file, now, self.texts)
            exporter.load()
            return [await exporter.step() for _ in range(count)]


@pytest.fixture(name="export")
def _export(world: World, otlp: OtlpTwin, tmp_path: Path) -> Export:
    made = Export(world, otlp, tmp_path)
    made.steps()  # from now on
    return made


def work(world: World, words: str = "mend it") -> tuple[str, str]:
    """A task of `a` with a part for `a1`, each with what its agent does for it; their ids."""
    whole = give(world, "operator", "a", title=words, traceparent=FOREIGN)
    part = give(world, "a", "a1", title=words)
    world.advance(1)
    began = world.clock.now()
    grant = world.call("a1", "use_tool", tool="bash", argument=["echo", words], task=part)["grant"]
    world.advance(2)
    world.call("a1", "end_tool", grant=grant, status="failed", detail=words)
    settle(world, reserve(world, "a1", task=part), latency_ms=500, cache_read=40)
    world.call(
        "a1", "keep_turn", conversation="main", turn=3, status="done", text=words, task=part,
        began=began,
    )  # fmt: skip
    finish(world, "a1", part, summary=words)
    finish(world, "a", whole, "failed", summary=words)
    return whole, part


def test_a_task_its_part_their_turns_model_calls_and_tools_are_one_trace(
    world: World, otlp: OtlpTwin, export: Export
) -> None:
    whole, part = work(world)
    export.steps()
    assert {span.name for span in otlp.spans} == {
        "invoke_agent a", "invoke_agent a1", "turn a1", "chat sonnet", "execute_tool bash",
    }  # fmt: skip
    assert {span.trace for span in otlp.spans} == {"4bf92f3577b34da6a3ce929d0e0e4736"}
    outer, inner, turn = map(otlp.only_span, ("invoke_agent a", "invoke_agent a1", "turn a1"))
    assert (outer.parent, outer.id) == ("00f067aa0ba902b7", attempt_span(whole, 1))
    assert (inner.parent, inner.id) == (outer.id, attempt_span(part, 1))
    assert turn.parent == inner.id
    assert (outer.status, outer.message, inner.status) == (2, "failed", 1)
    tool, chat = map(otlp.only_span, ("execute_tool bash", "chat sonnet"))
    assert (tool.parent, chat.parent) == (turn.id, turn.id)
    assert (tool.status, tool.message, tool.end - tool.start) == (2, "failed", 2_000_000_000)
    assert chat.end - chat.start == 500_000_000
    assert {
        "gen_ai.operation.name": "chat", "gen_ai.request.model": "sonnet",
        "gen_ai.usage.input_tokens": 90, "gen_ai.usage.output_tokens": 30,
        "gen_ai.usage.cache_read.input_tokens": 40, "gen_ai.agent.name": "a1",
        "gen_ai.provider.name": "openai", "hive.task.id": part,
    }.items() <= chat.attributes.items()  # fmt: skip
    assert turn.attributes["gen_ai.conversation.id"] == "main"


def test_a_plan_is_a_span_until_it_is_decided(world: World, otlp: OtlpTwin, export: Export) -> None:
    task = give(world, "a", "a1", plan_required=True)
    for decision, more in (("reject_plan", {"reason": "no"}), ("approve_plan", {})):
        made = world.call("a1", "create_plan", task=task, steps=[{"title": "one"}])
        world.advance(3)
        world.call("a", decision, task=task, plan=made["plan"], **more)
    export.steps()
    assert [(span.name, span.status, span.parent) for span in otlp.spans] == [
        ("plan a1", 2, attempt_span(task, 1)), ("plan a1", 1, attempt_span(task, 1)),
    ]  # fmt: skip
    assert all(span.end - span.start == 3_000_000_000 for span in otlp.spans)


def test_each_attempt_of_a_task_is_a_span(world: World, otlp: OtlpTwin, export: Export) -> None:
    start_machines(world, "a1")
    task = give(world, "a", "a1", requeue=1)
    end_machine(world, "a1", 137)
    start_machines(world, "a1")
    take(world, "a1")
    finish(world, "a1", task)
    export.steps()
    assert [(span.id, span.status) for span in otlp.spans] == [
        (attempt_span(task, 1), 2), (attempt_span(task, 2), 1),
    ]  # fmt: skip
    assert otlp.spans[0].message == "hand_back"
    assert len({span.trace for span in otlp.spans}) == 1


def test_texts_of_agents_leave_the_host_only_where_the_operator_wants_it(
    world: World, otlp: OtlpTwin, export: Export
) -> None:
    work(world, HOSTILE[0])
    export.steps()
    export.texts = True
    for hostile in HOSTILE[:-1]:
        words = hostile[:99]
        task = give(world, "operator", "a1", title=words)
        tool = {"tool": "bash", "argument": [words.replace("\0", "")]}
        grant = world.call("a1", "use_tool", task=task, **tool)["grant"]
        world.call("a1", "end_tool", grant=grant)
        finish(world, "a1", task, "failed", summary=words)
    world.call("a1", "keep_turn", conversation="m", turn=1, status="done")
    export.steps()
    plain, full = (body for _, body in otlp.requests)
    assert b"script" not in plain
    assert b"script" in full
    for span in otlp.spans:
        for text in (span.name, span.message, *map(str, span.attributes.values())):
            assert len(text) <= TEXT_MOST
            assert text.isprintable()


def test_while_the_receiver_is_away_nothing_is_read_and_nothing_is_lost(
    world: World, otlp: OtlpTwin, export: Export
) -> None:
    work(world)
    reads = export.source.reads
    otlp.answers = [(503, {"Retry-After": "7"}), (429, {}), (401, {})]
    pauses = export.steps(4)
    assert [pauses[0], pauses[1], pauses[2]] == [7.0, 2.0, 60.0]
    assert export.source.reads == reads + 1
    assert len(otlp.spans) == 5
    bodies = [body for _, body in otlp.requests]
    assert len({*bodies}) == 1


def test_a_receiver_that_is_not_there_is_tried_again(
    world: World, otlp: OtlpTwin, export: Export
) -> None:
    work(world)
    url, otlp.url = otlp.url, "http://127.0.0.1:1/v1/traces"
    assert export.steps(3) == [1.0, 2.0, 4.0]
    otlp.url = url
    export.steps()
    assert len(otlp.spans) == 5


def test_a_restart_goes_on_at_its_place_and_with_what_has_begun(
    world: World, otlp: OtlpTwin, export: Export
) -> None:
    task = give(world, "a", "a1")
    grant = world.call("a1", "use_tool", tool="bash", argument=["true"], task=task)["grant"]
    export.steps(2)
    assert otlp.spans == []
    world.call("a1", "end_tool", grant=grant)
    finish(world, "a1", task)
    world.call("a1", "keep_turn", conversation="m", turn=1, status="done", task=task)
    export.steps()
    export.steps()
    assert [span.name for span in otlp.spans] == [
        "invoke_agent a1", "execute_tool bash", "turn a1",
    ]  # fmt: skip
    assert otlp.only_span("execute_tool bash").parent == otlp.only_span("turn a1").id


def test_after_a_crash_before_the_place_is_kept_the_same_spans_come_again(
    world: World, otlp: OtlpTwin, export: Export
) -> None:
    state = (export.folder / "state.json").read_bytes()
    work(world)
    export.steps()
    (export.folder / "state.json").write_bytes(state)
    export.steps()
    assert otlp.spans[:5] == otlp.spans[5:]


def test_a_full_disk_has_no_spans_sent_twice_and_ends_nothing(
    world: World, otlp: OtlpTwin, export: Export
) -> None:
    (export.folder / "state.new").mkdir()  # so that no state can be written
    work(world)
    export.steps(3)
    assert len(otlp.spans) == 5
    (export.folder / "state.new").rmdir()


def test_pruned_events_are_told_once(
    otlp: OtlpTwin, export: Export, caplog: pytest.LogCaptureFixture
) -> None:
    export.source.gap = {"first": 1, "last": 9}
    export.steps(3)
    assert otlp.spans == []
    assert caplog.text.count("Events were pruned before they were sent") == 1


def test_a_damaged_state_begins_anew_from_now_on(
    world: World, otlp: OtlpTwin, export: Export
) -> None:
    work(world)
    (export.folder / "state.json").write_text('{"cursor": 7', encoding="utf-8")
    export.steps(2)
    assert otlp.spans == []


def test_what_is_refused_for_good_is_discarded_and_logged(
    world: World, otlp: OtlpTwin, export: Export, caplog: pytest.LogCaptureFixture
) -> None:
    work(world)
    otlp.answers = [(400, {})]
    export.steps(2)
    assert otlp.spans == []
    assert "Discarded 5 spans: the receiver answered with 400" in caplog.text
    otlp.body = b'{"partialSuccess": {"rejectedSpans": "2", "errorMessage": "old\\u202e"}}'
    work(world)
    export.steps(2)
    assert "The receiver rejected 2 spans: old⟨U+202E⟩" in caplog.text


def test_a_request_that_is_too_large_is_sent_in_halves(
    world: World, otlp: OtlpTwin, export: Export
) -> None:
    otlp.most = 2
    work(world)
    export.steps()
    assert len(otlp.spans) == len({span.id for span in otlp.spans}) == 5


def test_a_redirect_is_not_followed_and_headers_are_in_no_log(
    world: World, otlp: OtlpTwin, export: Export, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "hive_core.otel")
    export.headers = parse_headers("Authorization: Basic c2VjcmV0\n\n x-scope : one\n")
    otlp.answers = [(307, {"Location": otlp.url})]
    work(world)
    export.steps(2)
    ((headers, _),) = otlp.requests
    assert (headers["authorization"], headers["x-scope"]) == ("Basic c2VjcmV0", "one")
    assert otlp.spans == []
    assert "c2VjcmV0" not in caplog.text


@for_each("text", ["no colon", "a b: c", ": x", "x: é", "x\r: y"])
def test_headers_that_are_none_are_refused_without_their_text(text: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        parse_headers(text)
    assert text not in str(error.value)


def test_an_agent_that_records_no_turns_is_waited_for_once(
    world: World, otlp: OtlpTwin, export: Export
) -> None:
    settle(world, reserve(world, "a1"))
    export.steps()
    assert otlp.spans == []
    world.advance(301)
    settle(world, reserve(world, "a1"))
    export.steps()
    assert [span.name for span in otlp.spans] == ["chat sonnet", "chat sonnet"]
    settle(world, reserve(world, "a1"))
    export.steps()
    assert len(otlp.spans) == 3


@for_each(
    "text",
    ["", "00-" + "0" * 32 + "-00f067aa0ba902b7-01", FOREIGN.upper(), FOREIGN + "-x",
     "01" + FOREIGN[2:], FOREIGN[:36] + "0" * 16 + "-01"],
)  # fmt: skip
def test_what_is_no_traceparent_is_none(text: str) -> None:
    assert parse_traceparent(text) is None


def test_a_traceparent_is_of_the_operator_alone(world: World) -> None:
    """An agent cannot write into the trace of another program."""
    task = {"agent": "a1", "description": "x"}
    assert world.fault("a", "assign_task", **task, traceparent=FOREIGN) == "InvalidArgument"
    bad = FOREIGN.replace("4bf92f3577b34da6a3ce929d0e0e4736", "0" * 32)
    assert world.fault("operator", "assign_task", **task, traceparent=bad) == "InvalidArgument"


def test_the_agent_and_the_assigner_get_the_span_of_the_task(world: World) -> None:
    reply = world.call("operator", "assign_task", agent="a1", description="x", traceparent=FOREIGN)
    span = f"{FOREIGN[:36]}{attempt_span(str(reply['task']), 1)}-01"
    assert reply["traceparent"] == span
    (letter,) = world.mail("a1")
    assert f"traceparent: {span}" in str(letter["body"]).splitlines()
    part = world.call("root", "assign_task", agent="a", description="y")
    assert str(part["traceparent"])[3:35] != FOREIGN[3:35]


def test_an_agent_cannot_put_its_turn_into_the_trace_of_another_task(
    world: World, otlp: OtlpTwin, export: Export
) -> None:
    task = give(world, "operator", "a", traceparent=FOREIGN)
    world.call("a1", "keep_turn", conversation="m", turn=1, status="done", task=task)
    export.steps()
    assert otlp.only_span("turn a1").trace != FOREIGN[3:35]
