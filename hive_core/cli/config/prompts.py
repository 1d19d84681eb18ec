"""`hive prompt`: what the models of agents are told."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click

from hive_core.cli.agents import enter
from hive_core.cli.agents.create import ROLES
from hive_core.cli.core.lazy import ListGroup
from hive_core.cli.core.output import Column, Listing, output_option, say
from hive_core.cli.core.session import Session, complete_agent, complete_words
from hive_core.errors import InvalidArgument
from hive_core.model.agents.capability import PLAIN

FOLDER: Final = "/etc/hive/prompts"
PROFILES: Final = ("queen", "maid")
PHASES: Final = ("independent", "staging", "running", "editing")
FILES: Final = Listing(
    "file",
    (Column("file"), Column("source"), Column("bytes", priority=1), Column("overridden_by"),
     Column("sha256", priority=2)),
)  # fmt: skip


folder_option: Final = click.option(
    "--folder", type=click.Path(path_type=Path),
    help=f"Folder to try out in place of {FOLDER}.",
)  # fmt: skip


@click.group(cls=ListGroup)
def prompt() -> None:
    """List the prompt files, and print the system prompt of an agent."""


@prompt.command("list")
@folder_option
@output_option
@click.pass_obj
def list_files(session: Session, folder: Path | None, style: str) -> None:
    """List the files of the prompts, the shipped ones and those of the operator.

    A file of the operator is in the place of the shipped one of the same name.
    """
    # Jinja2 is slow to load, here and below.
    from hive_core.runtime.prompts import PromptFiles, prompt_names  # noqa: PLC0415

    texts = _operator_texts(session, folder)
    files = PromptFiles({"deployed": {}, "operator": texts})
    rows = []
    for name in sorted({*prompt_names(), *texts}):
        data = files.text(name).encode()
        reserved = name in files.manifest.operators
        rows.append({
            "file": name, "source": str(folder or FOLDER) if name in texts else "shipped",
            "bytes": len(data), "overridden_by": "operator" if reserved else "operator, agent",
            "sha256": hashlib.sha256(data).hexdigest(),
        })  # fmt: skip
    FILES.show(rows, style)


@prompt.command
@click.argument("name", required=False, shell_complete=complete_agent)
@click.option("--new", is_flag=True, help="Render it as for a new conversation.")
@click.option("--conversation", help="Conversation of NAME.  [default: main]")
@click.option("--role", type=click.Choice(ROLES), help="Role, in place of NAME.")
@click.option("--profile", type=click.Choice(PROFILES), help="Profile, with the role daemon.")
@click.option("--phase", type=click.Choice(PHASES), default=PHASES[0], show_default=True,
              help="Phase, with the profile queen.")  # fmt: skip
@click.option("--capability", "capabilities", multiple=True, metavar="CAPABILITY",
              shell_complete=complete_words(*PLAIN),
              help="Capability, in place of those of the role (repeatable).")  # fmt: skip
@click.option("--title", default="", help="Title, with --role.")
@folder_option
@click.pass_obj
def render(session: Session, /, name: str | None, folder: Path | None, **options: object) -> int:
    """Print the system prompt of NAME, byte for byte, and its SHA-256 on standard error.

    The prompt of a conversation does not change while it lasts. With --role no agent is asked: it
    prints what an agent of that role called `agent` would be told on this host.
    """
    if (name is None) == (options["role"] is None):
        raise InvalidArgument("name an agent, or a role with --role")
    if name is None:
        return _render_role(options, _operator_texts(session, folder))
    place = enter.locate(session, name, "read the prompt of")
    words = ["/opt/hive/bin/hive-agent", "prompt", *(["--new"] if options["new"] else [])]
    if options["conversation"]:
        words.append(f"--conversation={options['conversation']}")
    return enter.run_without_input(place, words)


def _render_role(options: Mapping[str, object], texts: Mapping[str, str]) -> int:
    from hive_core.model.agents.agent import Profile, Role  # noqa: PLC0415
    from hive_core.model.agents.capability import check_capabilities  # noqa: PLC0415
    from hive_core.model.agents.phase import QueenPhase  # noqa: PLC0415
    from hive_core.model.agents.roles import default_capabilities  # noqa: PLC0415
    from hive_core.model.agents.toolset import toolset  # noqa: PLC0415
    from hive_core.runtime.prompts import render_system  # noqa: PLC0415

    role = Role(str(options["role"]))
    profile = Profile(str(options["profile"])) if options["profile"] else None
    if profile is not None and role is not Role.DAEMON:
        raise InvalidArgument(f"{profile} is a profile of the role daemon", field="profile")
    wanted = options["capabilities"]
    held = check_capabilities(wanted) if isinstance(wanted, tuple) and wanted else None
    capabilities = default_capabilities(role) if held is None else held
    phase = QueenPhase(str(options["phase"]))
    tools = (tool for tool in toolset(role, profile, capabilities, phase) if tool != "read_skill")
    data = render_system({
        "name": "agent", "role": role.value, "profile": profile.value if profile else "",
        "title": options["title"], "capabilities": list(capabilities), "parent": "parent",
        "tools": {tool: tool for tool in tools}, "workspace": "/agents/agent/state/work",
        "operator": dict(texts), "phase": phase.value if profile is Profile.QUEEN else "",
    }).encode()  # fmt: skip
    sys.stdout.buffer.write(data)
    say(f"sha256 {hashlib.sha256(data).hexdigest()}")
    return 0


def _operator_texts(session: Session, folder: Path | None) -> dict[str, str]:
    """The operator's files that hived has read, or those of a folder; its faults are errors."""
    from hive_core.host.config.prompts import PROMPTS  # noqa: PLC0415

    if folder is None:
        files = session.ask("get_prompts").get("files")
        rows = files.items() if isinstance(files, dict) else ()
        return {str(name): str(text) for name, text in rows}
    loaded = PROMPTS.load(folder)
    if loaded.fault:
        raise InvalidArgument(loaded.fault)
    return dict(loaded.texts)
