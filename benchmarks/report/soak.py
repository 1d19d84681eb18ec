"""The samples of a soak as a small SVG: python -m benchmarks.report.soak SAMPLES.jsonl OUT.svg"""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.report.plots import STYLE, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Sample = dict[str, Any]
PANELS = (("MiB resident", "rss"), ("descriptors", "fds"))


def draw(samples: list[Sample], path: Path) -> None:
    """Memory and descriptors of both daemons and the size of the WAL over the minutes."""
    import matplotlib as mpl  # noqa: PLC0415 - half a second, which only the plot costs

    mpl.use("svg")
    from matplotlib import pyplot  # noqa: PLC0415

    with mpl.rc_context(STYLE):
        figure, axes = pyplot.subplots(3, 1, figsize=(7, 6), sharex=True, layout="constrained")
        for panel, (label, value) in zip(axes, PANELS, strict=False):
            for unit in ("hived", "privd"):
                _line(panel, samples, unit, value)
            panel.set_ylabel(label)
            panel.legend()
        axes[2].plot(_minutes(samples, samples), [sample["wal"] for sample in samples], label="WAL")
        axes[2].set_ylabel("MiB of WAL")
        axes[2].set_xlabel("minutes")
        for panel in axes:
            panel.set_ylim(bottom=0)
        figure.savefig(path, metadata={"Date": None, "Creator": None})
        pyplot.close(figure)
    tidy(path)


def _line(axes: "Axes", samples: list[Sample], unit: str, value: str) -> None:
    """Of one daemon; a new life begins a new stretch."""
    seen = [sample for sample in samples if sample[unit]]
    values = [sample[unit][value] for sample in seen]
    axes.plot(_minutes(seen, samples), values, label="hived" if unit == "hived" else "hive-privd")


def _minutes(some: list[Sample], samples: list[Sample]) -> list[float]:
    return [(sample["at"] - samples[0]["at"]) / 60 for sample in some]


if __name__ == "__main__":
    lines = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
    draw([json.loads(line) for line in lines], Path(sys.argv[2]))
