"""The head of a CONNECT: in any pieces the same, and any bytes are one or are answered."""

from __future__ import annotations

from http import HTTPStatus
from itertools import pairwise
from pathlib import Path

import pytest
from fixtures.egress import EgressHost, run_egress
from hypothesis import given
from hypothesis import strategies as st

from hive_core.egress.connect import HEAD_MOST, ConnectRefused, HeadReader, parse_head
from hive_core.model.wire.egress import EgressTarget

GOOD = b"CONNECT www.example.org:443 HTTP/1.1\r\nHost: www.example.org:443\r\nUser-Agent: x\r\n\r\n"
HEADERS = st.lists(st.sampled_from([
    b"Host: x", b"Proxy-Connection: keep-alive", b"X: \t y", b"X:", b" folded", b"no colon",
    b"Content-Length: 3", b"Transfer-Encoding: chunked", b"X: \x00", b"X:\n", b"a b: c", b"",
]), max_size=4)  # fmt: skip
LINES = st.sampled_from([
    b"CONNECT a.example.org:443 HTTP/1.1", b"CONNECT a.example.org:443 HTTP/1.0",
    b"connect a.example.org:443 HTTP/1.1", b"CONNECT a.example.org HTTP/1.1", b"",
    b"CONNECT  a.example.org:443 HTTP/1.1", b"GET http://a.example.org/ HTTP/1.1",
    b"CONNECT a.example.org:443 HTTP/2", b"CONNECT a\xff:443 HTTP/1.1",
    b"CONNECT http://x:1 HTTP/1.1",
])  # fmt: skip


def answer(head: bytes) -> EgressTarget | HTTPStatus:
    try:
        return parse_head(head)
    except ConnectRefused as refusal:
        return refusal.status


@given(st.lists(st.integers(0, len(GOOD) + 5), max_size=10))
def test_the_pieces_of_a_head_make_no_difference(cuts: list[int]) -> None:
    data, reader, target = GOOD + b"\x16\x03\x01\r\n\r\n", HeadReader(), None
    received = 0
    places = [0, *sorted(cuts), len(data)]
    for start, end in pairwise(places):
        if target is None:
            target = reader.feed(data[start:end])
            received = end
    assert target == EgressTarget("www.example.org", 443)
    assert reader.rest == data[len(GOOD) : received]


@given(
    st.binary(max_size=300)
    | st.builds(lambda line, rows: b"\r\n".join([line, *rows]), LINES, HEADERS)
)
def test_any_bytes_are_a_target_or_a_fault(head: bytes) -> None:
    result = answer(head)
    assert isinstance(result, EgressTarget) or 400 <= result < 500
    if isinstance(result, EgressTarget):
        assert head.startswith(b"CONNECT ")
        assert b"\n" not in head.replace(b"\r\n", b"")
        assert not {b"content-length", b"transfer-encoding"} & {
            row.partition(b":")[0].lower() for row in head.split(b"\r\n")
        }


def test_a_damaged_head_is_answered_or_means_what_it_says() -> None:
    """Each byte in turn is changed, removed or doubled; nothing but a fault or a target comes."""
    for place in range(len(GOOD)):
        for middle in (bytes([place * 37 % 256]), b"", GOOD[place : place + 1] * 2):
            result = feed(GOOD[:place] + middle + GOOD[place + 1 :])
            if isinstance(result, bytes):
                assert result.startswith(b"HTTP/1.1 4")
            else:
                assert result is None or 0 < result.port < 65_536


def feed(data: bytes) -> EgressTarget | bytes | None:
    """The target of these bytes, or the answer to them."""
    try:
        return HeadReader().feed(data)
    except ConnectRefused as refusal:
        return refusal.response


def test_a_head_without_end_is_not_collected() -> None:
    reader = HeadReader()
    for _ in range(HEAD_MOST // 6):
        assert reader.feed(b"X: y\r\n") is None
    with pytest.raises(ConnectRefused) as refused:
        reader.feed(b"X: y\r\n")
    assert refused.value.status == 431
    with pytest.raises(ConnectRefused):
        HeadReader().feed(b"CONNECT a.b:1 HTTP/1.1\r\nX: " + b"y" * HEAD_MOST + b"\r\n\r\n")


def test_a_reason_cannot_add_lines_to_an_answer() -> None:
    refusal = ConnectRefused(HTTPStatus.FORBIDDEN, "x\r\nSet-Cookie: y\u00e4")
    head, _, body = refusal.response.partition(b"\r\n\r\n")
    assert b"Set-Cookie" not in head
    assert f"Content-Length: {len(body)}".encode() in head


def test_a_program_that_speaks_something_else_is_told_what_is_served(tmp_path: Path) -> None:
    async def main(host: EgressHost) -> None:
        get = await host.talk(b"GET http://www.example.org/ HTTP/1.1\r\nHost: x\r\n\r\n")
        assert get.startswith(b"HTTP/1.1 405 ")
        assert b"\r\nAllow: CONNECT\r\n" in get
        huge = await host.talk(b"CONNECT www.example.org:443 HTTP/1.1\r\nX: " + b"y" * 20_000)
        assert huge.startswith(b"HTTP/1.1 431 ")
        for data in (b"\x16\x03\x01\x02\x00\r\n\r\n", b"SSH-2.0-x\r\n\r\n", b"\r\n\r\n"):
            assert (await host.talk(data)).startswith(b"HTTP/1.1 400 ")
        assert (await host.refusal("127.1:443"))[0] == 400
        assert host.events() == []
        assert host.network.resolved == []

    run_egress(tmp_path, main)
