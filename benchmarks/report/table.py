"""The rows as a table: for the terminal, and for the page."""

from collections.abc import Iterable

from benchmarks.report.rows import Row

COLUMNS = ("benchmark", "name", "value", "unit", "peer", "peer_value", "ratio", "aim", "met")
NUMBERS = {"value", "peer_value", "ratio"}


def plain(rows: Iterable[Row]) -> str:
    """Under the names of the columns; numbers to the right, words to the left."""
    lines = [COLUMNS, *(tuple(cell(row, name) for name in COLUMNS) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    aligned = (
        "  ".join(
            text.rjust(width) if name in NUMBERS else text.ljust(width)
            for name, text, width in zip(COLUMNS, line, widths, strict=True)
        )
        for line in lines
    )
    return "\n".join(line.rstrip() for line in aligned)


def markdown(rows: Iterable[Row]) -> str:
    """For the page: figure, peer, ratio, aim, and whether it is met."""
    lines = ["| what | figure | peer | ratio | aim | |", "|---|---:|---|---:|---|---|"]
    for row in rows:
        peer = " ".join(filter(None, (cell(row, "peer"), cell(row, "peer_value"))))
        figure = " ".join(filter(None, (cell(row, "value"), cell(row, "unit"))))
        shown = (cell(row, "name"), figure, peer, *(cell(row, n) for n in ("ratio", "aim", "met")))
        lines.append("| " + " | ".join(text.replace("|", "\\|") for text in shown) + " |")
    return "\n".join(lines)


def cell(row: Row, name: str) -> str:
    value = row.get(name)
    if name == "name" and "error" in row:
        return f"{value}: {row['error']}"
    if name == "peer_value" and "peer_error" in row:
        return f"({row['peer_error']})"
    if name == "met" and "aim" in row:
        return {True: "met", False: "short"}.get(bool(value), "") if "met" in row else "open"
    return number(value) if value is not None else ""


def number(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
