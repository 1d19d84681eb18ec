"""What a CLI is told and what it answers, and what differs between the CLIs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

CLIS_FOLDER: Final = Path("/opt/hive/clis")


@dataclass(slots=True)
class CliTurn:
    """What a CLI is to do in one exchange. `session`: its id of the conversation; empty: new.

    `tools`: the kinds of the agent's tools by name; none in a hand-back.
    """

    session: str
    prompt: str
    system: str
    model: str
    task: str = ""
    letter: str = ""
    tools: Mapping[str, str] = field(default_factory=dict)
    hands_back: bool = False
    max_output: int = 0
    is_new: bool = True
    url: str = ""
    locked: bool = False


@dataclass(slots=True)
class CliOutcome:
    """What the output of a CLI comes to."""

    session: str = ""
    text: str = ""
    ended: bool = False
    error: str = ""
    error_kind: str = ""
    model: str = ""
    usage: dict[str, int] = field(default_factory=dict)
    ttft_ms: float | None = None
    requests: int = 0
    replied: list[str] = field(default_factory=list)


class CliDialect(Protocol):
    """What differs between the CLIs: words, environment, input and output."""

    name: str

    def tool_names(self, kinds: Mapping[str, str]) -> Mapping[str, str]:
        """What its model calls the tools of the agent that it has."""
        ...

    def new_session(self) -> str:
        """An id for a new conversation; empty where the CLI chooses it."""
        ...

    def is_known(self, home: Path, session: str) -> bool:
        """Whether the CLI has a conversation of this id."""
        ...

    def words(self, program: str, turn: CliTurn, place: CliPlace) -> Sequence[str]:
        """The command line."""
        ...

    def environment(self, turn: CliTurn, place: CliPlace) -> Mapping[str, str]:
        """What it needs beside the common environment."""
        ...

    def stdin(self, turn: CliTurn) -> bytes:
        """What it reads."""
        ...

    def read(self, row: Mapping[str, object], outcome: CliOutcome) -> str:
        """Take one line of its output; new text for those who watch."""
        ...


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
