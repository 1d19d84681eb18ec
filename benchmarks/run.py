"""`scripts/bench`: runs the benchmarks beside this file and shows what they measured.

A benchmark is a module with `run()`, which returns rows (report/rows.py says what stands in one).
They run one after another, in the order of their names.
"""

import argparse
import importlib.util
import json
import os
import platform
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
if __name__ == "__main__":  # started as a file: its folder gives way to the checkout's
    sys.path[:1] = [str(HERE.parent), str(HERE.parent / "tests")]

from benchmarks.report import page, plots  # noqa: E402 - after the path
from benchmarks.report.rows import Row, error_line, ratio  # noqa: E402
from benchmarks.report.table import plain  # noqa: E402

KNOWN = sorted(path.stem for path in HERE.glob("*.py") if path != Path(__file__).resolve())


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = _parse_arguments(arguments)
    report = json.loads(chosen.again.read_text()) if chosen.again else _run_benchmarks(chosen.names)
    print(plain(report["rows"]))
    if chosen.json:
        chosen.json.parent.mkdir(parents=True, exist_ok=True)
        chosen.json.write_text(json.dumps(report, indent=2) + "\n")
    if chosen.plots:
        plots.draw(report["rows"], chosen.plots)
    if chosen.page:
        chosen.page.write_text(page.fill_page(chosen.page.read_text(), report))
    return int(any("error" in row for row in report["rows"]))


def _parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=f"known: {' '.join(KNOWN)}")
    parser.add_argument("names", metavar="NAME", nargs="*", help="which benchmarks (all)")
    for option, metavar, text in (
        ("--json", "FILE", "also write the rows there"),
        ("--plots", "DIR", "also draw the curves there, as SVG"),
        ("--page", "FILE", "also put the figures into this page, between its marks"),
    ):
        parser.add_argument(option, metavar=metavar, type=Path, help=text)
    parser.add_argument(
        "--from", dest="again", metavar="FILE", type=Path,
        help="measure nothing: take the rows that --json wrote there",
    )  # fmt: skip
    chosen = parser.parse_args(arguments)
    if strangers := set(chosen.names) - set(KNOWN):
        parser.error(f"no such benchmark: {' '.join(sorted(strangers))}")
    return chosen


def _run_benchmarks(names: Sequence[str]) -> dict[str, Any]:
    rows: list[Row] = []
    for name in sorted(names or KNOWN):
        print(f"bench: {name}", file=sys.stderr)
        rows += [{"benchmark": name, **row, **ratio(row)} for row in _rows(name)]
    return {"machine": _machine(), "rows": rows}


def _rows(name: str) -> list[Row]:
    """What a benchmark measured. One that fails takes none of the others with it."""
    try:
        return _run(name)
    except Exception as problem:  # noqa: BLE001 - reported, and in the exit status
        traceback.print_exc()
        return [{"name": "failed", "error": error_line(problem)}]


def _run(name: str) -> list[Row]:
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rows: list[Row] = module.run()
    return rows


def _machine() -> dict[str, object]:
    """A figure means nothing without it."""
    return {"cores": os.cpu_count(), "kernel": platform.release(), "python": sys.version.split()[0]}


if __name__ == "__main__":
    sys.exit(main())
