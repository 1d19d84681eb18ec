"""The difference of two texts, line by line, in bounded time.

It uses Myers' algorithm (http://www.xmailserver.org/diff2.pdf) for similar texts. For others, lines
that occur once in each serve as anchors, and the text between them is replaced as a whole. The
result is always correct and complete; at worst it shows equal lines as removed and added.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

_STEPS: Final = 400  # edits that Myers' algorithm tries; an eighth of it between anchors
_NEAR: Final = 3  # lines shown around a change


class LineRun(NamedTuple):
    """Lines `old` to `old_end` became `new` to `new_end`; `same` if they are equal."""

    same: bool
    old: int
    old_end: int
    new: int
    new_end: int


Lines = Sequence[bytes]


def runs(old: Lines, new: Lines) -> list[LineRun]:
    """Both texts as alternating runs of equal and of different lines."""
    result: list[LineRun] = []
    at_old = at_new = 0
    ends = [(len(old), len(new), 0)]
    for start_old, start_new, count in [*_join(_blocks(old, new, (0, 0), _STEPS)), *ends]:
        if at_old < start_old or at_new < start_new:
            result.append(
                LineRun(same=False, old=at_old, old_end=start_old, new=at_new, new_end=start_new)
            )
        at_old, at_new = start_old + count, start_new + count
        if count:
            result.append(
                LineRun(same=True, old=start_old, old_end=at_old, new=start_new, new_end=at_new)
            )
    return result


def passages(differences: Sequence[LineRun]) -> Iterator[list[LineRun]]:
    """Changes with a few lines of context; other lines are left out."""
    passage: list[LineRun] = []
    for number, run in enumerate(differences):
        if not run.same:
            passage.append(run)
            continue
        first, last = number == 0, number == len(differences) - 1
        length = run.old_end - run.old
        if not first and not last and length <= 2 * _NEAR:
            passage.append(run)
            continue
        if not first:
            near = min(_NEAR, length)
            yield [*passage, run._replace(old_end=run.old + near, new_end=run.new + near)]
        near = min(_NEAR, length)
        passage = [] if last else [run._replace(old=run.old_end - near, new=run.new_end - near)]
    if any(not run.same for run in passage):
        yield passage


Block = tuple[int, int, int]


def _join(blocks: Iterator[Block]) -> Iterator[Block]:
    """Join blocks that follow each other without a gap."""
    before: Block | None = None
    for old, new, count in blocks:
        if before and (before[0] + before[2], before[1] + before[2]) == (old, new):
            before = (before[0], before[1], before[2] + count)
            continue
        if before:
            yield before
        before = (old, new, count)
    if before:
        yield before


def _blocks(old: Lines, new: Lines, at: tuple[int, int], steps: int) -> Iterator[Block]:
    """Blocks of equal lines: the start in both texts, and the length."""
    head = _common(zip(old, new, strict=False))
    tail = _common(zip(reversed(old[head:]), reversed(new[head:]), strict=False))
    if head:
        yield *at, head
    start = at[0] + head, at[1] + head
    mine, theirs = old[head : len(old) - tail], new[head : len(new) - tail]
    if mine and theirs:
        near = _myers(mine, theirs, steps)
        if near is None:
            near = list(_split_at_anchors(mine, theirs, steps)) if steps else []
        yield from ((start[0] + x, start[1] + y, count) for x, y, count in near)
    if tail:
        yield start[0] + len(mine), start[1] + len(theirs), tail


def _common(pairs: Iterator[tuple[bytes, bytes]]) -> int:
    count = 0
    for one, other in pairs:
        if one != other:
            break
        count += 1
    return count


def _split_at_anchors(old: Lines, new: Lines, steps: int) -> Iterator[Block]:
    """Split at lines that occur once in each text, as far as their order is the same."""
    anchors = _anchors(old, new)
    if not anchors:
        return
    for (x, y), (next_x, next_y) in pairwise([(-1, -1), *anchors, (len(old), len(new))]):
        if x >= 0:
            yield x, y, 1
        between = old[x + 1 : next_x], new[y + 1 : next_y]
        if all(between):
            yield from _blocks(*between, (x + 1, y + 1), steps // 8)


def _anchors(old: Lines, new: Lines) -> list[tuple[int, int]]:
    """The longest increasing sequence of such lines, by patience sorting."""
    once = {line for line, count in Counter(old).items() if count == 1}
    once &= {line for line, count in Counter(new).items() if count == 1}
    places = {line: number for number, line in enumerate(new) if line in once}
    pairs = [(number, places[line]) for number, line in enumerate(old) if line in once]
    tops: list[int] = []
    best: list[int] = []  # which pair ends the best sequence of each length
    back: list[int] = []
    for number, (_, y) in enumerate(pairs):
        length = bisect_left(tops, y)
        tops[length : length + 1] = [y]
        best[length : length + 1] = [number]
        back.append(best[length - 1] if length else -1)
    row, at = [], best[-1] if best else -1
    while at >= 0:
        row.append(pairs[at])
        at = back[at]
    return row[::-1]


def _myers(old: Lines, new: Lines, steps: int) -> list[Block] | None:
    """Blocks of the shortest edit; None if it has too many steps."""
    width, height = len(old), len(new)
    reach = {1: 0}
    trail: list[dict[int, int]] = []
    for step in range(min(steps, width + height) + 1):
        trail.append(dict(reach))
        for diagonal in range(-step, step + 1, 2):
            down = diagonal == -step or (
                diagonal != step and reach[diagonal - 1] < reach[diagonal + 1]
            )
            x = reach[diagonal + 1] if down else reach[diagonal - 1] + 1
            y = x - diagonal
            while x < width and y < height and old[x] == new[y]:
                x, y = x + 1, y + 1
            reach[diagonal] = x
            if x >= width and y >= height:
                return _trace_back(trail, width, height)
    return None


def _trace_back(trail: list[dict[int, int]], x: int, y: int) -> list[Block]:
    """Follow the trail back, and collect the blocks of equal lines."""
    blocks: list[Block] = []
    for step in range(len(trail) - 1, -1, -1):
        reach, diagonal = trail[step], x - y
        down = diagonal == -step or (diagonal != step and reach[diagonal - 1] < reach[diagonal + 1])
        before = diagonal + 1 if down else diagonal - 1
        from_x = reach[before]
        from_y = from_x - before
        start = from_x if down else from_x + 1
        if x > start:
            blocks.append((start, start - diagonal, x - start))
        x, y = from_x, from_y
    return blocks[::-1]
