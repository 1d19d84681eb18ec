"""The judge of killed sessions: nothing to say of a sound one, and each kind of damage by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from chaos.session_oracle import SessionEvidence, verdict
from each import for_each

from hive_core.agent.session.recovery import INTERRUPTED

Damage = Callable[[SessionEvidence], SessionEvidence]


def model_call(number: int, source: str = "measured", **more: object) -> dict[str, Any]:
    fields = {"reservation": f"r{number}", "source": source, "status": "done",
              "tokens_in": number, "tokens_out": 7, "caller_name": "ann"}  # fmt: skip
    return {"fields": {**fields, **more}}


def answer(number: int, outcome: str = "whole") -> list[dict[str, Any]]:
    return [
        {"number": number, "outcome": word, "tokens": [number, 7]} for word in ("begun", outcome)
    ]


def result(call: str, content: str = "ok", *, is_error: bool = False) -> dict[str, object]:
    return {"t": "result", "call": call, "content": content, "is_error": is_error}


SOUND = SessionEvidence(
    runs={"ann": ["n1"]},
    logs={"ann": {"main": [
        {"t": "input", "id": "letter"},
        {"t": "call", "call": "n1", "name": "bash"}, result("n1"),
        {"t": "call", "call": "n2", "name": "bash"}, result("n2", INTERRUPTED, is_error=True),
        {"t": "call", "call": "n3", "name": "send"}, result("n3"),
    ]}},
    letters={"ann": ["letter"]}, waiting={"ann": []}, marks=["mark n3"],
    tasks=[{"task": {"id": "t", "state": "done", "result": {"status": "success"}},
            "history": [{"event": "begin"}, {"event": "finish"}]}],
    calls=[model_call(1), model_call(2), model_call(3), model_call(2500, "estimated")],
    sums={"ann": {"tokens_in": 2506, "tokens_out": 28}},
    provider=[*answer(1), *answer(2), *answer(3), *answer(4, "gone"), *answer(5, "refused")],
)  # fmt: skip


def with_records(*records: dict[str, object]) -> Damage:
    return lambda evidence: replace(
        evidence, logs={"ann": {"main": [*evidence.logs["ann"]["main"], *records]}}
    )


def with_task(state: str, status: str, *events: str) -> Damage:
    row = {"task": {"id": "t", "state": state, "result": {"status": status}},
           "history": [{"event": event} for event in events]}  # fmt: skip
    return lambda evidence: replace(evidence, tasks=[row])


def with_calls(*calls: dict[str, Any]) -> Damage:
    """Other calls, for which the agent was charged."""
    final = {row["fields"]["reservation"]: row["fields"] for row in calls}.values()
    sums = {kind: sum(row[kind] for row in final) for kind in ("tokens_in", "tokens_out")}
    return lambda evidence: replace(evidence, calls=calls, sums={"ann": sums})


DAMAGES: dict[str, Damage] = {
    "n1 ran 2 times": lambda evidence: replace(evidence, runs={"ann": ["n1", "n1"]}),
    "n9 ran and was not logged": lambda evidence: replace(evidence, runs={"ann": ["n1", "n9"]}),
    "n1 was begun 2 times": with_records({"t": "call", "call": "n1", "name": "bash"}),
    "n1 has a result and did not run": lambda evidence: replace(evidence, runs={"ann": []}),
    "n3 was sent 2 times": lambda evidence: replace(evidence, marks=["mark n3", "mark n3"]),
    "n3 has a result and was not sent": lambda evidence: replace(evidence, marks=[]),
    "letter waits": lambda evidence: replace(evidence, waiting={"ann": [{"id": "letter"}]}),
    "lost is in the history 0 times": lambda evidence: replace(evidence, letters={"ann": ["lost"]}),
    "letter is in the history 2 times": with_records({"t": "input", "id": "letter"}),
    "task t is in_progress, with the ends []": with_task("in_progress", "", "begin"),
    "with the ends ['finish', 'fail']": with_task("done", "success", "finish", "fail"),
    "task t ended as {'status': 'failed'}": with_task("done", "failed", "fail"),
    "were measured, and the provider counted (3, 7)": with_calls(
        model_call(1), model_call(2), model_call(3, tokens_out=8), model_call(9, "estimated")
    ),
    "(1, 7) were charged 2 times": with_calls(
        model_call(1), model_call(1, reservation="again"), model_call(2), model_call(3),
        model_call(9, "estimated"),
    ),
    "1 answers were not charged": with_calls(model_call(1), model_call(2), model_call(3)),
    "nothing was charged for": with_calls(
        model_call(1), model_call(2), model_call(3), model_call(0, "estimated", status="lost"),
    ),
    "ann was charged 9 tokens_in": lambda evidence: replace(
        evidence, sums={"ann": {"tokens_in": 9, "tokens_out": 28}}
    ),
}  # fmt: skip


def test_nothing_is_found_in_sound_evidence() -> None:
    assert verdict(SOUND) == []
    # What is held for a call is charged later, and a call that was estimated may be measured.
    with_hold = with_calls(model_call(1), model_call(2), model_call(3))(SOUND)
    assert verdict(replace(with_hold, held=5000)) == []
    measured_late = with_calls(model_call(4, "estimated"), *map(model_call, (1, 2, 3, 4)))(SOUND)
    assert verdict(measured_late) == []


@for_each("name", DAMAGES)
def test_each_kind_of_damage_is_found(name: str) -> None:
    assert any(name in fault for fault in verdict(DAMAGES[name](SOUND)))
