"""The command `hive-agent session`: run the session, or look into its log."""

from __future__ import annotations

import argparse
import os
import socket
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from hive_core.agent.attend import start_beside
from hive_core.agent.forward import MODEL, ForwardPair
from hive_core.agent.prompt_context import config_folder, state_folder
from hive_core.agent.reconnect import Link
from hive_core.agent.serve import run_until_stop
from hive_core.agent.session.calls import ToolPlace
from hive_core.agent.session.inspection import COMMANDS, run_inspection
from hive_core.agent.session.judge_settings import JudgeSettings
from hive_core.agent.session.mailbox import Mailbox
from hive_core.agent.session.memory.settings import MemorySettings
from hive_core.agent.session.runtimes.acp_custom import (
    AcpSettings,
    CustomAcpDialect,
    read_server_name,
)
from hive_core.agent.session.runtimes.builtin import UID, RuntimeCommand, runtime_folder
from hive_core.agent.session.runtimes.claude import ClaudeDialect
from hive_core.agent.session.runtimes.cli_command import CliCommand
from hive_core.agent.session.runtimes.cli_dialect import (
    CLIS_FOLDER,
    CliDialect,
    CliPlace,
)
from hive_core.agent.session.runtimes.codex import CodexDialect
from hive_core.agent.session.runtimes.fork_server import ForkServerClient
from hive_core.agent.session.runtimes.forwarder import ModelForwarder
from hive_core.agent.session.runtimes.opencode import OpencodeDialect
from hive_core.agent.session.server_settings import read_server_settings
from hive_core.agent.session.servers import McpServers
from hive_core.agent.session.services import POLL, SessionServices, SessionSettings
from hive_core.agent.session.session import AgentSession
from hive_core.agent.session.subagents.leftovers import end_leftovers

DIALECTS: Final[Mapping[str, CliDialect]] = {
    "claude": ClaudeDialect(), "codex": CodexDialect(), "opencode": OpencodeDialect(),
}  # fmt: skip
# What programs of the agent have of the environment of its session.
_OWN: Final = (
    "PATH", "HIVE_NAME", "HIVE_PARENT", "HIVE_RUNTIME", "HTTPS_PROXY", "HTTP_PROXY", "https_proxy",
    "http_proxy", "TZ",
)  # fmt: skip
ABOUT: Final = "Run a model as this agent: mail and tasks become turns, which survive a crash."
MODEL_SOCKET: Final = "/run/hive/model.sock"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "hive-agent session", description=ABOUT,
        usage="hive-agent session [options]\n"
              "       hive-agent session log|show|rewind [options]",
    )  # fmt: skip
    parser.add_argument(
        "--state", type=Path, help="folder of the agent's state (default: /agents/NAME/state)"
    )
    parser.add_argument(
        "--uid", type=int, default=UID,
        help=f"user of tools and runtime, where the session runs as root (default {UID})",
    )  # fmt: skip
    parser.add_argument(
        "--fork-server", type=int, metavar="DESCRIPTOR",
        help="socket of a fork server that runs already (default: start one when it is needed)",
    )  # fmt: skip
    return parser


def run_session(path: str, arguments: Sequence[str]) -> int:
    """Run the command."""
    if arguments and arguments[0] in COMMANDS:
        return run_inspection(state_folder() / "session", arguments, path)
    options = _parser().parse_args(arguments)
    state = options.state or state_folder()
    os.environ["HIVE_STATE"] = str(state)  # for tools, which read skills there
    services = read_services(path, state, options.uid, options.fork_server)
    services.runtime.check()
    start_beside(path)
    return run_until_stop(lambda: serve_session(services))


def read_services(path: str, state: Path, uid: int, channel: int | None = None) -> SessionServices:
    """What the environment and the deployed configuration say."""
    as_user = uid if os.geteuid() == 0 else None
    runtime = RuntimeCommand(
        os.environ.get("HIVE_MODEL_SOCKET", MODEL_SOCKET),
        runtime_folder(), as_user,
    )  # fmt: skip
    workspace = Path(os.environ.get("HIVE_WORKSPACE") or state / "work")
    make_workspace(workspace, as_user)
    file = config_folder() / "agent.toml"
    settings = SessionSettings.read(file)
    shared = None if channel is None else socket.socket(fileno=channel)
    if shared is not None:
        shared.set_inheritable(False)  # a tool could have a process of any user started there
    return SessionServices(
        os.environ.get("HIVE_NAME", ""), path, state / "session",
        ToolPlace(workspace, path, as_user), runtime, settings,
        memory=MemorySettings.read(file), judge=JudgeSettings.read(file),
        forks=ForkServerClient(runtime, settings.idle, shared),
        servers=McpServers(runtime, read_server_settings(file), workspace),
    )  # fmt: skip


def read_cli(services: SessionServices, runtime: str) -> CliCommand | None:
    """How the CLI of this runtime is started; None for another runtime.

    HIVE_CLIS and HIVE_MODEL_PORT name another folder and another port.
    """
    dialect = DIALECTS.get(runtime)
    if runtime == "acp":
        file = config_folder() / "agent.toml"
        name = read_server_name(services.folder / "acp-server")
        dialect = CustomAcpDialect(AcpSettings.read(file), name, file)
    if dialect is None:
        return None
    own = {key: value for key, value in os.environ.items() if key in _OWN}
    environment = {"PATH": os.defpath, "LANG": "C.UTF-8", **own}
    tools = services.place
    place = CliPlace(
        tools.command, services.socket, services.folder.parent / "home", tools.workspace,
        tools.uid, Path(os.environ.get("HIVE_CLIS", CLIS_FOLDER)),
    )  # fmt: skip
    port = int(os.environ.get("HIVE_MODEL_PORT", MODEL.port))
    pair = ForwardPair(port, services.runtime.model_socket)
    forwarder = ModelForwarder(pair, tools.command, tools.uid, environment)
    command = CliCommand(dialect, place, services.runtime, forwarder, environment, services.servers)
    command.check()
    return command


def make_workspace(place: Path, uid: int | None) -> None:
    """Make the folder in which tools work: theirs, in a state folder that is not."""
    try:
        place.mkdir(parents=True)
    except FileExistsError:
        return
    if uid is not None:
        os.chown(place, uid, uid)


def serve_session(services: SessionServices) -> None:
    """Serve until a signal ends it."""
    with Link(services.socket, answer=POLL) as link:
        identity = services.ask(link, "whoami")
        services.cli = read_cli(services, str(identity.get("runtime") or ""))
        wanted = identity.get("parallel")
        session = AgentSession(services, wanted if isinstance(wanted, int) and wanted > 0 else 1)
        mailbox = Mailbox(services, session)
        try:
            end_leftovers(services, link)
            session.resume()
            mailbox.resume_tasks(link)
            session.judge.resume(link)
            mailbox.take_waiting(link)
            link.close()
            mailbox.start()
            threading.Event().wait()
        finally:
            session.close()
