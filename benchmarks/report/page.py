"""The figures in the page of figures.

The page is written by hand but for what stands between two marks, `<!-- figures of NAME -->` and
`<!-- end -->`: there go the rows of that benchmark and its curves, whose points are in the picture
only. `<!-- figures of the machine -->` is what they were taken on, `<!-- figures of the aims -->`
every row of any benchmark that has an aim. Where only some benchmarks ran, the aims of the
others stay as they are.
"""

import re
from collections.abc import Mapping
from typing import Any

from benchmarks.report.table import markdown

_PART = re.compile(r"(<!-- figures of (?P<name>[a-z_ ]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def fill_page(page: str, report: Mapping[str, Any]) -> str:
    """The page with these figures. A part of which the report has nothing stays as it is.

    A benchmark that has no part yet gets one at the end, to be explained by hand.
    """
    measured = dict.fromkeys(str(row["benchmark"]) for row in report["rows"])
    for name in measured:
        if name not in names(page):
            page += f"\n## {name}\n\n<!-- figures of {name} -->\n<!-- end -->\n"
    return _PART.sub(lambda part: _part(part, report), page)


def names(page: str) -> list[str]:
    return [part["name"] for part in _PART.finditer(page)]


def _part(part: re.Match[str], report: Mapping[str, Any]) -> str:
    if part["name"] == "the machine":
        text = ", ".join(f"{name} {value}" for name, value in report["machine"].items())
    elif part["name"] == "the aims":
        text = _merge_aims(part[0], markdown(row for row in report["rows"] if "aim" in row))
    else:
        text = _section([row for row in report["rows"] if row["benchmark"] == part["name"]])
    return f"{part[1]}\n{text}\n\n{part[3]}" if text else part[0]


def _merge_aims(before: str, table: str) -> str:
    """The new table, with the rows of before whose name it does not have."""
    new = table.splitlines()
    known = {_first_cell(line) for line in new}
    old = [line for line in before.splitlines() if line.startswith("| ")]
    return "\n".join(
        [*new[:2], *(line for line in old if _first_cell(line) not in known), *new[2:]]
    )


def _first_cell(line: str) -> str:
    return line.split(" | ", maxsplit=1)[0]


def _section(rows: list[dict[str, Any]]) -> str:
    shown = [row for row in rows if "plot" not in row or "aim" in row]
    plots = dict.fromkeys(str(row["plot"]) for row in rows if "plot" in row)
    table = [markdown(shown)] if shown else []
    return "\n\n".join([*table, *(f"![{name}](performance/{name}.svg)" for name in plots)])
