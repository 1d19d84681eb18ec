"""Row R12: frame reader and request schema take any bytes; what was found once stays found."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from each import for_each
from fuzz.hostile import FIELDS, METHODS, ODD, RAW, frame
from fuzz.oracle import examine
from hypothesis import given, settings
from hypothesis import strategies as st
from long import times

from hive_core.varlink import FrameReader

CORPUS = sorted(Path(__file__).with_name("corpus").iterdir())
MANY = settings(max_examples=times(100, 30_000))
# Pieces of calls in any order: nearer to a call than bytes, further from one than a dictionary.
PIECES = st.lists(
    st.sampled_from(METHODS)
    | st.sampled_from(FIELDS)
    | st.sampled_from(RAW)
    | st.sampled_from([str(value) for value in ODD if len(str(value)) < 100])
    | st.sampled_from([*'{}[]",:\\ ', '"method":', '"parameters":{', '"more":true', "null"]),
    max_size=30,
).map("".join)


@for_each("path", CORPUS)
def test_every_saved_input_is_a_call_or_a_declared_error(path: Path) -> None:
    for word in path.read_bytes().split(b"\0"):
        examine(word)


@pytest.mark.sized
@MANY
@given(st.binary(max_size=300) | PIECES.map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_are_a_call_or_a_declared_error(data: bytes) -> None:
    examine(data)


@pytest.mark.sized
@MANY
@given(st.integers(0, 1 << 32))
def test_hostile_frames_are_calls_or_declared_errors(seed: int) -> None:
    examine(frame(Random(seed)))  # noqa: S311 - the same seed says the same


@pytest.mark.sized
@MANY
@given(st.lists(st.binary(max_size=40), max_size=8), st.integers(1, 50))
def test_frames_are_split_at_every_nul_for_any_chunks(parts: list[bytes], size: int) -> None:
    data, reader, frames = b"\0".join(parts), FrameReader(), list[bytes]()
    for at in range(0, len(data), size):
        frames += reader.feed(data[at : at + size])
    *whole, rest = data.split(b"\0")
    assert frames == whole
    assert reader.size == len(rest)
