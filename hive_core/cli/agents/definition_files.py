"""Files of definitions: Markdown with front matter, or the TOML of Codex."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from hive_core.cli.core.output import Row
from hive_core.errors import HiveError, InvalidArgument

if TYPE_CHECKING:
    from hive_core.model.agents.definition import ParsedDefinition

FOLDER: Final = Path("/etc/hive/agents")
FILE_MOST: Final = 1 << 20
_MARKS: Final = ("*.md", "*.toml")
_FRONT: Final = re.compile(r"---[ \t]*\n(.*?\n)---[ \t]*(?:\n|\Z)", re.DOTALL)
# `key: text` at the beginning of a line, where YAML reads the text as plain.
_PLAIN_LINE: Final = re.compile(r"([A-Za-z][A-Za-z0-9_-]*):[ \t]+([^\s\"'\[{>|&*!#%@`].*)")
_LENIENT: Final = "the front matter is not YAML; each line of it was read as a text"
_CODEX_TEXT: Final = "developer_instructions"


class DefinitionFile(NamedTuple):
    """What a file says, and the text for the agent."""

    definition: ParsedDefinition
    body: str


def definition_files(paths: Iterable[Path]) -> list[Path]:
    """The files of definitions at these places; without any, those of /etc/hive/agents."""
    places = list(paths) or [FOLDER]
    files: list[Path] = []
    for place in places:
        if not place.exists():
            raise InvalidArgument(f"{place} does not exist: name files or a folder of definitions")
        in_folder = (file for mark in _MARKS for file in place.glob(mark))
        files += sorted(in_folder) if place.is_dir() else [place]
    if not files:
        raise InvalidArgument(f"no {' or '.join(_MARKS)} in {', '.join(map(str, places))}")
    return files


def read_definition(file: Path, aliases: Collection[str] | None = None) -> DefinitionFile:
    """Read one file; InvalidArgument says what is wrong with it. `aliases`: models of the host."""
    from hive_core.model.agents.definition import parse_definition  # noqa: PLC0415 - slow to load

    text = _text(file)
    is_codex = file.suffix == ".toml"
    front, body, warnings = _codex_parts(text) if is_codex else _markdown_parts(text)
    definition = parse_definition(front, file.stem, aliases)
    if warnings:
        from dataclasses import replace  # noqa: PLC0415

        definition = replace(definition, warnings=(*warnings, *definition.warnings))
    return DefinitionFile(definition, body)


def findings(file: Path) -> Iterator[Row]:
    """The faults and warnings of one file."""
    try:
        definition, body = read_definition(file)
    except HiveError as error:
        yield {"file": str(file), "verdict": "fail", "text": str(error)}
        return
    for warning in definition.warnings:
        yield {"file": str(file), "verdict": "warn", "text": warning}
    if not body.strip():
        yield {"file": str(file), "verdict": "warn", "text": "it has no text for the agent"}


_Parts = tuple[Mapping[str, object], str, tuple[str, ...]]


def _text(file: Path) -> str:
    try:
        with file.open("rb") as data:
            content = data.read(FILE_MOST + 1)
        if len(content) > FILE_MOST:
            raise InvalidArgument(f"cannot read it: larger than {FILE_MOST} bytes")
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"cannot read it: {error}") from error


def _codex_parts(text: str) -> _Parts:
    try:
        front = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"cannot read it: {' '.join(str(error).split())}") from error
    body = front.pop(_CODEX_TEXT, "")
    if not isinstance(body, str):
        raise InvalidArgument(f"{_CODEX_TEXT}: must be a text", field=_CODEX_TEXT)
    return front, body.strip(), ()


def _markdown_parts(text: str) -> _Parts:
    match = _FRONT.match(text)
    if match is None:
        return {}, text.strip(), ()
    front, warnings = _front_matter(match[1])
    return front, text[match.end() :].strip(), warnings


def _front_matter(head: str) -> tuple[Mapping[str, object], tuple[str, ...]]:
    """The fields. Descriptions often have a colon inside, which YAML does not allow there."""
    import yaml  # noqa: PLC0415 - slow to load

    try:
        return _table(yaml.safe_load(head)), ()
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
    quoted = "\n".join(map(_quote_text, head.split("\n")))
    try:
        return _table(yaml.safe_load(quoted)), (_LENIENT,)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise InvalidArgument(f"cannot read it: {reason}") from None


def _quote_text(line: str) -> str:
    match = _PLAIN_LINE.fullmatch(line)
    return line if match is None else f"{match[1]}: {json.dumps(match[2].rstrip())}"


def _table(value: object) -> Mapping[str, object]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidArgument("the front matter is not a table")
    return {str(key): field for key, field in value.items()}
