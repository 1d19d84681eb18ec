"""Commands that change the tree: create, destroy, restore, move."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Final

import click

from hive_core.cli.core.lazy import ListGroup
from hive_core.cli.core.output import Column, Listing, Row, moment, one, output_option, say, words
from hive_core.cli.core.progress import working
from hive_core.cli.core.session import WAIT, Session, complete_agent
from hive_core.cli.core.sizes import limits
from hive_core.cli.host.install.images import enter

ROLES: Final = ("daemon", "agent", "architect", "lead", "worker", "task")
ARCHIVES: Final = Listing(
    "id",
    (Column("id"), Column("name"), Column("destroyed_at", "destroyed", moment),
     Column("expires_at", "kept until", moment)),
    "nothing was destroyed lately",
)  # fmt: skip
no_wait: Final = click.option("--no-wait", is_flag=True, help="Return once it is recorded.")


AGENTS: Final = Listing(
    "name",
    (Column("name"), Column("parent"), Column("role"), Column("state"), Column("activity"),
     Column("title")),
    "no agents; `hive agent create NAME` makes one",
)  # fmt: skip


@click.group(cls=ListGroup)
def agent() -> None:
    """Make agents, and list them (`hive tree` draws them)."""


@agent.command("list")
@click.argument("name", required=False, shell_complete=complete_agent)
@output_option
@click.pass_obj
def listed(session: Session, name: str | None, style: str) -> None:
    """List all agents, or NAME and those below it."""
    AGENTS.show(session.rows("list_agents", "agents", root=name), style)


@agent.command("create", context_settings={"ignore_unknown_options": False})
@click.argument("name")
@click.option("--parent", shell_complete=complete_agent,
              help='The parent; the root agent if absent, "" makes a root.')  # fmt: skip
@click.option(
    "--role", type=click.Choice(ROLES), help="Its role (see `hive role`).  [default: agent]"
)
@click.option("--title", help="What people call it.")
@click.option("--tier", type=click.Choice(("strategic", "tactical", "operational")),
              help="Class of model that it uses.  [default: operational]")  # fmt: skip
@click.option("--definition", help="Take everything that is not given here from this definition.")
@click.option("--tool", "tools", multiple=True, metavar="TOOL[(ARGUMENT)]",
              help="One tool that it may use, such as 'bash(git *)'; may be repeated.")  # fmt: skip
@click.option("--image", help="An image of hive.toml, or a directory with a prepared tree.")
@click.option("--boot/--no-boot", default=None, help="Run an init inside.")
@click.option("--capability", "add_capabilities", multiple=True, metavar="CAPABILITY",
              help="A capability beside those of its role (repeatable).")  # fmt: skip
@click.option("--only-capability", "capabilities", multiple=True, metavar="CAPABILITY",
              help="A capability in place of those of its role (repeatable).")  # fmt: skip
@click.option("--limit", "bounds", multiple=True, metavar="KEY=VALUE",
              help="A bound such as memory_max=512M, tasks_max=200; may be repeated.")  # fmt: skip
@click.option("--subtree-limit", "subtree", multiple=True, metavar="KEY=VALUE",
              help="A bound of the agent with all its descendants together, such as"
              " memory_max=2G, agents=20; may be repeated.")  # fmt: skip
@click.option("--after-task", type=click.Choice(("stays", "sleeps", "exits")),
              help="What it does after its last task.  [default: by role]")  # fmt: skip
@click.option("--wakes", is_flag=True, default=None, help="Mail wakes it when it sleeps.")
@no_wait
@click.argument("command", nargs=-1)
@click.pass_obj
def create(session: Session, /, name: str, **given: object) -> None:
    """Make the agent NAME and start it.

    What stands after -- is its command. Any program can be an agent; without a command the agent
    only collects mail.
    """
    wait = not given.pop("no_wait")
    if "/" in str(given.get("image")):
        enter(str(given["image"]))
    bounds = {"limits": limits(given.pop("bounds")), "subtree": limits(given.pop("subtree"))}
    params = {**_wanted(given), **{key: value for key, value in bounds.items() if value}}
    reply = session.change("spawn", name=name, **params)
    say(f"{name} is {reply.get('uuid')}")
    session.finish(reply, f"starting {name}", wait=wait)


def _wanted(given: Mapping[str, object]) -> dict[str, object]:
    """What was given on the command line, in JSON's types."""
    lists = {
        key: list(value) if isinstance(value, tuple) else value for key, value in given.items()
    }
    return {key: value for key, value in lists.items() if value is not None and value != []}


def _confirm(session: Session, name: str, *, recursive: bool) -> None:
    rows = list(session.rows("list_agents", "agents", root=name))
    children = [str(row.get("name")) for row in rows if row.get("parent") == name]
    below = f" and its {len(rows) - 1} descendants" if recursive and len(rows) > 1 else ""
    text = f"Destroy {name}{below}? Files are kept for a while (`hive restore`)."
    if children and not recursive:
        text += f" Up to its parent move: {', '.join(children)}."
    click.confirm(text, abort=True, err=True)


@click.command
@click.argument("name", shell_complete=complete_agent)
@click.option("--recursive", is_flag=True, help="Its descendants too.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@no_wait
@click.pass_obj
def destroy(session: Session, name: str, *, recursive: bool, yes: bool, no_wait: bool) -> None:
    """Destroy NAME: stop it and take it out of the tree.

    Its files are kept for a while: `hive restore` brings it back. Without --recursive its children
    move up to its parent.
    """
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError("nobody to ask: destroy needs --yes here")
        _confirm(session, name, recursive=recursive)
    reply = session.change("destroy", agent=name, recursive=recursive)
    session.finish(reply, f"destroying {name}", wait=not no_wait)


def _archived(session: Session, word: str) -> str:
    """The ID of the only archive with this name; anything else is for the daemon to judge."""
    rows = list(session.rows("list_archives", "archives"))
    found = [str(row["id"]) for row in rows if row.get("name") == word]
    if len(found) > 1:
        raise click.UsageError(f"{len(found)} agents called {word} were destroyed; give the ID")
    return found[0] if found else word


@click.command
@click.argument("archive", metavar="[NAME|ID]", required=False)
@output_option
@no_wait
@click.pass_obj
def restore(session: Session, archive: str | None, style: str, *, no_wait: bool) -> None:
    """Bring a destroyed agent back; without an argument, list the destroyed agents.

    Where several destroyed agents had the same name, give the ID.
    """
    if archive is None:
        ARCHIVES.show(session.rows("list_archives", "archives"), style)
        return
    reply = session.change("restore", id=_archived(session, archive))
    say(f"{reply.get('name')} is back")
    for key, why in (
        ("lost", "its parent does not hold it, or it was taken from one above"),
        ("disallowed", "its parent may not write there"),
    ):
        if reply.get(key):
            say(f"it comes back without {words(reply[key])}: {why}")
    if reply.get("restarts"):
        say(f"restarts {words(reply['restarts'])}, who had its files before")
    session.finish(reply, "restoring", wait=not no_wait)


def _move_lines(reply: Row) -> Iterator[str]:
    """What a move means for what runs."""
    restarts = reply.get("restarts")
    yield f"restarts  {words(restarts)}" if restarts else "live      nothing is restarted"
    for key, text in (("gaining", "gains"), ("left", "may hold")):
        if reply.get(key):
            yield f"{text:<9} {words(reply[key])}"


@click.command
@click.argument("name", shell_complete=complete_agent)
@click.option("--parent", required=True, shell_complete=complete_agent,
              help='The new parent; "" makes a root.')  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Say what it would restart, and do nothing.")
@click.option("--when-idle", type=click.FloatRange(0, 86_400), metavar="SECONDS",
              help="Let those who lose access finish first, for so long at most.")  # fmt: skip
@click.option("--no-restart", is_flag=True,
              help="Restart nobody who loses access: they keep what they hold open.")  # fmt: skip
@no_wait
@output_option
@click.pass_obj
def move(  # noqa: PLR0913 - one parameter for each word of the command line
    session: Session, name: str, parent: str, style: str, when_idle: float | None, *,
    dry_run: bool, no_restart: bool, no_wait: bool,
) -> None:  # fmt: skip
    """Put NAME with all its descendants under another parent, live.

    NAME and its descendants go on running. Agents that were above NAME and are not any more are
    restarted, with all below them that does not move along: they may hold files of NAME open. The
    command ends when access is really gone.

    Printed is who is restarted and who gains sight of NAME's files. With --no-restart, `hive
    status` shows who may still hold files of NAME until those agents were restarted.
    """
    given = {"agent": name, "parent": parent, "no_restart": no_restart}
    if when_idle is not None:
        given["when_idle"] = when_idle
    if dry_run:
        reply = session.ask("move", **given, dry_run=True)
    else:
        with working(f"moving {name}"):
            reply = session.change("move", **given, wait=0 if no_wait else WAIT)
        session.finish(reply, f"moving {name}", wait=not no_wait)
    one(reply, style, "agent", lambda: _move_lines(reply))
