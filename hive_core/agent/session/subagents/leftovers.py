"""What an earlier process of the session left of its sub-agents: it ends before any turn begins."""

from __future__ import annotations

from hive_core.agent.prompt_context import config_folder
from hive_core.agent.reconnect import Link
from hive_core.agent.session.services import SessionServices, say
from hive_core.agent.session.subagents.folder import FOLDER, remove_all
from hive_core.agent.session.subagents.fork import failed_result
from hive_core.agent.session.subagents.process import kill_users
from hive_core.agent.session.subagents.settings import ForkSettings
from hive_core.errors import HiveError


def end_leftovers(services: SessionServices, link: Link) -> None:
    """Kill all processes of sub-agents, close what is open, and remove their files.

    Whatever the configuration allows now: what runs without its session is killed first.
    """
    folder = services.folder.parent / FOLDER
    if not folder.exists():
        return
    if services.place.uid:  # else they ran as the session does, and ended with it
        kill_users()
    rows = services.try_ask(link, "list_subagents").get("subagents")
    for row in rows if isinstance(rows, list) else []:
        metadata = failed_result(str(row["name"]), "", 0)["metadata"]
        services.try_ask(
            link, "close_subagent", id=row["id"], status="cancelled", metadata=metadata
        )
    try:
        settings = ForkSettings.read(config_folder() / "agent.toml")
    except HiveError as error:
        say(f"the files of sub-agents stay in {folder}: {error.reason}")
        return
    if settings.cleanup_temp_files:
        remove_all(folder)
