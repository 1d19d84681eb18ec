"""`manifest.toml` of the prompts: of which files the system prompt of an agent consists."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from hive_core.errors import InvalidArgument

MANIFEST: Final = "manifest.toml"
_LISTS: Final = {"roles": "role", "profiles": "profile", "phases": "phase"}
_CONDITIONS: Final = ("capability", "tool", "value")
_KEYS: Final = ("file", "override", "when", *_LISTS)
_OPERATOR: Final = "operator"


@dataclass(frozen=True, slots=True)
class PromptSegment:
    """One file of the system prompt, and the agents that it is for."""

    file: str
    lists: Mapping[str, tuple[str, ...]]
    when: Mapping[str, str]

    def applies_to(self, values: Mapping[str, object]) -> bool:
        """Whether the segment is part of the prompt for this context."""
        has_place = all(str(values[_LISTS[key]]) in words for key, words in self.lists.items())
        return has_place and all(_holds(values, key, word) for key, word in self.when.items())


@dataclass(frozen=True, slots=True)
class PromptManifest:
    """`texts`: files that are rendered by name. `operators`: those that no agent overrides."""

    segments: tuple[PromptSegment, ...]
    texts: tuple[str, ...]
    operators: frozenset[str]


def parse_manifest(text: str) -> PromptManifest:
    """The manifest; InvalidArgument names the first wrong key."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidArgument(f"{MANIFEST}: {error}", field=MANIFEST) from None
    _check_keys(data, ("segment", "text"), "")
    segments = [_segment(row, f"segment {at}") for at, row in _rows(data, "segment")]
    texts = [_text_file(row, f"text {at}") for at, row in _rows(data, "text")]
    rows = [row for kind in ("segment", "text") for _, row in _rows(data, kind)]
    operators = (str(row["file"]) for row in rows if row.get("override") == _OPERATOR)
    return PromptManifest(tuple(segments), tuple(texts), frozenset({MANIFEST, *operators}))


def _rows(data: Mapping[str, object], kind: str) -> Iterable[tuple[int, Mapping[str, object]]]:
    rows = data.get(kind, [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise _fault(kind, f"must be tables [[{kind}]]")
    return enumerate(rows, 1)


def _segment(row: Mapping[str, object], place: str) -> PromptSegment:
    _check_keys(row, _KEYS, place)
    lists = {key: _words(row[key], f"{place}.{key}") for key in _LISTS if key in row}
    when = row.get("when", {})
    if not isinstance(when, dict):
        raise _fault(f"{place}.when", "must be a table")
    _check_keys(when, _CONDITIONS, f"{place}.when")
    words = {key: _word(value, f"{place}.when.{key}") for key, value in when.items()}
    return PromptSegment(_file(row, place), lists, words)


def _text_file(row: Mapping[str, object], place: str) -> str:
    _check_keys(row, ("file", "override"), place)
    return _file(row, place)


def _file(row: Mapping[str, object], place: str) -> str:
    if row.get("override", _OPERATOR) != _OPERATOR:
        raise _fault(f"{place}.override", f'must be "{_OPERATOR}"')
    return _word(row.get("file"), f"{place}.file")


def _word(value: object, place: str) -> str:
    if not isinstance(value, str) or not value:
        raise _fault(place, "must be a word")
    return value


def _words(value: object, place: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise _fault(place, "must be a list of words")
    return tuple(value)


def _check_keys(row: Mapping[str, object], known: Collection[str], place: str) -> None:
    for key in row:
        if key not in known:
            raise _fault(f"{place}.{key}".lstrip("."), f"unknown key; there are {', '.join(known)}")


def _fault(place: str, reason: str) -> InvalidArgument:
    return InvalidArgument(f"{MANIFEST}: {place}: {reason}", field=place)


def _holds(values: Mapping[str, object], key: str, word: str) -> bool:
    if key == "value":
        return bool(values.get(word))
    if key == "tool":
        tools = values["tools"]
        return isinstance(tools, Mapping) and word in tools
    held = values["capabilities"]
    return isinstance(held, Collection) and any(
        capability == word or str(capability).startswith(f"{word}:") for capability in held
    )
