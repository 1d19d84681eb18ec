"""The HTTP API: tokens, errors, streams that resume (rows Q39, Q49), metrics, description."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from fixtures.api import ApiHost, run_api
from fixtures.broker import BrokerHarness, open_broker
from fixtures.seeds import folder_in_ram
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it has no types

from hive_core.broker.scopes import OperationClass, class_of
from hive_core.cli.host.metrics import merge_families, page
from hive_core.operations import load
from hive_core.surfaces.openapi import served_operations
from hive_core.web.api import OPENAPI
from hive_core.web.exposition import metrics_text
from hive_core.web.request_limits import BURST
from hive_core.web.tokens import CALLS_OF_TOKEN, STREAMS_OF_TOKEN


@pytest.fixture(name="harness")
def _harness() -> Iterator[BrokerHarness]:
    with folder_in_ram() as folder, open_broker(folder, load()) as opened:
        yield opened


def test_an_operation_is_called_within_the_scope_of_its_token(
    harness: BrokerHarness, tmp_path: Path
) -> None:
    async def main(host: ApiHost) -> None:
        viewer, operator = host.new_token("viewer"), host.new_token("operator")
        listed = await host.call("list_agents", viewer)
        assert (listed.status, listed.headers["content-type"]) == (200, "application/json")
        assert [row["name"] for row in listed.value["agents"]][:2] == ["lone", "root"]
        refused = await host.call("stop", viewer, agent="ann")
        assert (refused.status, refused.value["error"], refused.value["rule"]) == (
            403, "NotAllowed", "scope",
        )  # fmt: skip
        assert (await host.call("stop", operator, agent="ann")).status == 200
        again = await host.call("stop", operator, agent="bob")
        assert again.status == 200
        opened = [event for event in harness.events() if event.operation == "open_login"]
        assert len(opened) == 2, "a token keeps its connection"
        assert opened[0].fields["address"] == "203.0.113.9"

    run_api(harness, tmp_path, main)


def test_what_is_assigned_belongs_to_the_trace_of_the_request(
    harness: BrokerHarness, tmp_path: Path
) -> None:
    span = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    body = json.dumps({"agent": "ann", "description": "x"}).encode()

    async def main(host: ApiHost) -> None:
        token = host.new_token("operator")
        for headers, is_in_it in (({"traceparent": span}, True), ({"traceparent": "00-x"}, False)):
            reply = await host.ask("POST", "/api/v1/assign_task", token, body, **headers)
            assert reply.status == 200, reply.body
            assert (reply.value["traceparent"][:36] == span[:36]) is is_in_it
        reply = await host.ask("POST", "/api/v1/list_agents", token, traceparent=span)
        assert reply.status == 200

    run_api(harness, tmp_path, main)


def test_an_error_about_a_parameter_names_it(harness: BrokerHarness, tmp_path: Path) -> None:
    async def main(host: ApiHost) -> None:
        answer = await host.call("get_agent", host.new_token("viewer"))
        assert answer.value == {
            "error": "InvalidParameter", "parameter": "agent",
            "reason": "parameter 'agent' does not fit: it is missing",
        }  # fmt: skip

    run_api(harness, tmp_path, main)


def test_errors_have_the_status_of_their_kind(harness: BrokerHarness, tmp_path: Path) -> None:
    async def main(host: ApiHost) -> None:
        token = host.new_token("operator")
        host.operate("CreateAccount", name="bob")
        for status, answer in (
            (401, await host.call("list_agents")),
            (401, await host.call("list_agents", "token_wrong")),
            (401, await host.call("list_agents", "login_wrong")),
            (404, await host.call("get_task", token, task="t1")),
            (404, await host.call("no_such", token)),
            (404, await host.call("recv", token)),
            (404, await host.call("create_token", token, account="ann")),
            (404, await host.call("approve", token, id="x")),
            (404, await host.ask("POST", "/api/v1/../metrics", token)),
            (405, await host.ask("GET", "/api/v1/list_agents", token)),
            (400, await host.call("stop", token, agent=7)),
            (400, await host.call("stop", token, agent="ann", odd=1)),
            (400, await host.ask("POST", "/api/v1/stop", token, b"[1]")),
            (400, await host.ask("POST", "/api/v1/stop", token, b"{")),
            (413, await host.ask("POST", "/api/v1/stop", token, b" " * 200_000)),
            (415, await host.ask("POST", "/api/v1/stop", token, b"a=b", content_type="text/plain")),
            (404, await host.call("stop", token, agent="nobody")),
        ):  # fmt: skip
            assert (answer.status, sorted(answer.value)[:1]) == (status, ["error"]), answer.body
            assert answer.value["reason"]
        bare = await host.call("list_agents")
        assert bare.headers["www-authenticate"] == "Bearer"

    run_api(harness, tmp_path, main)


def test_attack_56_a_cookie_is_no_token(harness: BrokerHarness, tmp_path: Path) -> None:
    async def main(host: ApiHost) -> None:
        cookie = f"__Host-hive={host.new_token('viewer')}"
        assert (await host.ask("POST", "/api/v1/list_agents", cookie=cookie)).status == 401

    run_api(harness, tmp_path, main)


def test_a_token_that_is_ended_loses_its_streams_and_calls(
    harness: BrokerHarness, tmp_path: Path
) -> None:
    async def main(host: ApiHost) -> None:
        token = host.new_token("viewer")
        stream, task = host.begin("GET", "/api/v1/events", token)
        async with asyncio.timeout(20):
            while not stream.status:
                await host.call("list_agents", token)
                host.operate("Send", to="ann", body="x")
        (row,) = host.operate("ListLogins")["logins"]
        host.operate("EndLogin", login=row["login"])
        async with asyncio.timeout(20):
            await task
        assert (await host.call("list_agents", token)).status == 401

    run_api(harness, tmp_path, main)


def events_of(body: bytes) -> list[tuple[str, dict[str, object]]]:
    """The events of a stream: their names and data."""
    events = []
    for frame in body.decode().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in frame.splitlines() if ": " in line)
        if "data" in lines:
            events.append((lines["event"], json.loads(lines["data"])))
    return events


def test_events_follow_resume_after_the_last_one_and_tell_of_a_gap(
    harness: BrokerHarness, tmp_path: Path
) -> None:
    async def main(host: ApiHost) -> None:
        token = host.new_token("viewer")
        first, task = host.begin("GET", "/api/v1/events?after=1&kinds=record&agents=ann", token)
        host.operate("Send", to="ann", body="one")
        await first.wait_for("event: record")
        host.operate("Send", to="bob", body="of no interest")
        first.closed.set()
        await task
        ((kind, event),) = events_of(first.body)
        assert (kind, event["operation"], event["target"]) == ("record", "send", "ann")
        assert first.headers["content-type"] == "text/event-stream"

        host.operate("Send", to="ann", body="two")
        last = str(event["seq"])
        second, task = host.begin("GET", "/api/v1/events?agents=ann", token, last_event_id=last)
        await second.wait_for("event: record")
        second.closed.set()
        await task
        numbers = [row["seq"] for _, row in events_of(second.body)]
        assert len(numbers) == 1
        assert int(str(numbers[0])) > int(last)

        with harness.ledger.transaction():
            harness.ledger.events.prune(harness.ledger.events.page(0, 1000)[-1].seq)
        third, task = host.begin("GET", "/api/v1/events?after=1", token)
        await third.wait_for("event: gap")
        third.closed.set()
        await task
        assert events_of(third.body)[0][1]["from"] == 2
        odd = await host.ask("GET", "/api/v1/events?after=x", token)
        assert (odd.status, odd.value["error"]) == (400, "InvalidParameter")

    run_api(harness, tmp_path, main)


def test_tokens_that_hived_does_not_know_push_out_none_that_it_knows(
    harness: BrokerHarness, tmp_path: Path
) -> None:
    async def main(host: ApiHost) -> None:
        token = host.new_token("viewer")
        open_ = [host.begin("GET", "/api/v1/events", token) for _ in range(STREAMS_OF_TOKEN)]
        for answer, _ in open_:
            await answer.came.wait()
        for number in range(70):
            assert (await host.call("list_agents", f"token_{number}")).status in (401, 429)
        assert (await host.ask("GET", "/api/v1/events", token)).status == 429
        for answer, task in open_:
            answer.closed.set()
            await task

    run_api(harness, tmp_path, main)


def test_calls_that_wait_leave_connections_for_other_tokens(
    harness: BrokerHarness, tmp_path: Path
) -> None:
    async def main(host: ApiHost) -> None:
        token, other = host.new_token("viewer"), host.new_token("viewer")
        assert (await host.call("list_agents", token)).status == 200
        tokens = host.api.tokens
        async with AsyncExitStack() as held:
            for _ in range(CALLS_OF_TOKEN):
                await held.enter_async_context(tokens.connect(token, "203.0.113.9"))
            assert (await host.call("list_agents", token)).status == 429
            assert (await host.call("list_agents", other)).status == 200
        assert (await host.call("list_agents", token)).status == 200

    run_api(harness, tmp_path, main)


def test_a_stream_is_lines_or_events_and_a_token_has_four(
    harness: BrokerHarness, tmp_path: Path
) -> None:
    async def main(host: ApiHost) -> None:
        token = host.new_token("viewer")
        lines = await host.ask("POST", "/api/v1/get_metrics", token, accept="application/jsonl")
        assert len(lines.body.splitlines()) > 1
        assert all("families" in json.loads(line) for line in lines.body.splitlines())
        opened = [host.begin("GET", "/api/v1/events?after=0", token) for _ in range(4)]
        for answer, _ in opened:
            await answer.wait_for("event: ")
        assert len(opened) == STREAMS_OF_TOKEN
        more = await host.ask("GET", "/api/v1/events", token)
        assert (more.status, more.headers["retry-after"]) == (429, "5")
        assert (await host.call("list_agents", token)).status == 200
        for answer, task in opened:
            answer.closed.set()
            await task
        assert host.api.tokens.streams == 0

    run_api(harness, tmp_path, main)


def test_a_token_that_asks_too_often_is_told_to_wait(
    harness: BrokerHarness, tmp_path: Path
) -> None:
    async def main(host: ApiHost) -> None:
        token = host.new_token("viewer")
        host.api.tokens.clock = lambda: 0.0
        statuses = {(await host.call("status", token)).status for _ in range(int(BURST))}
        late = await host.call("status", token)
        assert (statuses, late.status, late.headers["retry-after"]) == ({200}, 429, "1")

    run_api(harness, tmp_path, main)


def test_metrics_are_those_that_the_command_prints(harness: BrokerHarness, tmp_path: Path) -> None:
    async def main(host: ApiHost) -> None:
        token = host.new_token("viewer")
        answer = await host.ask("GET", "/metrics", token)
        assert answer.status == 200
        assert b"\nhive_web_streams 0.0\n" in answer.body
        assert b"\nhive_web_lag_seconds 0.25\n" in answer.body
        assert (await host.ask("GET", "/metrics")).status == 401

    run_api(harness, tmp_path, main)


def test_the_text_of_metrics_is_that_of_the_library() -> None:
    families = [
        {"name": "a", "type": "counter", "help": "with \\ and\nlines", "samples": [
            {"labels": {"agent": 'x"\\\n', "b": "c"}, "value": 3, "suffix": ""},
        ]},
        {"name": "b", "type": "summary", "help": "h", "samples": [
            {"labels": {}, "value": 1.5, "suffix": "_sum"},
        ]},
        {"name": "b", "type": "summary", "help": "h", "samples": [
            {"labels": {}, "value": 2, "suffix": "_count"},
        ]},
    ]  # fmt: skip
    assert metrics_text(families) == page(merge_families(families))


def test_the_description_has_each_operation_that_tokens_may_call_and_no_other() -> None:
    document = json.loads(OPENAPI.read_text())
    served = {operation.name for operation in served_operations(load())}
    assert {path[1:] for path in document["paths"]} == served | {"events"}
    left_out = {class_of(op) for op in load().values() if op.name not in served}
    assert left_out == {
        OperationClass.LOCAL, OperationClass.AGENT, OperationClass.ANY_LOGIN,
        OperationClass.NOTIFIER, OperationClass.APPROVER,
    }  # fmt: skip


def references(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, part in value.items():
            if key == "$ref":
                yield str(part)
            yield from references(part)
    elif isinstance(value, list):
        for part in value:
            yield from references(part)


def test_each_schema_of_the_description_is_valid_and_each_reference_leads_somewhere() -> None:
    document = json.loads(OPENAPI.read_text())
    for schema in document["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    for reference in set(references(document)):
        part = document
        for word in reference.removeprefix("#/").split("/"):
            part = part[word]


def test_the_description_is_served_without_a_token(harness: BrokerHarness, tmp_path: Path) -> None:
    async def main(host: ApiHost) -> None:
        answer = await host.ask("GET", "/api/v1/openapi.json")
        assert answer.value["openapi"] == "3.1.0"

    run_api(harness, tmp_path, main)
