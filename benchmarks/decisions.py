"""Who may, beside casbin (https://pypi.org/project/casbin), the usual engine with role inheritance.

The question is the same on both sides: may this caller do this operation to that agent, when the
agent itself, an ancestor or the operator may? casbin has the tree as role links (child -> parent)
and an entry for each operation; it is told to follow links as deep as the tree is, and its role
manager is filled directly, as its own loader checks every link against all others. Both of its
engines are measured: the plain one, and the one that looks only at the entries of the operation
that is asked for.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

from benchmarks.report.rows import ROUNDS, Row, beside, rate, seconds, with_aim
from hive_core.model.agents.agent import AgentSpec
from hive_core.model.agents.hive import Hive
from hive_core.model.agents.topology import Topology
from hive_core.policy.decide import decide
from hive_core.policy.rules import ANCESTOR, OPERATOR, ROUTE, SELF, Rule

SHAPES = ((1_000, 3), (100_000, 3), (1_000, 1_000), (100_000, 1_000))
AGENTS = (10, 100, 1_000, 10_000, 100_000)
DEPTHS = (3, 10, 30, 100, 300, 1_000)
AT = 10_000  # agents in the trees of growing depth
ASKED = 1_000  # different questions, half of them to be granted
VERBS = ("start", "stop", "restart", "pause", "resume", "kill", "destroy", "get_logs", "update")
RULES: dict[str, Rule] = dict.fromkeys(VERBS, SELF | ANCESTOR | OPERATOR)
MODEL = """
[request_definition]
r = act, kind, sub, obj
[policy_definition]
p = act, kind
[role_definition]
g = _, _
[policy_effect]
e = some(where (p.eft == allow))
[matchers]
m = {}(g(r.obj, r.sub) || r.sub == "operator")
"""

Enforce = Callable[[str, str, str], bool]
Ask = Callable[[], object]


class Question(NamedTuple):
    """In the words of both sides."""

    caller: str
    operation: str
    target: str


def run() -> list[Row]:
    beside_casbin = [row for agents, depth in SHAPES for row in _beside(agents, depth)]
    deep = _deep()
    return [
        *beside_casbin,
        *map(_again, (1_000, 100_000)),
        _send(),
        _flat(deep),
        _slowest(),
        _tree_build_time(),
        *deep,
        *_wide(),
    ]


def _tree(agents: int, depth: int) -> dict[str, str | None]:
    """Chains of this depth below one root."""
    parents: dict[str, str | None] = {"root": None}
    for number in range(1, agents):
        top = (number - 1) % (depth - 1) == 0
        parents[f"a{number}"] = "root" if top else f"a{number - 1}"
    return parents


def _hive(parents: dict[str, str | None], depth: int) -> Hive:
    specs = {
        name: AgentSpec(uuid=UUID(int=number << 96), capabilities=("message.operator", "spawn"))
        for number, name in enumerate(parents, 1)
    }
    return Hive("", Topology.forest(parents, depth), specs, depth)


def _questions(hive: Hive) -> list[Question]:
    """Half about an agent below the caller, half about any agent."""
    random = Random(1)  # noqa: S311 - the same questions each time
    names = list(hive.topology)[1:]
    values = []
    for number in range(ASKED):
        target = random.choice(names)
        above = hive.topology.lineage(target) if number % 2 else names
        values.append(Question(random.choice(above), random.choice(VERBS), target))
    return values


def _casbin(parents: Mapping[str, str | None], depth: int, *, fast: bool) -> Enforce:
    import casbin  # noqa: PLC0415 - the row has to say so when it is missing
    from casbin.rbac.default_role_manager import RoleManager  # noqa: PLC0415

    # It recurses for every level.
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 3 * depth))
    model = casbin.FastModel([0, 1]) if fast else casbin.Model()
    model.load_model_from_text(MODEL.format("" if fast else "r.act == p.act && "))
    keys = {"cache_key_order": [0, 1]} if fast else {}
    engine: Any = (casbin.FastEnforcer if fast else casbin.Enforcer)(model, **keys)
    roles = RoleManager(depth + 1)
    engine.set_named_role_manager("g", roles)
    engine.build_role_links()
    for verb in VERBS:
        engine.add_policy(verb, "agent")
    for child, parent in parents.items():
        if parent is not None:
            roles.add_link(child, parent)

    def enforce(caller: str, operation: str, target: str) -> bool:
        return bool(engine.enforce(operation, "agent", caller, target))

    return enforce


def _each(hive: Hive, questions: Sequence[Question], rules: Mapping[str, Rule] = RULES) -> Ask:
    """Ours, straight: find the rule of the operation and decide."""

    def ask() -> None:
        for caller, operation, target in questions:
            decide(rules[operation], hive, caller, target)

    return ask


def _per_second(ask: Ask, questions: Sequence[Question], rounds: int = 1) -> float:
    """All questions one after the other, warmed up by having been asked before."""
    ask()
    return len(questions) * rate(ask, rounds)


def _their_rate(enforce: Enforce, questions: Sequence[Question], rounds: int = 1) -> float:
    def ask() -> None:
        for caller, operation, target in questions:
            enforce(caller, operation, target)

    return _per_second(ask, questions, rounds)


def _our_rate(hive: Hive, questions: Sequence[Question], rounds: int = 1) -> float:
    return _per_second(_each(hive, questions), questions, rounds)


def _beside(agents: int, depth: int) -> list[Row]:
    hive = _hive(_tree(agents, depth), depth)
    row = {
        "name": f"decide, {agents:,} agents, depth {depth:,}",
        "value": _our_rate(hive, _questions(hive), 20),
        "unit": "decisions/s",
    }
    plain = beside("casbin Enforcer", lambda: _theirs(hive, depth, fast=False))
    fast = beside("casbin FastEnforcer", lambda: _theirs(hive, depth, fast=True))
    return [with_aim(row | peer, "100 times casbin", ratio_at_least=100) for peer in (plain, fast)]


def _theirs(hive: Hive, depth: int, *, fast: bool) -> float:
    """Only after it gave the same answers."""
    theirs = _casbin(hive.topology.parents, depth, fast=fast)
    questions = _questions(hive)[: ASKED // 5]
    for question in questions:
        ours = decide(RULES[question.operation], hive, question.caller, question.target)
        if theirs(*question) != ours.allowed:
            raise ValueError(f"another answer to {question}")
    return _their_rate(theirs, questions)


def _again(agents: int) -> Row:
    """One question over and over, casbin's answer kept: what enforcers that cache make of it.

    In a big tree it also shows what different questions wait for memory.
    """
    hive = _hive(_tree(agents, 3), 3)
    one = [Question("root", "stop", "a1")] * 100
    row: Row = {"name": f"one decision over and over, {agents:,} agents", "unit": "decisions/s"}
    row["value"] = _our_rate(hive, one, 200)
    casbin = cache(_casbin(hive.topology.parents, 3, fast=True))
    return row | beside("casbin behind a cache", lambda: _their_rate(casbin, one, 200))


def _send() -> Row:
    """The routing rule, the longest one: it also looks at roles, capabilities and replies."""
    hive = _hive(_tree(1_000, 3), 3)
    asked = [
        question for question in _questions(hive) if decide(ROUTE, hive, *question[::2]).allowed
    ]
    value = _per_second(_each(hive, asked, dict.fromkeys(VERBS, ROUTE)), asked, 20)
    return {"name": "decide a send, 1,000 agents, depth 3", "value": value, "unit": "decisions/s"}


def _deep() -> list[Row]:
    """Trees of one size and growing depth; the question that goes all the way up."""
    rows: list[Row] = []
    for depth in DEPTHS:
        hive = _hive(_tree(AT, depth), depth)
        parents, low = dict(hive.topology.parents), f"a{depth - 1}"
        one = [Question("root", "stop", low)] * 100
        walk = rate(partial(_walks, parents, "root", low), 1_000)
        point: Row = {"plot": "decide-depth", "x": depth, "x_unit": "levels", "unit": "decisions/s"}
        name = f"from a root to the leaf, {depth:,} levels"
        lines = {
            "hive": _our_rate(hive, one, 200),
            "a walk up the parents, no rule": walk,
            "casbin": _their_rate(_casbin(parents, depth, fast=True), one),
        }
        rows += [point | {"name": name, "line": line, "value": v} for line, v in lines.items()]
    return rows


def _wide() -> list[Row]:
    rows: list[Row] = []
    for agents in AGENTS:
        hive = _hive(_tree(agents, 4), 4)
        point: Row = {"plot": "decide-agents", "x": agents, "x_unit": "agents"}
        point |= {"name": f"any decision, {agents:,} agents", "unit": "decisions/s"}
        value, casbin = _our_rate(hive, _questions(hive), 20), _theirs(hive, 4, fast=True)
        rows.append(point | {"line": "hive", "value": value})
        rows.append(point | {"line": "casbin", "value": casbin})
    return rows


def _flat(rows: list[Row]) -> Row:
    """How much of its speed at the least depth is left at the greatest."""
    ours = [float(str(row["value"])) for row in rows if row["line"] == "hive"]
    row: Row = {"name": f"decide at {DEPTHS[-1]:,} levels against {DEPTHS[0]}", "unit": "of it"}
    return with_aim(row | {"value": ours[-1] / ours[0]}, "flat: at least 0.8", at_least=0.8)


def _walks(parents: Mapping[str, str | None], ancestor: str, name: str) -> bool:
    """What a straight implementation does, without even a guard against cycles."""
    at = parents[name]
    while at is not None and at != ancestor:
        at = parents[at]
    return at == ancestor


def _slowest() -> Row:
    """Row R13: one decision at a time, each timed."""
    hive = _hive(_tree(AT, 30), 30)
    asks = [_each(hive, [question]) for question in _questions(hive)] * 10
    spent = sorted(seconds(ask) for ask in asks)
    value = spent[len(spent) * 99 // 100] * 1000
    row: Row = {"name": f"one decision, {AT:,} agents, p99", "value": value, "unit": "ms"}
    return with_aim(row, "at most 1 ms", at_most=1)


def _tree_build_time() -> Row:
    parents = _tree(AT, 30)
    best = min(seconds(lambda: Topology.forest(parents, 30)) for _ in range(ROUNDS))
    return {"name": f"number {AT:,} agents", "value": best * 1000, "unit": "ms"}
