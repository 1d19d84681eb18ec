"""What sessions did under kills: their logs and effects, the ledger, and the provider's account."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hive_core.agent.session.records import Record
from hive_core.agent.session.recovery import INTERRUPTED

Row = dict[str, Any]
CHARGED = ("tokens_in", "tokens_out")
HELD_LEAST = 1000  # tokens that any call of a session holds
ENDS = frozenset({"finish", "fail", "drop", "cancel"})


@dataclass(frozen=True)
class SessionEvidence:
    """What is there when all sessions rest.

    `runs`: what the commands of each agent wrote. `logs`: the records of each conversation of each
    agent. `letters`: ids of the mail that hived has acknowledged to its sender. `waiting`: mail
    that is still in the inbox. `marks`: bodies of what sessions sent. `calls`: the events of calls
    of models. `sums`: what was charged for each agent. `provider`: the provider's own account.
    `held`: tokens that are held for calls whose end is not known yet.
    """

    runs: Mapping[str, Sequence[str]]
    logs: Mapping[str, Mapping[str, Sequence[Record]]]
    letters: Mapping[str, Sequence[str]]
    waiting: Mapping[str, Sequence[Row]]
    marks: Sequence[str]
    tasks: Sequence[Row]
    calls: Sequence[Row]
    sums: Mapping[str, Mapping[str, int]]
    provider: Sequence[Row]
    held: int = 0

    def records(self, agent: str, kind: str) -> Iterator[Record]:
        for rows in self.logs[agent].values():
            yield from (row for row in rows if row["t"] == kind)

    @cached_property
    def final_calls(self) -> dict[str, Row]:
        """The last event of each reservation: one that was estimated may be measured later."""
        return {row["fields"]["reservation"]: row["fields"] for row in self.calls}

    @cached_property
    def measured_tokens(self) -> list[tuple[int, int]]:
        """Tokens of the calls whose provider said what it counted."""
        rows = (row for row in self.final_calls.values() if row["source"] == "measured")
        return [(row["tokens_in"], row.get("tokens_out", 0)) for row in rows if "tokens_in" in row]

    def answers(self, *kinds: str) -> dict[int, tuple[int, int]]:
        """Requests of the provider by their number, with what it counted."""
        return {
            row["number"]: tuple(row["tokens"]) for row in self.provider if row["outcome"] in kinds
        }


def verdict(evidence: SessionEvidence) -> list[str]:
    """Everything that is wrong; empty when all is well."""
    checks = (
        _check_commands,
        _check_sends,
        _check_mail,
        _check_tasks,
        _check_measured,
        _check_charges,
        _check_sums,
    )
    return [fault for check in checks for fault in check(evidence)]


def _check_commands(evidence: SessionEvidence) -> Iterator[str]:
    """No command ran twice; what ran was logged before; what was told is what happened."""
    for agent, runs in evidence.runs.items():
        counts = Counter(runs)
        yield from (f"{agent}: {run} ran {n} times" for run, n in counts.items() if n > 1)
        calls = Counter(
            str(row["call"]) for row in evidence.records(agent, "call") if row["name"] == "bash"
        )
        yield from (f"{agent}: {run} ran and was not logged" for run in counts if run not in calls)
        yield from (f"{agent}: {call} was begun {n} times" for call, n in calls.items() if n > 1)
        for row in evidence.records(agent, "result"):
            is_run, call = row["call"] in calls, str(row["call"])
            if is_run and not row["is_error"] and not counts[call]:
                yield f"{agent}: {call} has a result and did not run"


def _check_sends(evidence: SessionEvidence) -> Iterator[str]:
    """A call of an operation that has a result had exactly one effect."""
    counts = Counter(mark for body in evidence.marks for mark in re.findall(r"^mark (\w+)", body))
    yield from (f"{mark} was sent {n} times" for mark, n in counts.items() if n > 1)
    for agent in evidence.logs:
        calls = {row["call"] for row in evidence.records(agent, "call") if row["name"] == "send"}
        for row in evidence.records(agent, "result"):
            if row["call"] in calls and not row["is_error"] and not counts[str(row["call"])]:
                yield f"{agent}: {row['call']} has a result and was not sent"


def _check_mail(evidence: SessionEvidence) -> Iterator[str]:
    """A letter is in the history exactly once, and then in no inbox."""
    for agent, letters in evidence.letters.items():
        logged = Counter(str(row.get("id")) for row in evidence.records(agent, "input"))
        left = {str(row["id"]) for row in evidence.waiting[agent]}
        for letter in letters:
            if letter in left:
                yield f"{agent}: {letter} waits"
            elif logged[letter] != 1:
                yield f"{agent}: {letter} is in the history {logged[letter]} times"


def _check_tasks(evidence: SessionEvidence) -> Iterator[str]:
    for row in evidence.tasks:
        task, events = row["task"], [event["event"] for event in row["history"]]
        ends = [event for event in events if event in ENDS]
        if task["state"] != "done" or len(ends) != 1:
            yield f"task {task['id']} is {task['state']}, with the ends {ends}"
        elif task["result"]["status"] != "success":
            yield f"task {task['id']} ended as {task['result']}"


def _check_measured(evidence: SessionEvidence) -> Iterator[str]:
    """What was measured is what the provider counted, once for each of its answers."""
    counted = evidence.answers("begun")
    for tokens, times in Counter(evidence.measured_tokens).items():
        if counted.get(tokens[0]) != tokens:
            yield f"{tokens} were measured, and the provider counted {counted.get(tokens[0])}"
        if times > 1:
            yield f"{tokens} were charged {times} times"


def _check_charges(evidence: SessionEvidence) -> Iterator[str]:
    """No answer is free: what was not measured is charged as estimated, and not below its input.

    hive-model asks again where the provider refuses, so such requests are no calls of their own.
    """
    measured = {tokens_in for tokens_in, _ in evidence.measured_tokens}
    answered = evidence.answers("whole", "cut", "gone").keys()
    estimated = [row for row in evidence.final_calls.values() if row["source"] == "estimated"]
    free = len(answered - measured) - len(estimated)
    if free > 0 and evidence.held < free * HELD_LEAST:
        yield f"{free} answers were not charged; not measured are {sorted(answered - measured)}"
    for row in estimated:
        if row["status"] in {"lost", "broken"} and not row.get("tokens_in"):
            yield f"nothing was charged for {row}"


def _check_sums(evidence: SessionEvidence) -> Iterator[str]:
    """The sums of each agent are those of its calls."""
    for agent, sums in evidence.sums.items():
        own = {
            row["fields"]["reservation"] for row in evidence.calls
            if row["fields"].get("caller_name") == agent
        }  # fmt: skip
        for kind in CHARGED:
            total = sum(evidence.final_calls[id_].get(kind, 0) for id_ in own)
            if total != sums[kind]:
                yield f"{agent} was charged {sums[kind]} {kind}, and its calls used {total}"


def outcomes(evidence: SessionEvidence) -> dict[str, object]:
    """The figures of a run."""
    results = [row for agent in evidence.logs for row in evidence.records(agent, "result")]
    return {
        "tasks": len(evidence.tasks),
        "letters": sum(map(len, evidence.letters.values())),
        "commands": sum(map(len, evidence.runs.values())), "sent": len(evidence.marks),
        "interrupted": sum(row["content"] == INTERRUPTED for row in results),
        "requests": dict(Counter(row["outcome"] for row in evidence.provider)),
        "charged": dict(Counter(row["source"] for row in evidence.final_calls.values())),
    }  # fmt: skip
