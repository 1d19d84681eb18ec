"""What every operation keeps, whoever declares it: one set of tests over the whole registry."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from each import for_each
from fixtures.broker import BrokerHarness, lend_broker
from policy.naive import Question, decide
from pydantic import BaseModel

from hive_core.broker.call import Call, Record
from hive_core.broker.operation import Operation, Params, Result, operation
from hive_core.errors import InvalidParameter, NotAllowed, NotFound
from hive_core.model.agents.hive import Hive
from hive_core.model.config.settings import HostLimits, Settings
from hive_core.operations import load
from hive_core.policy.rules import OPERATOR
from hive_core.surfaces.shape import params_schema, result_schema

REGISTRY = load()
NAMES = sorted(REGISTRY)
every = for_each("declared", list(REGISTRY.values()), lambda operation: operation.name)
SNAKE = re.compile(r"[a-z]+(_[a-z]+)*")


@pytest.fixture(scope="module")
def harness() -> Iterator[BrokerHarness]:
    # One agent is refused everything there is here, and each time has to be kept.
    settings = Settings(limits=HostLimits(refusals_kept=10_000))
    with lend_broker(REGISTRY, settings) as opened:
        yield opened


def sample(schema: dict[str, Any], defs: dict[str, Any]) -> object:
    """A value that fits."""
    while "$ref" in schema or "anyOf" in schema:
        name = schema.get("$ref", "").rpartition("/")[2]
        schema = defs[name] if name else schema["anyOf"][0]
    kind = schema.get("type")
    if (
        named := [schema["const"]]
        if "const" in schema
        else schema.get("examples") or schema.get("enum")
    ):
        return named[0]
    if kind == "object":
        required = schema.get("required", ())
        return {name: sample(schema["properties"][name], defs) for name in required}
    if kind == "array":
        return [sample(schema.get("items", {"type": "string"}), defs)]
    values = {"string": "x", "boolean": True, "null": None}
    return values.get(str(kind), schema.get("minimum", 1))


@cache
def schema_of(name: str) -> dict[str, Any]:
    """It takes pydantic milliseconds to make, and thousands of cases ask for it."""
    return params_schema(REGISTRY[name])


def fitting(operation: Operation, target: str | None = None) -> dict[str, Any]:
    """The least that the operation takes, about the target."""
    schema = schema_of(operation.name)
    parameters = sample(schema, schema.get("$defs", {}))
    assert isinstance(parameters, dict)
    if "commit" in parameters:
        parameters["commit"] = "ab" * 20
    if operation.whose is not None:
        parameters.setdefault(operation.whose.param, "none")
    return parameters | ({operation.target: target} if target and operation.target else {})


def models(kind: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """The model and every one inside of it."""
    yield kind
    for model in kind.model_fields.values():
        for inner in _classes(model.annotation):
            yield from models(inner)


def _classes(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in getattr(annotation, "__args__", ()):
        yield from _classes(inner)


@every
def test_it_has_a_name_and_says_in_a_sentence_what_it_does(declared: Operation) -> None:
    assert SNAKE.fullmatch(declared.name)
    assert all(SNAKE.fullmatch(alias) for alias in declared.aliases)
    first = declared.doc.splitlines()[0]
    assert first[0].isupper()
    assert first.endswith(".")


@every
def test_every_field_is_described(declared: Operation) -> None:
    for model in (*models(declared.params), *models(declared.result)):
        for name, field in model.model_fields.items():
            assert field.description, f"{model.__name__}.{name}"


@every
def test_parameters_are_what_json_has_and_are_taken_strictly(declared: Operation) -> None:
    for model in models(declared.params):
        assert issubclass(model, Params), f"{model.__name__} is not strict"
    schema = str(schema_of(declared.name)).replace("'format': 'password'", "")  # of a secret
    assert "'format'" not in schema


@every
def test_the_rule_has_words_for_the_docs(declared: Operation) -> None:
    assert declared.allow.name
    assert declared.allow.text


@every
def test_an_unknown_parameter_is_refused_by_name(
    harness: BrokerHarness, declared: Operation
) -> None:
    error = harness.client("ann").error(declared.method, fitting(declared, "ann") | {"no_such": 1})
    assert isinstance(error, InvalidParameter)
    assert error.parameter == "no_such"


@every
def test_a_parameter_of_another_type_is_refused_by_name(
    harness: BrokerHarness, declared: Operation
) -> None:
    for name in declared.params.model_fields:
        wrong = fitting(declared, "ann") | {name: 7.5 if name in FREE else {"odd": [1]}}
        error = harness.client("ann").error(declared.method, wrong)
        assert isinstance(error, InvalidParameter), name
        assert error.parameter.split(".")[0] == name


@every
def test_a_missing_parameter_is_refused_by_name(
    harness: BrokerHarness, declared: Operation
) -> None:
    for name in schema_of(declared.name).get("required", ()):
        parameters = fitting(declared)
        del parameters[name]
        error = harness.client("ann").error(declared.method, parameters)
        assert isinstance(error, InvalidParameter)
        assert error.parameter == name


@every
def test_a_stranger_is_refused_and_recorded(harness: BrokerHarness, declared: Operation) -> None:
    """`lone` is a separate root and sees no other agent; without a target it asks about itself."""
    thing = declared.whose is not None
    if (
        declared.target is None
        and not thing
        and decide(declared.allow, Question(harness.hive, "lone", declared.name, "lone")).allowed
    ):
        assert declared.name in FOR_EVERYONE
        return
    before = harness.ledger.events.last
    error = harness.client("lone").error(declared.method, fitting(declared, "cat"))
    assert isinstance(error, NotFound if declared.target or thing else NotAllowed)
    (event,) = harness.ledger.events.page(before, 10)
    assert event.allowed is False
    assert event.operation == declared.name
    assert event.rule


# Whatever JSON object the caller likes.
FREE = {"data", "parameters"}
# Asked without a target, an agent asks about itself, its own box and what it may see.
FOR_EVERYONE = {
    "whoami", "recv", "ack", "nack", "wake", "get_job", "wait_job", "list_jobs",
    "list_approvals", "get_approval", "hello", "watch_config", "list_roles", "use_tool", "end_tool",
    "list_definitions", "get_definition", "subscribe", "note_event",
    "follow_topic", "unfollow_topic", "list_topics", "begin_artifact", "append_artifact",
    "get_artifact", "list_artifacts", "delete_artifact",
    "list_pipes", "list_queues", "open_queue", "wait_reply", "create_plan", "wait_for",
    "wait_tasks", "run_parallel_workers", "report_usage", "ask", "ask_user", "list_questions",
    "report_expired_credential",
    "wait_child",
    "survey", "reap_zombies",
    "keep_snapshot", "get_snapshot", "loose_ends", "publish", "stream_turn", "watch_turn",
    "keep_turn", "list_turns", "report_activity", "get_prompts", "get_skill",
}  # fmt: skip


@every
def test_a_mutation_takes_a_key_and_a_read_none(declared: Operation) -> None:
    assert declared.mutates == ("idempotency_key" in declared.params.model_fields)
    assert declared.writes or not declared.mutates


@every
def test_what_streams_can_go_on(declared: Operation) -> None:
    if "after" in declared.params.model_fields:
        assert declared.streams
        assert "next" in declared.result.model_fields


@every
def test_a_result_is_described_as_it_is_written(declared: Operation) -> None:
    schema = result_schema(declared)
    names = {
        field.serialization_alias or name for name, field in declared.result.model_fields.items()
    }
    assert set(schema.get("properties", {})) == names


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"target": "nobody"}, "not among its params"),
        ({"aliases": ("do_nothing",)}, "declared twice"),
    ],
)
def test_mistakes_of_a_declaration_stop_the_import(change: dict[str, Any], why: str) -> None:
    registry: dict[str, Operation] = {}

    class NoParams(Params):
        """Nothing."""

    class NoResult(Result):
        """Nothing."""

    def do_nothing(call: Call, params: NoParams) -> Record[NoResult]:
        """Do nothing."""
        raise AssertionError((call, params))

    def other(call: Call, params: NoParams) -> Record[NoResult]:
        """Do nothing."""
        raise AssertionError((call, params))

    for item in (do_nothing, other):
        item.__annotations__ = {"call": Call, "params": NoParams, "return": Record[NoResult]}
    operation(action="read", allow=OPERATOR, into=registry)(do_nothing)
    with pytest.raises(TypeError, match=why):
        operation(action="read", allow=OPERATOR, into=registry, **change)(other)
    other.__doc__ = None
    with pytest.raises(TypeError, match="docstring"):
        operation(action="read", allow=OPERATOR, into=registry)(other)


@every
def test_a_shared_name_is_an_alias_of_another_operation(declared: Operation) -> None:
    for name, parameter in declared.shares.items():
        (owner,) = [declared for declared in REGISTRY.values() if name in declared.aliases]
        assert owner is not declared
        assert parameter in declared.params.model_fields
        assert parameter not in owner.params.model_fields


@every
def test_an_agent_outside_of_the_tree_has_no_rights(declared: Operation) -> None:
    question = Question(Hive(), "ghost", declared.name, None)
    assert not decide(declared.allow, question).allowed


def test_the_first_set_of_the_contract_is_there() -> None:
    wanted = {
        "whoami", "list_agents", "spawn", "start", "stop", "restart", "kill", "update", "destroy",
        "move", "get_logs", "send", "recv", "ack", "nack", "wake", "get_job", "wait_job", "status",
    }  # fmt: skip
    assert wanted <= set(NAMES)
    aliases = {alias for declared in REGISTRY.values() for alias in declared.aliases}
    assert {"request_spawn", "request_init_config"} <= aliases
