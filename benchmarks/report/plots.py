"""The curves as small SVGs. The same rows make the same bytes, so that a diff shows a change."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.report.rows import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STYLE = {
    "svg.fonttype": "none",  # text stays text: small, and found by a search
    "svg.hashsalt": "hive",  # ids are the same each time
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def draw(rows: Iterable[Row], folder: Path) -> list[Path]:
    """One picture for each name in `plot`."""
    points = [row for row in rows if "plot" in row and "error" not in row]
    folder.mkdir(parents=True, exist_ok=True)
    names = dict.fromkeys(str(row["plot"]) for row in points)
    return [
        _picture(folder / f"{name}.svg", [row for row in points if row["plot"] == name])
        for name in names
    ]


def _picture(path: Path, points: list[Row]) -> Path:
    import matplotlib as mpl  # noqa: PLC0415 - half a second, which only the plots cost

    mpl.use("svg")
    from matplotlib import pyplot  # noqa: PLC0415

    with mpl.rc_context(STYLE):
        figure, axes = pyplot.subplots(figsize=(6, 3.2), layout="constrained")
        for line in dict.fromkeys(str(row["line"]) for row in points):
            mine = [row for row in points if row["line"] == line]
            axes.plot([row["x"] for row in mine], [row["value"] for row in mine], "o-", label=line)
        _axes(axes, points)
        figure.savefig(path, metadata={"Date": None, "Creator": None})
        pyplot.close(figure)
    tidy(path)
    return path


def _axes(axes: "Axes", points: list[Row]) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    values = [float(str(row["value"])) for row in points]
    # A curve that is flat shall look flat: never less than two powers of ten are shown.
    low, high = min(values), max(values)
    middle = (low * high) ** 0.5
    axes.set_ylim(min(low / 1.5, middle / 10), max(high * 1.5, middle * 10))
    axes.set_xlabel(str(points[0]["x_unit"]))
    axes.set_ylabel(str(points[0]["unit"]))
    axes.legend(frameon=False)


def tidy(path: Path) -> None:
    """matplotlib leaves blanks at the ends of lines, which git complains of."""
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("".join(f"{line.rstrip()}\n" for line in lines), encoding="utf-8")
