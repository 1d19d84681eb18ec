"""`hive-agent ask --child`: the process of a sub-agent. It does one task, writes a result, ends.

It goes on with the log that its parent gave it. For a clone nothing is rendered: its prompt, its
tools and its settings are those of the parent. It runs as a user of its own, in one process group
with its runtime and its tools.
"""

from __future__ import annotations

import argparse
import os
import signal
import stat
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from hive_core.agent.egress_port import open_egress
from hive_core.agent.forward import ForwardPair
from hive_core.agent.prompt_context import config_folder
from hive_core.agent.session.calls import CallRunner, ToolPlace
from hive_core.agent.session.context import TurnContext
from hive_core.agent.session.conversation import OpenConversation
from hive_core.agent.session.exchange import ModelExchange
from hive_core.agent.session.live import LiveText
from hive_core.agent.session.parking import Parked
from hive_core.agent.session.records import Record
from hive_core.agent.session.runtimes.builtin import RuntimeCommand, runtime_folder
from hive_core.agent.session.runtimes.pool import RuntimePool
from hive_core.agent.session.services import SessionServices
from hive_core.agent.session.subagents.chain import EGRESS_SOCKET
from hive_core.agent.session.subagents.channel import OPTION as CHANNEL_OPTION
from hive_core.agent.session.subagents.folder import ERROR, SUCCESS, result_of, write_result
from hive_core.agent.session.subagents.fork import ForkRunner, failed_result
from hive_core.agent.session.subagents.launch import AskingLauncher, Launcher, read_channel
from hive_core.agent.session.subagents.order import ForkOrder, hydrate, read_hydration
from hive_core.agent.session.subagents.runtime import OPTION, GivenRuntime
from hive_core.agent.session.subagents.settings import ForkSettings
from hive_core.agent.session.turn import TurnRunner
from hive_core.agent.task_run import mapping
from hive_core.errors import HiveError

ABOUT: Final = "Run a sub-agent: go on with a log, do one task, and write the result to a file."
LOGS: Final = ".session"
TEMPLATE: Final = "subagent"


def run_child(path: str, arguments: Sequence[str]) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser("hive-agent ask", description=ABOUT)
    parser.add_argument("--child", action="store_true", required=True, help="be a sub-agent")
    parser.add_argument("--hydrate-from", type=Path, required=True, help="log to go on with")
    parser.add_argument("--result", type=Path, required=True, help="file for the result, as JSON")
    parser.add_argument(
        OPTION, default="", metavar="SOCKET,PROCESS",
        help="descriptors of a runtime that is there already (default: start one)",
    )  # fmt: skip
    parser.add_argument(
        CHANNEL_OPTION, default="", metavar="SOCKET",
        help="descriptor on which the session starts sub-agents (default: this one has none)",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    watch_parent()
    began = time.monotonic()
    open_own_egress()
    name = os.environ.get("HIVE_AGENT_NAME", "")
    try:
        records, order = read_hydration(options.hydrate_from)
        services = read_child_services(path, order)
        runtimes = GivenRuntime(services.runtime, options.runtime)
        launcher = AskingLauncher(read_channel(options.forks), services.place.workspace)
        result = run_subagent(services, records, order, runtimes, launcher)
    except HiveError as error:
        result = failed_result(name, error.reason, began)
    write_result(options.result, result)
    return 0 if result["status"] == SUCCESS else 1


def watch_parent() -> None:
    """End the whole process group when the parent closes the pipe of standard input."""
    if stat.S_ISFIFO(os.fstat(0).st_mode):
        threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()


def open_own_egress() -> None:
    """Serve a port that leads to its own socket of hive-egress, for its own user alone."""
    if path := os.environ.get(EGRESS_SOCKET):
        own = range(os.geteuid(), os.geteuid() + 1)
        open_egress(os.environ, ForwardPair(0, path), own)


def _end_with_parent() -> None:
    while os.read(0, 1):
        pass
    os.killpg(0, signal.SIGKILL)


def read_child_services(path: str, order: ForkOrder) -> SessionServices:
    """What the parent set in the environment; NotAllowed where the depths exclude the order."""
    ForkSettings.read(config_folder() / "agent.toml").check_fork(
        is_clone=order.is_clone, depth=order.depth - 1,
        clone_depth=order.clone_depth - order.is_clone,
    )  # fmt: skip
    workspace = Path(os.environ["HIVE_WORKSPACE"])
    parents = os.environ.get("HIVE_PARENT_WORKSPACE")
    place = ToolPlace(
        workspace, path, None, reads=Path(parents) if parents else None, own_group=False
    )
    runtime = RuntimeCommand(
        os.environ["HIVE_MODEL_SOCKET"], runtime_folder(), None, own_group=False
    )
    runtime.check()
    return SessionServices(
        os.environ.get("HIVE_NAME", ""), path, workspace / LOGS, place, runtime,
        depth=order.depth, clone_depth=order.clone_depth,
    )  # fmt: skip


def run_subagent(
    services: SessionServices, records: list[Record], order: ForkOrder, runtimes: GivenRuntime,
    launcher: Launcher,
) -> dict[str, object]:  # fmt: skip
    """Run its one turn, and return the result."""
    began = time.monotonic()
    conversation = hydrate(services.folder, records)
    context = TurnContext(
        order.model_info, order.toolset, {"name": services.name}, order.prompt, order.rounds,
        order.payer, "" if order.is_clone else TEMPLATE,
    )  # fmt: skip
    pool = RuntimePool(runtimes, 0)
    exchange = ModelExchange(conversation, context, pool, LiveText(None, conversation.name))
    try:
        with services.open_link() as link:
            parked = TurnRunner(
                services, conversation, link, context, exchange,
                CallRunner(link, services.place, services.stop),
                ForkRunner(services, link, conversation, context, launcher), is_subagent=True,
            ).run()  # fmt: skip
    finally:
        pool.close()
    return _result(order, conversation, parked, exchange, began)


def _result(
    order: ForkOrder, conversation: OpenConversation, parked: Parked | None,
    exchange: ModelExchange, began: float,
) -> dict[str, object]:  # fmt: skip
    turn = conversation.state.turn
    end = (turn.end if turn else None) or {}
    text = str(end.get("text") or "")
    error = parked.why if parked else str(end.get("error") or "")
    if end.get("status") == "limit":
        error = f"it used its {order.rounds} rounds; the content is its last text"
    metadata = {
        "agent": order.name,
        **_usage_fields(exchange.meter.fields()),
        "latency_ms": round((time.monotonic() - began) * 1000),
    }
    is_done = end.get("status") == "done" and bool(text)
    if not (is_done or error):
        error = "it ended without a text"
    return result_of(
        status=SUCCESS if is_done else ERROR, content=text, error=error, metadata=metadata
    )


def _usage_fields(fields: Mapping[str, object]) -> dict[str, object]:
    usage = mapping(fields.get("usage"))
    return {
        "model": fields.get("model"), "provider": fields.get("provider"),
        "usage": {
            "input_tokens": usage.get("tokens_in"), "output_tokens": usage.get("tokens_out"),
        },
        **({"cost": fields["cost"]} if fields.get("cost") is not None else {}),
    }  # fmt: skip
