"""The command `hive-agent session`: run the session, or look into its log."""

from __future__ import annotations

import argparse
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from hive_core.agent.attend import CONFIG, start_beside
from hive_core.agent.reconnect import Link
from hive_core.agent.serve import run_until_stop
from hive_core.agent.session.calls import ToolPlace
from hive_core.agent.session.inspection import COMMANDS, run_inspection
from hive_core.agent.session.mailbox import Mailbox
from hive_core.agent.session.runtimes.builtin import RUNTIME_FOLDER, UID, RuntimeCommand
from hive_core.agent.session.services import POLL, SessionServices, SessionSettings
from hive_core.agent.session.session import AgentSession

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
    return parser


def run_session(path: str, arguments: Sequence[str]) -> int:
    """Run the command."""
    if arguments and arguments[0] in COMMANDS:
        return run_inspection(state_folder() / "session", arguments)
    options = _parser().parse_args(arguments)
    services = read_services(path, options.state or state_folder(), options.uid)
    services.runtime.check()
    start_beside(path)
    return run_until_stop(lambda: serve_session(services))


def read_services(path: str, state: Path, uid: int) -> SessionServices:
    """What the environment and the deployed configuration say."""
    folder = os.environ.get("HIVE_RUNTIME")
    as_user = uid if os.geteuid() == 0 else None
    runtime = RuntimeCommand(
        os.environ.get("HIVE_MODEL_SOCKET", MODEL_SOCKET),
        RUNTIME_FOLDER if folder is None else Path(folder) if folder else None, as_user,
    )  # fmt: skip
    workspace = Path(os.environ.get("HIVE_WORKSPACE") or state / "work")
    make_workspace(workspace, as_user)
    return SessionServices(
        os.environ.get("HIVE_NAME", ""), path, state / "session",
        ToolPlace(workspace, path, as_user), runtime, SessionSettings.read(CONFIG / "agent.toml"),
    )  # fmt: skip


def make_workspace(place: Path, uid: int | None) -> None:
    """Make the folder in which tools work: theirs, in a state folder that is not."""
    try:
        place.mkdir(parents=True)
    except FileExistsError:
        return
    if uid is not None:
        os.chown(place, uid, uid)


def state_folder() -> Path:
    """The folder of the agent's state."""
    if place := os.environ.get("HIVE_STATE"):
        return Path(place)
    return Path("/agents", os.environ.get("HIVE_NAME", "-"), "state")


def serve_session(services: SessionServices) -> None:
    """Serve until a signal ends it."""
    with Link(services.socket, answer=POLL) as link:
        wanted = services.ask(link, "whoami").get("parallel")
        session = AgentSession(services, wanted if isinstance(wanted, int) and wanted > 0 else 1)
        mailbox = Mailbox(services, session)
        try:
            session.resume()
            mailbox.resume_tasks(link)
            mailbox.take_waiting(link)
            link.close()
            mailbox.start()
            threading.Event().wait()
        finally:
            session.close()
