"""The difference that a commit makes, as lines for people; git attributes have no effect.

Every line names its file and has its numbers; its text is escaped (plan/printable.py). Bytes that
are not UTF-8 are shown too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from hive_core.jobs import lines
from hive_core.jobs.outcome import JobRefused
from hive_core.jobs.walk import Files
from hive_core.plan.printable import escape_bytes

Row = dict[str, object]
File = tuple[bool, bytes]
_FRAME: Final = 8  # bytes that count for a line besides its text
_NO_END: Final = "the line above has no line break at its end"


@dataclass
class FileDiff:
    """Rows of the difference, and a summary of each file; refused above `most` bytes."""

    old: Files
    new: Files
    most: int
    changed: list[Row] = field(default_factory=list)
    weight: int = 0

    def rows(self) -> Iterator[Row]:
        for path in sorted(self.old.keys() | self.new.keys()):
            before, after = self.old.get(path), self.new.get(path)
            if before != after:
                for row in self._file(path, before, after):
                    self.weight += _FRAME + len(str(row["text"]).encode())
                    self._check_weight(self.weight, path)
                    yield row

    def _check_weight(self, weight: int, path: str) -> None:
        if weight > self.most:
            raise JobRefused("diff", f"the difference is larger than {self.most} bytes", path)

    def _file(self, path: str, before: File | None, after: File | None) -> Iterator[Row]:
        old, new = _split(before), _split(after)
        summary: Row = {
            "path": path, "kind": _kind(before, after), "added": 0, "removed": 0,
            "binary": any(file is not None and _binary(file[1]) for file in (before, after)),
        }  # fmt: skip
        self.changed.append(summary)
        yield _row(path, "@", _about(before, after))
        runs = lines.runs(old, new)
        # Known before any line is written: else a hostile file costs seconds before it is refused.
        self._check_weight(self.weight + _least_weight(runs, old, new), path)
        for passage in lines.passages(runs):
            if passage[0].old or passage[0].new:
                yield _row(path, "@", f"from line {max(passage[0].new, passage[0].old) + 1}")
            for sign, number, text in _signed_lines(passage, old, new):
                if sign in "+-":
                    key = "added" if sign == "+" else "removed"
                    summary[key] = int(str(summary[key])) + 1
                yield {
                    "path": path,
                    **number,
                    "sign": sign,
                    "text": escape_bytes(text.removesuffix(b"\n")),
                }
                if not text.endswith(b"\n"):
                    yield _row(path, "@", _NO_END)


def _least_weight(runs: Sequence[lines.LineRun], old: list[bytes], new: list[bytes]) -> int:
    """What the changed lines weigh at least: escaping makes no line shorter."""
    changed = (
        line
        for run in runs
        if not run.same
        for line in (*old[run.old : run.old_end], *new[run.new : run.new_end])
    )
    return sum(_FRAME + len(line.removesuffix(b"\n")) for line in changed)


def _signed_lines(
    passage: Sequence[lines.LineRun], old: list[bytes], new: list[bytes]
) -> Iterator[tuple[str, Row, bytes]]:
    for run in passage:
        if run.same:
            for step, text in enumerate(old[run.old : run.old_end]):
                yield " ", {"old": run.old + step + 1, "new": run.new + step + 1}, text
            continue
        for step, text in enumerate(old[run.old : run.old_end]):
            yield "-", {"old": run.old + step + 1, "new": None}, text
        for step, text in enumerate(new[run.new : run.new_end]):
            yield "+", {"old": None, "new": run.new + step + 1}, text


def _split(file: File | None) -> list[bytes]:
    """Lines with their ends. Only a line feed ends a line."""
    if file is None or not file[1]:
        return []
    parts = file[1].split(b"\n")
    whole = [part + b"\n" for part in parts[:-1]]
    return [*whole, parts[-1]] if parts[-1] else whole


def _row(path: str, sign: str, text: str) -> Row:
    return {"path": path, "old": None, "new": None, "sign": sign, "text": text}


def _kind(before: File | None, after: File | None) -> str:
    if before is None:
        return "added"
    if after is None:
        return "removed"
    return "mode" if before[1] == after[1] else "changed"


def _about(before: File | None, after: File | None) -> str:
    """One line about the change of the file as a whole."""
    if before is None and after is not None:
        return f"added, {len(after[1])} bytes" + ", executable" * after[0]
    if after is None:
        return "removed"
    assert before is not None  # noqa: S101 - one of them exists
    texts = ["changed"] if before[1] != after[1] else []
    if before[0] != after[0]:
        texts.append("becomes executable" if after[0] else "is no longer executable")
    return ", ".join(texts)


def _binary(data: bytes) -> bool:
    try:
        return "\0" in data.decode()
    except UnicodeDecodeError:
        return True
