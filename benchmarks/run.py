"""`scripts/bench`: runs the benchmarks beside this file and shows what they measured.

A benchmark is a module with `run()`, which returns rows. A row has `name`, `value` and `unit`, and
where there is something to compare with also `peer`, `peer_value` and `ratio` (ours to theirs).
"""

import argparse
import importlib.util
import json
import os
import platform
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
COLUMNS = ("benchmark", "name", "value", "unit", "peer", "peer_value", "ratio")

Row = dict[str, object]


def main(arguments: Sequence[str] | None = None) -> int:
    known = sorted(path.stem for path in HERE.glob("*.py") if path != Path(__file__).resolve())
    parser = argparse.ArgumentParser(prog="scripts/bench", description=f"known: {' '.join(known)}")
    parser.add_argument("names", metavar="NAME", nargs="*", help="which benchmarks (all)")
    parser.add_argument("--json", metavar="FILE", type=Path, help="also write the rows there")
    chosen = parser.parse_args(arguments)
    if strangers := set(chosen.names) - set(known):
        parser.error(f"no such benchmark: {' '.join(sorted(strangers))}")
    rows: list[Row] = []
    for name in chosen.names or known:
        print(f"bench: {name}", file=sys.stderr)
        rows += [{"benchmark": name, **row} for row in _run(name)]
    print(table(rows))
    if chosen.json:
        report = {"machine": _machine(), "rows": rows}
        chosen.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0


def table(rows: Iterable[Row]) -> str:
    """The rows under the names of the columns; numbers to the right, words to the left."""
    lines = [COLUMNS, *(tuple(_text(row.get(name)) for name in COLUMNS) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    numbers = {"value", "peer_value", "ratio"}
    aligned = (
        "  ".join(
            cell.rjust(width) if name in numbers else cell.ljust(width)
            for name, cell, width in zip(COLUMNS, line, widths, strict=True)
        )
        for line in lines
    )
    return "\n".join(line.rstrip() for line in aligned)


def _run(name: str) -> list[Row]:
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rows: list[Row] = module.run()
    return rows


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _machine() -> dict[str, object]:
    """A figure means nothing without it."""
    return {"cores": os.cpu_count(), "kernel": platform.release(), "python": sys.version.split()[0]}


if __name__ == "__main__":
    sys.path[:1] = [str(HERE.parent), str(HERE.parent / "tests")]
    sys.exit(main())
