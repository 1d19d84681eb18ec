"""What a CLI is told and what it answers, and what differs between the CLIs."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hive_core.agent.session.server_socket import SessionTool
from hive_core.agent.session.servers import ServerTool
from hive_core.errors import HiveError

UNGRANTED: Final = "ungranted"  # the kind of an error: a program used a tool without a grant
SERVED: Final = ("operation", "server", "session")  # the kinds of tools that a CLI has from hive
# CLIs write the name of the MCP server before that of a tool, and providers take 64 characters.
SERVED_NAME_MOST: Final = 50
CLIS_FOLDER: Final = Path("/opt/hive/clis")
# hive-model says whose budget is used up; some CLIs show that and not the status.
_BUDGET: Final = re.compile(r"\bbudget\b|quota", re.IGNORECASE)
_STATUS: Final = re.compile(r"\bstatus(?: code)?:? (\d{3})\b|\b(402|429) ", re.IGNORECASE)


class CliMissing(HiveError):
    """The program of a CLI is not in this container."""

    exit_code = 78  # EX_CONFIG


@dataclass(slots=True)
class CliTurn:
    """What a CLI is to do in one exchange. `session`: its id of the conversation; empty: new.

    `tools`: the kinds of the agent's tools by name; none in a hand-back. `session_tool`: the one
    that the session runs itself.
    """

    session: str
    prompt: str
    system: str
    model: str
    task: str = ""
    letter: str = ""
    tools: Mapping[str, str] = field(default_factory=dict)
    server_tools: Sequence[ServerTool] = ()
    session_tool: SessionTool | None = None
    hands_back: bool = False
    max_output: int = 0
    context: int = 0
    is_new: bool = True
    url: str = ""
    locked: bool = False


@dataclass(slots=True)
class CliOutcome:
    """What the output of a CLI comes to. `began`: there was some."""

    session: str = ""
    text: str = ""
    began: bool = False
    ended: bool = False
    error: str = ""
    error_kind: str = ""
    model: str = ""
    usage: dict[str, int] = field(default_factory=dict)
    ttft_ms: float | None = None
    requests: int = 0
    replied: list[str] = field(default_factory=list)


@dataclass(slots=True)
class CliPlace:
    """Where the CLI of an agent runs. `agent`: the command that is `hive-agent`."""

    agent: Sequence[str]
    socket: str
    home: Path
    workspace: Path
    uid: int | None
    folder: Path = CLIS_FOLDER

    def make(self) -> None:
        """Make the home, which is the user's own."""
        if not self.home.is_dir():
            self.home.mkdir(mode=0o700, parents=True)
            if self.uid is not None:
                os.chown(self.home, self.uid, self.uid)


class CliDialect(ABC):
    """What differs between the CLIs."""

    name: str

    @abstractmethod
    def tool_names(self, kinds: Mapping[str, str]) -> Mapping[str, str]:
        """What its model calls the tools of the agent that it has."""

    @abstractmethod
    def environment(self, turn: CliTurn, place: CliPlace) -> Mapping[str, str]:
        """What it needs beside the common environment."""

    @abstractmethod
    def words(self, program: str, turn: CliTurn, place: CliPlace) -> Sequence[str]:
        """The command line."""

    def prepare(self, place: CliPlace) -> None:  # noqa: B027 - most need nothing
        """Make the folders that it needs beside its home."""

    def new_session(self) -> str:
        """An id for a new conversation; empty where the CLI chooses it."""
        return ""

    def is_known(self, home: Path, session: str) -> bool:
        """Whether the CLI has a conversation of this id, as far as its files say."""
        del home
        return bool(session)

    def check(self, program: Path) -> None:
        """Raise CliMissing where the program is not there."""
        if not program.exists():
            raise CliMissing(
                f"cannot run {self.name}: it is not at {program}; the host installs it with"
                f" `hive runtime install {self.name}`"
            )


class ProcessDialect(CliDialect):
    """A CLI with a format of its own. `keeps`: its process takes one prompt after another."""

    keeps = False

    @abstractmethod
    def stdin(self, turn: CliTurn) -> bytes:
        """What it reads."""

    @abstractmethod
    def read(self, row: Mapping[str, object], outcome: CliOutcome) -> str:
        """Take one line of its output; new text for those who watch."""


class AcpDialect(CliDialect):
    """A program that speaks the Agent Client Protocol. `server`: under what name it is given the
    MCP server of hive. `harmless`: titles of uses that do nothing, and need no grant.
    """

    server = "hive"
    harmless: frozenset[str] = frozenset()

    def prompt(self, turn: CliTurn) -> str:
        """What it is told in this turn."""
        return turn.prompt


def served_names(kinds: Mapping[str, str], prefix: str) -> Mapping[str, str]:
    """What a model calls the tools that the MCP server of hive serves."""
    return {tool: f"{prefix}{tool}" for tool, kind in kinds.items() if kind in SERVED}


def mcp_server(place: CliPlace) -> tuple[str, list[str]]:
    """The program that serves the operations of hive over MCP, and its arguments."""
    program, *words = place.agent
    return program, [*words, "mcp"]


def error_kind(text: str) -> str:
    """What an error of a model call is about, by its status: `budget`, `rate`, or neither."""
    match = _STATUS.search(text)
    status = (match[1] or match[2]) if match else ""
    if status == "402" or _BUDGET.search(text):
        return "budget"
    return "rate" if status == "429" else ""
