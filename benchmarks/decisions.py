"""Who may, in trees of growing depth: numbered ancestry against walking up the parents.

The peers are the plain walk, and casbin's RBAC engine where it is installed
(https://pypi.org/project/casbin, the same tree as role links, the same question).
"""

import importlib
import importlib.util
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

from hive_core.model.agent import AgentSpec
from hive_core.model.hive import Hive
from hive_core.model.topology import Topology
from hive_core.policy.decide import decide
from hive_core.policy.rules import ANCESTOR, OPERATOR, ROUTE, Question

AGENTS = 10_000
DEPTHS = (3, 30, 1_000)
CASBIN_DEPTH = 100
ROUNDS = 5
CASBIN = """
[request_definition]
r = sub, obj
[policy_definition]
p = sub, obj
[role_definition]
g = _, _
[policy_effect]
e = some(where (p.eft == allow))
[matchers]
m = g(r.obj, r.sub)
"""


def run() -> list[dict[str, object]]:
    rows = [_built(), *(row for depth in DEPTHS for row in _at(depth))]
    for row in rows:
        if "peer" in row:
            row["ratio"] = float(str(row["value"])) / float(str(row["peer_value"]))
    return rows


def _tree(depth: int) -> dict[str, str | None]:
    """Ten thousand agents in chains of this depth below one root."""
    parents: dict[str, str | None] = {"root": None}
    for number in range(1, AGENTS):
        top = (number - 1) % (depth - 1) == 0
        parents[f"a{number}"] = "root" if top else f"a{number - 1}"
    return parents


def _hive(depth: int) -> Hive:
    parents = _tree(depth)
    specs = {
        name: AgentSpec(uuid=UUID(int=number << 96), capabilities=("message.operator", "spawn"))
        for number, name in enumerate(parents, 1)
    }
    return Hive("", Topology.forest(parents, depth), specs, depth)


def _at(depth: int) -> list[dict[str, object]]:
    hive = _hive(depth)
    tree, parents = hive.topology, dict(hive.topology.parents)
    low = f"a{depth - 1}"
    stop, send = (Question(hive, "root", verb, low) for verb in ("stop", "send"))
    may_stop = ANCESTOR | OPERATOR
    assert tree.is_ancestor("root", low)
    assert decide(may_stop, stop).allowed
    at = f"depth {depth:,}"
    return [
        _row(f"ancestor, {at}", lambda: tree.is_ancestor("root", low))
        | _peer("walk", lambda: _walks(parents, "root", low)),
        _row(f"decide a stop, {at}", lambda: decide(may_stop, stop))
        | _casbin(parents, depth, "root", low),
        _row(f"decide a send, {at}", lambda: decide(ROUTE, send)),
    ]


def _walks(parents: dict[str, str | None], ancestor: str, name: str) -> bool:
    """What a straight implementation does, without even a guard against cycles."""
    at = parents[name]
    while at is not None:
        if at == ancestor:
            return True
        at = parents[at]
    return False


def _built() -> dict[str, object]:
    parents = _tree(30)
    ours = _seconds(lambda: Topology.forest(parents, 30).numbering, 1)
    return {"name": f"number {AGENTS:,} agents", "value": ours * 1000, "unit": "ms"}


def _casbin(
    parents: dict[str, str | None], depth: int, ancestor: str, name: str
) -> dict[str, object]:
    """Its enforcer over the same links; it follows ten of them unless told otherwise.

    It recurses for every level, so a thousand of them are beyond Python's stack.
    """
    if importlib.util.find_spec("casbin") is None or depth > CASBIN_DEPTH:
        return {}
    casbin: Any = importlib.import_module("casbin")
    model = casbin.Model()
    model.load_model_from_text(CASBIN)
    enforcer = casbin.Enforcer(model)
    roles = importlib.import_module("casbin.rbac.default_role_manager").RoleManager(depth + 1)
    enforcer.set_named_role_manager("g", roles)
    enforcer.add_policy("any", "any")
    links = [[child, parent] for child, parent in parents.items() if parent is not None]
    enforcer.add_grouping_policies(links)
    assert enforcer.enforce(ancestor, name)
    assert not enforcer.enforce(name, ancestor)
    return _peer("casbin", lambda: enforcer.enforce(ancestor, name), calls=200)


def _row(name: str, call: Callable[[], object]) -> dict[str, object]:
    return {"name": name, "value": _rate(call), "unit": "decisions/s"}


def _peer(name: str, call: Callable[[], object], calls: int = 2_000) -> dict[str, object]:
    return {"peer": name, "peer_value": _rate(call, calls)}


def _rate(call: Callable[[], object], calls: int = 20_000) -> float:
    return calls / _seconds(call, calls)


def _seconds(call: Callable[[], object], calls: int) -> float:
    """The best of some rounds: what disturbs a round can only slow it."""
    return min(_round(call, calls) for _ in range(ROUNDS))


def _round(call: Callable[[], object], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return time.perf_counter() - start
