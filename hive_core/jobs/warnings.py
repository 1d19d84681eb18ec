"""Warnings for the approver of a commit. They refuse nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from hive_core.plan.homoglyphs import confusable_text
from hive_core.plan.printable import escape, hidden_characters

MOST: Final = 60
_TEXT_MOST: Final = 300
_LFS: Final = b"version https://git-lfs.github.com/spec/"
_SECRET: Final = re.compile(
    rb"-----BEGIN [A-Z ]*PRIVATE KEY-----|\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{36}"
    rb"|\bsk-[A-Za-z0-9_-]{32,}|\bxox[abprs]-[A-Za-z0-9-]{10,}"
)
_FAR: Final = re.compile(r"\S[ \t]{60,}\S")
_NO_EFFECT: Final = {
    ".gitattributes": "has no effect: files are shown and deployed as they are",
    ".gitmodules": "has no effect: submodules are refused",
    ".lfsconfig": "has no effect: large files are not fetched from elsewhere",
    "flake.nix": "has no effect: only the module agent.nix is built",
}


class Warnings:
    """Collects warnings: the first ones, each once and on one line, and the number of others."""

    def __init__(self) -> None:
        self._some: dict[str, None] = {}
        self._more = 0

    def add(self, texts: Iterable[str]) -> None:
        for text in texts:
            if len(self._some) < MOST:
                self._some.setdefault(escape(text)[:_TEXT_MOST])
            else:
                self._more += 1

    def list(self) -> list[str]:
        return [*self._some, *[f"and {self._more} more like these"] * bool(self._more)]


def about_file(path: str, data: bytes) -> Iterator[str]:
    """Warnings about a whole file."""
    if text := _NO_EFFECT.get(path.rpartition("/")[2]):
        yield f"{path}: {text}"
    if data.startswith(_LFS):
        yield f"{path}: is a pointer to a large file (Git LFS), and is deployed as it is"
    if _SECRET.search(data):
        yield f"{path}: may contain a secret, which every reader of the repository can see"


def about_text(place: str, text: str) -> Iterator[str]:
    """Warnings about one line, which is escaped already."""
    if codes := hidden_characters(text):
        yield f"{place}: hidden characters: {', '.join(codes[:5])}"
    for reason in confusable_text(text):
        yield f"{place}: {reason}"
    if _FAR.search(text):
        yield f"{place}: has text far to the right"
