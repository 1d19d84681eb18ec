"""Every command and every flag that the documents and the helps name is there.

They are parsed, and not carried out. What stands in a line of its own is parsed whole, with the
number and the types of its arguments; what stands in a sentence only as far as its flags, because
there are placeholders in it.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import click
import pytest
from each import for_each

from hive_core.agent import catalog
from hive_core.agent.main import OWN, SHORT
from hive_core.agent.main import run as run_agent
from hive_core.cli.core.lazy import ListGroup
from hive_core.cli.main import hive

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "examples/README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Flags of other programs that the documents name by themselves.
FOREIGN = frozenset({
    "--long", "--minutes", "--seed", "--figures", "--private-users", "--system-call-filter",
    "--register", "--link-journal", "--refetch", "--settings", "--userns", "--cgroups",
})  # fmt: skip
_FENCE = re.compile(r"^ {0,3}```")
_PROMPT = re.compile(r"^(?:[#$] |hive-agent-shell\$ )?(?=hive(?:-agent)? )")
_INLINE = re.compile(r"`([^`]+)`")
_OPTION = re.compile(r"--[a-z][a-z0-9-]*(?:\.\.\.)?")


class DocumentedText(NamedTuple):
    place: str
    text: str
    whole: bool


def blocks(text: str) -> Iterator[tuple[int, str]]:
    """Lines of code with their numbers; one that ends with a backslash has the next in it."""
    fenced, joined, first = False, "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if _FENCE.match(line):
            fenced = not fenced
            continue
        if not (fenced or line.startswith("    ") or joined):
            continue
        first = first if joined else number
        joined += line.strip()
        if joined.endswith("\\"):
            joined = joined[:-1] + " "
            continue
        yield first, joined
        joined = ""


def inline_code(text: str) -> Iterator[tuple[int, str]]:
    """What stands between backticks in sentences."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced and not line.startswith("    "):
            yield from ((number, code) for code in _INLINE.findall(line))


def helps(command: click.Command, name: str) -> Iterator[tuple[str, str]]:
    yield name, command.help or ""
    for param in command.params:
        if isinstance(param, click.Option):
            yield f"{name} {param.opts[0]}", param.help or ""
    if isinstance(command, click.Group):
        context = click.Context(command, **hive.context_settings)
        for word in command.list_commands(context):
            below = command.get_command(context, word)
            assert below is not None
            yield from helps(below, f"{name} {word}")


def documented_texts() -> Iterator[DocumentedText]:
    for page in PAGES:
        text, place = page.read_text(encoding="utf-8"), page.relative_to(ROOT)
        for number, line in blocks(text):
            if match_ := _PROMPT.match(line):
                yield DocumentedText(f"{place}:{number}", line[match_.end() :], whole=True)
        for number, code in inline_code(text):
            yield DocumentedText(f"{place}:{number}", code, whole=False)
    for name, text in helps(hive, "hive"):
        for code in _INLINE.findall(text):
            yield DocumentedText(f"{name} --help", code, whole=False)


def words_of(text: str) -> list[str]:
    """One command: what stands before a pipe, a redirection, a comment or another command."""
    text = re.sub(r"\$\([^)]*\)|<\([^)]*\)", "X", text)
    lexer = shlex.shlex(text, posix=True, punctuation_chars="|;&<>()")
    lexer.whitespace_split, lexer.commenters = True, "#"
    words = list[str]()
    with contextlib.suppress(ValueError):  # an apostrophe in what is no command
        for word in lexer:
            if set(word) <= set("|;&<>()"):
                break
            words.append(word)
    return words


@cache
def options_of_agent(name: str) -> frozenset[str]:
    """What the help of a command of `hive-agent` names."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
        run_agent([name, "--help"], "/nowhere")
    return frozenset(re.findall(r"(?<![\w-])--?[a-z][a-z0-9-]*", said.getvalue())) | {"--why"}


def check_agent(words: list[str]) -> None:
    name, *rest = words
    known = {
        *OWN,
        "help",
        *SHORT,
        *(operation.name.replace("_", "-") for operation in catalog.load()),
    }
    assert name in known or name.startswith("-"), f"hive-agent has no command {name}"
    if name.startswith("-") or name in ("hold", "help"):
        return
    before = rest[: rest.index("--")] if "--" in rest else rest
    for word in before:
        if re.match(r"--?[a-z]", word):
            flag = word.partition("=")[0]
            assert flag in options_of_agent(name), f"hive-agent {name} has no {flag}"


def check_hive(words: list[str], *, whole: bool) -> None:
    command: click.Command = hive
    # click keeps the help option that it made first, by the settings of that context.
    context = click.Context(hive, info_name="hive", **hive.context_settings)
    rest = list(words)
    if rest[:1] and rest[0].startswith("-"):
        hive.make_parser(context).parse_args(rest)
        return
    while isinstance(command, click.Group):
        if not rest or (isinstance(command, ListGroup) and command.is_list(context, rest)):
            rest = ["list", *rest] if isinstance(command, ListGroup) else ["--help"]
        word = rest.pop(0)
        if word == "--help":
            return
        if not re.fullmatch(r"[a-z][a-z-]*", word):
            assert not whole, f"{word} is no command"
            return  # a placeholder
        below = command.get_command(context, word)
        assert below is not None, f"{context.command_path} has no command {word}"
        context = click.Context(below, info_name=word, parent=context)
        command = below
    if whole:
        command.make_context(context.info_name, rest, parent=context.parent).close()
    else:
        with contextlib.suppress(click.BadOptionUsage):  # a flag may be named without its value
            command.make_parser(context).parse_args([word for word in rest if word != "..."])


def all_options() -> set[str]:
    flags = {"--help", "--version", "--socket"}
    for name, _ in helps(hive, "hive"):
        flags |= {word for word in name.split() if word.startswith("--")}
    for name in (*OWN, *(operation.name.replace("_", "-") for operation in catalog.load())):
        if name != "hold":
            flags |= options_of_agent(name)
    for script in (ROOT / "scripts").iterdir():
        flags |= set(_OPTION.findall(script.read_text(encoding="utf-8")))
    return flags


DOCUMENTED = [said for said in documented_texts() if re.match(r"hive(-agent)? [^\s=]", said.text)]


@for_each("said", DOCUMENTED, lambda said: f"{said.place} {said.text}")
def test_every_documented_command_parses(said: DocumentedText) -> None:
    program, *words = words_of(said.text)
    try:
        check_agent(words) if program == "hive-agent" else check_hive(words, whole=said.whole)
    except click.exceptions.Exit:
        pass  # --help
    except click.ClickException as error:
        pytest.fail(f"{said.place}: {said.text}: {error.format_message()}")
    except AssertionError as error:
        pytest.fail(f"{said.place}: {said.text}: {error}")


def test_every_documented_flag_exists() -> None:
    """`--subtree-...` stood in the help of `budget group`, and the flag does not exist."""
    known = all_options() | FOREIGN
    odd = [f"{said.place}: {said.text}" for said in documented_texts()
           if (match_ := _OPTION.match(said.text)) and match_.group() not in known]  # fmt: skip
    assert odd == []


def test_the_documents_were_read() -> None:
    assert len(DOCUMENTED) > 300
    assert sum(said.whole for said in DOCUMENTED) > 100
    with pytest.raises(click.NoSuchOption):
        check_hive(["tree", "--nonsense"], whole=False)
    with pytest.raises(AssertionError, match="has no --nonsense"):
        check_agent(["send", "bob", "hi", "--nonsense"])


@for_each("page", ["claude-code", "codex", "opencode"])
def test_five_commands_lead_to_an_agent_on_each_coding_cli(page: str) -> None:
    text = (ROOT / f"docs/how-to/{page}.md").read_text()
    blocks = re.findall(r"(?:^    # hive .*\n)+", text, re.MULTILINE)
    commands = [line.strip().removeprefix("# ") for line in blocks[0].splitlines()]
    assert len(commands) <= 5
    assert commands[0].startswith("hive runtime install ")
    assert commands[-1] == "hive chat coder"
