"""Drawings as SVG without style and script. Each has a title, and its numbers stand beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from hive_core.plan.printable import escape

WIDTH: Final = 120
HEIGHT: Final = 24
# Where a strip of a lane is, and how high.
STRIPS: Final = {
    "t-run": (22, 2), "t-work": (0, 7), "t-wait": (2, 3), "t-turn": (8, 4), "t-model": (13, 4),
    "t-tool": (18, 3), "t-fault": (0, 24),
}  # fmt: skip


def bar(share: float, title: str) -> Markup:
    """A bar of a share between 0 and 1."""
    width = round(max(0.0, min(1.0, share)) * WIDTH)
    return Markup(
        '<svg class="bar" viewBox="0 0 {0} 8" width="{0}" height="8" role="img"><title>{1}</title>'
        '<rect class="track" width="{0}" height="8"></rect>'
        '<rect class="fill" width="{2}" height="8"></rect></svg>'
    ).format(WIDTH, title, width)


def sparkline(values: Sequence[float], title: str) -> Markup:
    """A line through the values from 0 to the greatest, the newest at the right."""
    return Markup(
        '<svg class="spark" viewBox="0 0 {0} {1}" preserveAspectRatio="none" role="img">'
        '<title>{2}</title><polyline points="{3}"></polyline></svg>'
    ).format(WIDTH, HEIGHT, title, _points(values))


def burn_down(left: Sequence[float], title: str) -> Markup:
    """What was left of an amount as a line, the newest at the right."""
    return Markup(
        '<svg class="left" viewBox="0 0 {0} {1}" width="{0}" height="{1}" role="img">'
        '<title>{2}</title><polygon points="0,{1} {3} {0},{1}"></polygon></svg>'
    ).format(WIDTH, HEIGHT, title, _points(left))


def lane(strips: Sequence[tuple[str, Sequence[range]]], title: str, steps: int) -> Markup:
    """A line of time: for each strip its class and the steps that it covers, drawn as one path."""
    paths = Markup("").join(
        Markup('<path class="{}" d="{}"></path>').format(
            name,
            " ".join(f"M{part.start} {at}h{len(part)}v{height}h-{len(part)}z" for part in parts),
        )
        for name, parts in strips
        for at, height in [STRIPS[name.partition(" ")[0]]]
        if parts
    )
    return Markup(
        '<svg class="lane" viewBox="0 0 {0} {1}" preserveAspectRatio="none" role="img">'
        "<title>{2}</title>{3}</svg>"
    ).format(steps, HEIGHT, escape(title), paths)


def _points(values: Sequence[float]) -> str:
    """The points of a line through values from 0 to the greatest."""
    top = max([*values, 1e-9])
    step = WIDTH / max(1, len(values) - 1)
    return " ".join(
        f"{at * step:.1f},{HEIGHT - value / top * (HEIGHT - 2) - 1:.1f}"
        for at, value in enumerate(values)
    )
