"""Every command against a daemon in whose answers all words of agents are hostile (attack 45, K39).

What the daemon chooses itself (ids, names, states) is plain; every other text acts on a terminal,
turns the direction, hides, or begins lines. Whatever a command makes of that, the operator sees
no line that another wrote from its beginning, and nothing gets through to the terminal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import click
import pytest
from cli.run import Hive
from each import for_each
from fixtures.fake_broker import Answer
from fixtures.hostile_answers import HostileAnswers

from hive_core.cli.core.output import block, moment
from hive_core.cli.main import COMMANDS, hive

EVIL: Final = "A\x1b]52;c;ZXZpbA==\x07\x9b2J\u202e\u2066\nEVIL\rEVIL\x1b[8m\u2028EVIL\x85EVIL\u200b"
ACTS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f]")
OURS: Final = frozenset({
    "id", "name", "agent", "task", "plan", "question", "upload", "commit", "job", "kind", "type",
    "state", "status", "tier", "wanted",
})  # fmt: skip
# They wait, enter a container, change the machine, download, or read what the test would have to
# make. `watch` has tests of its own for such text.
ELSEWHERE: Final = frozenset({
    "setup", "teardown", "migrate", "shell", "completion", "doctor", "reap", "wait", "declare",
    "lint", "load", "template", "metrics", "group", "call", "schema", "chat", "export", "get",
    "set", "cp", "help", "version", "install", "watch",
})  # fmt: skip
STYLES: Final = ((), ("-o", "json"), ("-o", "name"))


def commands() -> Iterator[tuple[list[str], click.Command]]:
    """All that `hive` has."""
    context = click.Context(hive)
    for name in sorted(set(COMMANDS) - ELSEWHERE):
        command = hive.get_command(context, name)
        assert command is not None
        if not isinstance(command, click.Group):
            yield [name], command
            continue
        for word in command.list_commands(context):
            below = command.get_command(context, word)
            assert below is not None
            if word not in ELSEWHERE:
                yield [name, word], below


def words(command: click.Command) -> Iterator[str]:
    """The required arguments of a command."""
    for param in command.params:
        choice = param.type.choices[0] if isinstance(param.type, click.Choice) else "1"
        if isinstance(param, click.Argument):
            yield from (
                __file__ if isinstance(param.type, click.File) else str(choice),
            ) * param.nargs
        elif param.required:
            yield from (param.opts[-1], str(choice))


@pytest.fixture(scope="module", name="answers")
def _answers() -> dict[str, Answer]:
    table = HostileAnswers(EVIL, OURS).table()
    return {**table, "WaitJob": lambda _: {"state": "done", "error": ""}}


# What they print, or print last, is one text as it is: an answer, a result, what was defined.
LETTERS: Final = (["send"], ["task", "assign"], ["definition", "show"])
MORE: Final = {
    ("task", "assign"): ("--wait",), ("send",): ("--wait", "1"), ("remind",): ("--in", "5m"),
    ("destroy",): ("--yes",), ("agent", "destroy"): ("--yes",), ("approval", "approve"): ("--yes",),
    ("inbox", "clear"): ("--yes",),
}  # fmt: skip


@for_each("words_, command", list(commands()), label=lambda case: " ".join(case[0]))
def test_agent_text_never_acts_on_the_terminal_or_begins_a_line(
    hive: Hive, answers: dict[str, Answer], words_: list[str], command: click.Command
) -> None:
    hive.peer.answers = answers
    styles = STYLES if any(param.name == "style" for param in command.params) else STYLES[:1]
    for style in styles:
        done = hive(*words_, *words(command), *MORE.get(tuple(words_), ()), *style)
        for text in (done.out, done.err):
            assert not ACTS.search(text), (style, text)
            assert words_ in LETTERS or not re.search("(?m)^EVIL", text), (style, text)


def test_further_lines_of_agent_text_are_indented() -> None:
    assert block("one\ntwo\rthree\n\x1b[2Jfour").splitlines() == [
        "one", "    two⟨U+000D⟩three", "    ⟨U+001B⟩[2Jfour",
    ]  # fmt: skip


@for_each("at", [1e300, -1e300, 1e17, float(2**63)])
def test_a_time_outside_the_calendar_is_printed_as_a_number(at: float) -> None:
    assert moment(at) == f"{at:g}"
