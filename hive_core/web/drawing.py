"""Drawings as SVG without style and script. Each has a title, and its numbers stand beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

WIDTH: Final = 120
HEIGHT: Final = 24


def bar(share: float, title: str) -> Markup:
    """A bar of a share between 0 and 1."""
    width = round(max(0.0, min(1.0, share)) * WIDTH)
    return Markup(
        '<svg class="bar" viewBox="0 0 {0} 8" width="{0}" height="8" role="img"><title>{1}</title>'
        '<rect class="track" width="{0}" height="8"></rect>'
        '<rect class="fill" width="{2}" height="8"></rect></svg>'
    ).format(WIDTH, title, width)


def sparkline(values: Sequence[float], title: str) -> Markup:
    """A line through the values, the newest at the right."""
    top = max([*values, 1e-9])
    step = WIDTH / max(1, len(values) - 1)
    points = " ".join(
        f"{at * step:.1f},{HEIGHT - value / top * (HEIGHT - 2) - 1:.1f}"
        for at, value in enumerate(values)
    )
    return Markup(
        '<svg class="spark" viewBox="0 0 {0} {1}" width="{0}" height="{1}" role="img">'
        '<title>{2}</title><polyline points="{3}"></polyline></svg>'
    ).format(WIDTH, HEIGHT, title, points)
