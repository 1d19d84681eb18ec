"""Row R21: nothing waits for ever, and only listed modules change the disk or start programs."""

from __future__ import annotations

import ast
import asyncio
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from hive_core import varlink
from hive_core.errors import HiveError, TimedOut, Unreachable
from hive_core.host.systemd.bus import Bus
from hive_core.host.systemd.root_helper import Privd
from hive_core.plan.actions import MakeNode

ROOT = Path(__file__).parents[2] / "hive_core"

# Programs: who may start one, and why that one may run for as long as it likes (else: `timeout=`).
PROGRAMS = {
    "agent/attend.py": "",
    "agent/config.py": "a git that is killed, with all that it started, when patience ends",
    "agent/prompt.py": "",
    "agent/program.py": "a program of the agent's own, killed with all that it started in time",
    "agent/serve.py": "",
    "agent/session/calls.py": "a tool, whose program has a time limit of its own",
    "agent/session/runtimes/forwarder.py": "the forwarder of a CLI, killed with it",
    "agent/session/subagents/process.py": "a sub-agent, killed whole at its time limit",
    "agent/session/runtimes/cli_command.py": "a CLI, killed with its group by its session",
    "agent/session/runtimes/builtin.py": "the runtime, killed when its session closes it",
    "agent/session/runtimes/fork_server.py": "the fork server, killed when its session closes it",
    "agent/task_run.py": "the command of a task, killed with all it started when that is stopped",
    "cli/host/doctor.py": "the operator waits, and can interrupt",
    "cli/host/doctor_models.py": "",
    "cli/host/runtime.py": "",
    "cli/host/status.py": "",
    "cli/work/group_usage.py": "",
    "cli/host/install/machine.py": "an installation, before the operator's eyes",
    "cli/agents/relay.py": "the operator's own shell, and its terminal",
    "cli/config/remote_git.py": "git of a person's own in its own clone, who can interrupt it",
    "privd/mounts.py": "a child that is killed when the mapping is written",
    "privd/units.py": "",
}
JOBS = "jobs/"  # a unit that systemd ends in time
# What waits for somebody else (a thread of our own is none): inside of asyncio.timeout(), or here
# with what ends it.
WAITS = {
    "wait", "call", "connect", "drain", "readuntil", "open_unix_connection",
    "wait_for_disconnect",
}  # fmt: skip
BOUNDED = {
    "daemon.py:_deploy": "the first look of the change road",
    "daemon.py:serve": "being asked to end",
    "host/storage/event_log.py:run": "events to come",
    "host/git/pack_exports.py:_child": "a child that was killed",
    "host/git/pack_exports.py:pack": "asyncio.wait with a time-out of its own",
    "host/git/pushes.py:_outcome": "asyncio.wait with a time-out of its own",
    "host/systemd/bus.py:run": "the end of the connection",
    "host/systemd/jobs.py:run": "the sweep of the start, each call of which has a time-out",
    "host/storage/mountinfo.py:run": "mounts that change; nobody waits for it",
    "host/systemd/root_helper.py:_connect": "the deadline of apply",
    "host/systemd/root_helper.py:_exchange": "the deadline of apply",
    "reconcile/deploy/deployer.py:run": "something to do",
    "reconcile/reconciler.py:run": "something to do",
}
# What changes the disk. Nobody else may, so the points of row R2 are all there are.
CHANGES = {
    "fsync", "fdatasync", "rename", "link", "symlink", "symlink_to", "hardlink_to", "unlink",
    "rmdir", "rmtree", "mkdir", "write_text", "write_bytes", "posix_fallocate", "truncate",
    "ftruncate", "copytree", "copyfile", "chown", "lchown", "chmod",
}  # fmt: skip
# Jobs write into a throw-away container, and hived takes nothing from it that is not whole.
WRITERS = (
    "agent/artifacts.py", "agent/crash_report.py", "agent/agent_loop.py", "agent/workspace.py",
    "agent/gate.py", "agent/session/memory/budget.py", "agent/session/subagents/order.py",
    "agent/session/subagents/folder.py",
    "agent/session/runtimes/cli_dialect.py", "agent/session/runtimes/cli_command.py",
    "agent/session/runtimes/codex.py", "agent/session/server_socket.py",
    "agent/prompt_context.py", "agent/session/log.py", "agent/session/main.py",
    "proxy/main.py", "services/journal.py", "services/service_files.py",
    "host/", "privd/", "jobs/",
    "ledger/core/ballast.py", "ledger/core/backup.py", "cli/", "surfaces/__main__",
)  # fmt: skip


@cache
def trees() -> list[tuple[str, ast.Module]]:
    files = sorted(ROOT.rglob("*.py"))
    return [(str(path.relative_to(ROOT)), ast.parse(path.read_bytes())) for path in files]


@cache
def calls() -> list[tuple[str, str, ast.Call]]:
    """File, name and call of every `owner.verb(...)` that starts a program or changes the disk."""
    return [
        (file, ast.unparse(node.func), node)
        for file, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and (node.func.attr in CHANGES or _is_subprocess(node.func.value))
    ]


def _is_subprocess(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "subprocess"


def test_every_program_that_is_started_has_a_deadline() -> None:
    result = set[str]()
    for file, name, node in calls():
        if name.startswith("subprocess.") and not file.startswith(JOBS):
            result.add(file)
            bounded = any(word.arg == "timeout" for word in node.keywords)
            assert bounded or PROGRAMS.get(file), f"{file}:{node.lineno} {name} waits for ever"
    assert result == PROGRAMS.keys()


def test_only_listed_modules_change_the_disk() -> None:
    for file, name, node in calls():
        if name.rpartition(".")[2] in CHANGES:
            assert file.startswith(WRITERS), f"{file}:{node.lineno} {name} changes the disk"


def test_every_wait_for_another_process_has_a_deadline() -> None:
    result = set[str]()
    for file, tree in trees():
        if not file.startswith(("host/", "reconcile/", "daemon.py")):
            continue
        for work in ast.walk(tree):
            if isinstance(work, ast.AsyncFunctionDef):
                for node in _unbounded_awaits(work):
                    assert f"{file}:{work.name}" in BOUNDED, f"{file}:{node.lineno} waits for ever"
                    result.add(f"{file}:{work.name}")
    assert result == BOUNDED.keys()


def _unbounded_awaits(node: ast.AST) -> Iterator[ast.Await]:
    """Awaits of such calls that stand in no `async with asyncio.timeout(...)`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.AsyncWith) and "asyncio.timeout(" in ast.unparse(child):
            continue
        if isinstance(child, ast.Await) and _waits(child.value):
            yield child
        yield from _unbounded_awaits(child)


def _waits(node: ast.expr) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    return node.func.attr in WAITS and ast.unparse(node.func) != "self.call"  # our own, bounded


@contextmanager
def deaf() -> Iterator[Path]:
    """A socket behind which somebody accepts and never answers."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        path = Path(folder, "deaf")
        listener.bind(str(path))
        listener.listen()
        yield path


def test_a_root_helper_that_does_not_answer_is_not_waited_for() -> None:
    async def ask(path: Path) -> None:
        with pytest.raises(TimedOut, match="did not answer"):
            await Privd(path, 0.1).apply(MakeNode(("00000001",)))

    with deaf() as path:
        asyncio.run(asyncio.wait_for(ask(path), 20))


def test_a_system_bus_that_does_not_answer_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def connect() -> None:
        bus = Bus(0.1, lambda _: None, ())
        running = asyncio.create_task(bus.run())
        with pytest.raises(Unreachable, match="no connection"):
            await bus.ready()
        with pytest.raises(Unreachable, match="no connection"):
            await bus.state()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    with deaf() as path:
        monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", f"unix:path={path}")
        asyncio.run(asyncio.wait_for(connect(), 20))


def test_a_daemon_that_does_not_answer_is_not_waited_for() -> None:
    with deaf() as path, varlink.Client(str(path), wait=0.1) as client, pytest.raises(HiveError):
        client.call("org.hive.Broker.Whoami")
