"""The functions that the operations of docs/architecture.md run, top to bottom, for that page.

`python tests/call_lists.py` writes the lists into the page; tests/test_architecture.py compares.
Each list has some landmarks, and every function between the first frame and a landmark. What all
of them begin with stands in a list of its own, `request`.
"""

from __future__ import annotations

import ast
import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Final

from fixtures.world import World, world

import hive_core
from hive_core.model.config.settings import Paths
from hive_core.model.wire.record import OPERATOR
from hive_core.plan.actions import JobKind, RunJob
from hive_core.reconcile.deps import BrokerHandle, Ports
from hive_core.reconcile.observed import ObservedState
from hive_core.reconcile.reconciler import Reconciler
from hive_core.testing import MemoryJobs, MemoryJournal, MemoryMachines

PACKAGE: Final = Path(hive_core.__file__).parent
PAGE: Final = PACKAGE.parent / "docs/architecture.md"
MANY: Final = 100
Function = tuple[str, str]  # the file below hive_core, and the qualified name

REQUEST: Final[tuple[Function, ...]] = (
    ("broker/core.py", "Broker.receive"),
    ("varlink.py", "decode"),
    ("policy/decide.py", "decide"),
)
COMMITTED: Final[tuple[Function, ...]] = (
    ("ledger/audit/events.py", "AuditLog.fill"),
    ("ledger/core/connection.py", "Connection.commit"),
    ("broker/waiters.py", "WaitingConnections.touch"),
)
SEND: Final[tuple[Function, ...]] = (
    *REQUEST,
    ("broker/rate_limit.py", "RateLimiter.check"),
    ("operations/mail/send.py", "send"),
    ("operations/mail/inbox_quota.py", "check_share"),
    ("ledger/mail/posting.py", "Posting.send"),
    *COMMITTED,
)
MOVE: Final[tuple[Function, ...]] = (
    *REQUEST,
    ("operations/agents/move.py", "move"),
    *COMMITTED,
    ("host/git/branch.py", "Branch.move"),
    ("reconcile/reconciler.py", "Reconciler.on_topics"),
    ("plan/placement.py", "Placements.build"),
    ("reconcile/ledger_cache.py", "LedgerCache.reload"),
    ("plan/storage_steps.py", "storage_steps"),
    ("reconcile/revocation.py", "Revoker.announce"),
    ("testing/machines.py", "MemoryMachines.apply"),
    ("testing/machines.py", "MemoryMachines.observe"),
    ("reconcile/exit_counting.py", "ExitCounter.count_exits"),
    ("plan/state.py", "state_of"),
    ("reconcile/jobs/goals.py", "JobGoals.verdict"),
    ("reconcile/revocation.py", "Revoker._request_restarts"),
    ("plan/diff.py", "plan"),
    ("plan/agent_steps.py", "AgentSteps.actions"),
    ("reconcile/runner.py", "ActionRunner.start_steps"),
    ("testing/jobs.py", "MemoryJobs.run"),
    ("ledger/core/jobs.py", "JobTable.finish"),
)
START: Final[tuple[Function, ...]] = (
    *REQUEST,
    ("operations/lifecycle/operations.py", "start"),
    ("ledger/machines/runs.py", "RunStore.want"),
    *COMMITTED,
    ("reconcile/reconciler.py", "Reconciler.on_topics"),
    ("testing/machines.py", "MemoryMachines.observe"),
    ("plan/diff.py", "plan"),
    ("plan/agent_steps.py", "AgentSteps.actions"),
    ("plan/agent_steps.py", "AgentSteps.start_actions"),
    ("reconcile/runner.py", "ActionRunner.start_steps"),
    ("reconcile/runner.py", "ActionRunner.run_step"),
    ("testing/machines.py", "MemoryMachines.apply"),
)
STOP: Final[tuple[Function, ...]] = (
    *REQUEST,
    ("operations/lifecycle/operations.py", "stop"),
    ("ledger/machines/runs.py", "RunStore.want"),
    *COMMITTED,
    ("reconcile/reconciler.py", "Reconciler.on_topics"),
    ("testing/machines.py", "MemoryMachines.observe"),
    ("plan/diff.py", "plan"),
    ("plan/agent_steps.py", "AgentSteps.actions"),
    ("reconcile/runner.py", "ActionRunner.start_steps"),
    ("reconcile/runner.py", "ActionRunner.run_step"),
    ("testing/machines.py", "MemoryMachines.apply"),
)
# What follows on a host, as root; the test of the page knows that these are there.
START_AS_ROOT: Final[tuple[Function, ...]] = (
    ("host/systemd/root_helper.py", "Privd.apply"),
    ("privd/server.py", "converse"),
    ("privd/server.py", "answer"),
    ("plan/actions.py", "parse"),
    ("privd/mounts.py", "mount"),
    ("privd/mounts.py", "attach"),
    ("privd/units.py", "start"),
    ("plan/render.py", "agent_argv"),
    ("plan/render.py", "systemd_run"),
)
# What stands for a port in memory is another class on a host.
ON_A_HOST: Final = {
    ("testing/machines.py", "MemoryMachines.apply"): "host/systemd/machines.py",
    ("testing/machines.py", "MemoryMachines.observe"): "host/systemd/machines.py",
    ("testing/jobs.py", "MemoryJobs.run"): "host/systemd/jobs.py",
}


@dataclass
class Trace:
    """Functions of hive_core in the order of their first call, each with its callers then."""

    callers: dict[Function, tuple[Function, ...]] = field(default_factory=dict)

    @contextmanager
    def record(self) -> Iterator[None]:
        before = sys.getprofile()
        sys.setprofile(self._profile)
        try:
            yield
        finally:
            sys.setprofile(before)

    def _profile(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call" or (function := _function(frame)) is None or function in self.callers:
            return
        callers, above = list[Function](), frame.f_back
        while above is not None:
            if (caller := _function(above)) is not None:
                callers.append(caller)
            above = above.f_back
        self.callers[function] = tuple(callers)

    def call_chain(self, landmarks: tuple[Function, ...]) -> list[Function]:
        """The landmarks and all their callers, in the order of their first calls."""
        missing = [landmark for landmark in landmarks if landmark not in self.callers]
        assert not missing, f"these were not called: {missing}"
        wanted = {*landmarks, *(caller for it in landmarks for caller in self.callers[it])}
        return [function for function in self.callers if function in wanted]


def _function(frame: FrameType) -> Function | None:
    code = frame.f_code
    if not code.co_filename.startswith(f"{PACKAGE}/") or code.co_name.startswith("<"):
        return None
    return code.co_filename.removeprefix(f"{PACKAGE}/"), code.co_qualname


def trace_send() -> list[Function]:
    """One message to a child, after another one."""
    trace = Trace()
    with world(None, "root/a", "a/kid") as made:
        made.call("a", "send", to="kid", body="one before")
        with trace.record():
            made.call("a", "send", to="kid", body="hello")
    return trace.call_chain(SEND)


def trace_start(folder: Path) -> list[Function]:
    """The start of a stopped agent, until its unit runs."""
    return [*_trace_lifecycle(folder, "start", ("stop",), START), *START_AS_ROOT]


def trace_stop(folder: Path) -> list[Function]:
    """The stop of a running agent, until its unit has ended."""
    return _trace_lifecycle(folder, "stop", (), STOP)


def _trace_lifecycle(
    folder: Path, operation: str, before: tuple[str, ...], landmarks: tuple[Function, ...]
) -> list[Function]:
    trace = Trace()
    with world(None, "root/a") as made:
        reconciler = _reconciler(made, folder)
        _converge(made, reconciler)
        for earlier in before:
            made.call(OPERATOR, earlier, agent="a")
            _converge(made, reconciler)
        with trace.record():
            made.call(OPERATOR, operation, agent="a")
            _converge(made, reconciler)
    return trace.call_chain(landmarks)


def trace_move(folder: Path) -> list[Function]:
    """One move to another parent, until the host matches and the old parent is restarted."""
    trace = Trace()
    with world(None, "root/a", "root/b", "a/kid") as made:
        reconciler = _reconciler(made, folder)
        _converge(made, reconciler)
        with trace.record():
            exchange = made.ask(OPERATOR, "move", agent="kid", parent="b", more=True)
            _converge(made, reconciler)
        (*_, reply) = exchange.pages
        job = made.ledger.jobs.get(str(reply["job"]))
        assert job is not None
        assert job.ended is not None
        assert not job.error, job.error
    return trace.call_chain(MOVE)


def _reconciler(made: World, folder: Path) -> Reconciler:
    """The change path on machines in memory, beside the broker of a test."""
    paths = Paths(state=folder / "state", runtime=folder / "run")
    settings = made.settings.model_copy(update={"paths": paths})
    host = MemoryMachines(made.clock)
    jobs = MemoryJobs(host, work=paths.work)
    jobs.programs[JobKind.OWN_INODES] = _no_links
    paths.work.mkdir(parents=True)
    observed = ObservedState.build(made.ledger, settings, made.hive, made.clock)
    host.known = observed.uuids
    ports = Ports(host, MemoryJournal(), jobs, made.clock, made.ledger, settings)
    broker = BrokerHandle(lambda: made.broker.hive, made.broker.touch, made.broker.perform)
    reconciler = Reconciler.build(ports, broker, observed, _fail)
    made.broker.listeners.append(reconciler.on_topics)
    return reconciler


def _fail(error: BaseException) -> None:
    raise error


def _no_links(_: RunJob, folder: Path) -> None:
    figures = {"files": 1, "links": 0}
    (folder / "out/said.json").write_text(json.dumps({"ok": True, "figures": figures}))


def _converge(made: World, reconciler: Reconciler) -> None:
    async def passes() -> None:
        for _ in range(MANY):
            await reconciler.converge()
            while busy := [
                *reconciler.runner.busy.values(),
                *reconciler.revoker.tasks.busy.values(),
            ]:
                await asyncio.gather(*busy)
            if reconciler.idle:
                return
        raise AssertionError("the reconciler does not come to rest")

    made.loop.run_until_complete(passes())
    made.run()


TRACES: Final[dict[str, Callable[[Path], list[Function]]]] = {
    "send": lambda _: trace_send(), "start": trace_start, "stop": trace_stop, "move": trace_move,
}  # fmt: skip
LAST_COMMON: Final[Function] = REQUEST[-1]


def call_lists(folder: Path) -> dict[str, list[Function]]:
    """The list of each operation, without its first functions, which are those of `request`."""
    lists = {name: trace(folder / name) for name, trace in TRACES.items()}
    beginnings = {name: _split(functions) for name, functions in lists.items()}
    request = beginnings["send"][0]
    others = [name for name, (common, _) in beginnings.items() if common != request]
    assert not others, f"these do not begin as send does: {others}"
    return {"request": request, **{name: own for name, (_, own) in beginnings.items()}}


def _split(functions: list[Function]) -> tuple[list[Function], list[Function]]:
    at = functions.index(LAST_COMMON) + 1
    return functions[:at], functions[at:]


# The page.


def rows(functions: list[Function]) -> list[Function]:
    """Each function and its file as the page names them: a port by its class on a host."""
    named = list[Function]()
    for file, name in functions:
        where = ON_A_HOST.get((file, name))
        if where is not None:
            port = "NspawnJobs" if "Jobs" in name else "NspawnMachines"
            named.append((f"{port}.{name.rpartition('.')[2]}", where))
        else:
            named.append((name.replace(".<locals>", ""), file))
    return named


def table(functions: list[Function]) -> str:
    """The list as it stands in the page: one row a function."""
    lines = ["| function | file | what it does |", "|---|---|---|"]
    for function, (name, file) in zip(functions, rows(functions), strict=True):
        lines.append(f"| `{name}` | `{file}` | {_summary(*function)} |")
    return "\n".join(lines)


def _summary(file: str, name: str) -> str:
    """The first line of the docstring, without its last full stop."""
    node: ast.AST = _tree(file)
    for part in name.split("."):
        if part != "<locals>":
            node = next(
                child
                for child in ast.walk(node)
                if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
                and child.name == part
            )
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    text = (ast.get_docstring(node) or "").partition("\n\n")[0]
    return " ".join(text.split()).removesuffix(".").replace("|", "\\|")


@cache
def _tree(file: str) -> ast.Module:
    return ast.parse((PACKAGE / file).read_text(encoding="utf-8"))


def with_tables(page: str, tables: dict[str, str]) -> str:
    """The page with these tables between their marks."""
    for name, text in tables.items():
        start, end = f"<!-- calls of {name} -->\n", f"<!-- end of {name} -->"
        before, _, rest = page.partition(start)
        _, mark, after = rest.partition(end)
        assert mark, name
        page = f"{before}{start}{text}\n{mark}{after}"
    return page


def tables(folder: Path) -> dict[str, str]:
    """Of each operation on the page."""
    return {name: table(functions) for name, functions in call_lists(folder).items()}


if __name__ == "__main__":
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as name:
        PAGE.write_text(with_tables(PAGE.read_text("utf-8"), tables(Path(name))), encoding="utf-8")
