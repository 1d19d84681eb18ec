"""Event streams: each change once, resumed after the last frame, and cut off when nobody reads."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator

from fixtures.dashboard import FakeBrowser
from fixtures.event_streams import Event, events, newest, next_of

from hive_core.web.frames import GAP, GZIP_HEADER, KEPT, KEPT_BYTES, FrameLog, pack_block
from hive_core.web.stream import UNREAD_MOST, EventStream


def follow(
    browser: FakeBrowser, after: str = "", *, packed: bool = True, **headers: str
) -> Iterator[Event]:
    connection = browser.web.connect()
    path = f"/live?topics=tree,attention&after={after}"
    encoding = "gzip" if packed else "identity"
    connection.sendall(
        browser.web.request("GET", path, cookie=browser.cookie, accept_encoding=encoding, **headers)
    )
    try:
        yield from events(connection, packed=packed)
    finally:
        connection.close()


def assign(browser: FakeBrowser, agent: str, title: str) -> None:
    browser.web.hived.call("operator", "assign_task", agent=agent, title=title, description="x")


def test_a_changed_agent_is_a_frame_with_its_row(browser: FakeBrowser) -> None:
    for packed in (True, False):
        stream = follow(browser, newest(browser), packed=packed)
        next(stream)
        assign(browser, "carl", f"<b>\r\ntask {packed}")

        frame = json.loads(next_of(stream, "tree")["data"])
        stream.close()  # type: ignore[attr-defined]  # a generator

        (html,) = frame["rows"].values()
        assert "&lt;b&gt;" in html
        assert "⟨U+000D⟩⟨U+000A⟩" in html


def test_a_new_agent_reloads_the_tree(browser: FakeBrowser) -> None:
    stream = follow(browser, newest(browser))
    next(stream)
    browser.web.hived.call("operator", "spawn", name="newcomer", parent="root")

    assert json.loads(next_of(stream, "tree")["data"]) == {"tree": True}


def test_a_new_question_is_a_frame_of_attention(browser: FakeBrowser) -> None:
    stream = follow(browser, newest(browser))
    next(stream)
    browser.web.hived.call("root", "ask_user", items=[{"prompt": "Now <i>what</i>?"}])

    frame = json.loads(next_of(stream, "attention")["data"])

    assert frame["waiting"] >= 1
    assert "Now &lt;i&gt;what&lt;/i&gt;?" in "".join(frame["rows"].values())


def test_a_stream_resumes_after_the_last_frame(browser: FakeBrowser) -> None:
    before = newest(browser)
    stream = follow(browser, before)
    next(stream)
    last: Event = {}
    for agent, title in (("lead", "one"), ("w-9", "two")):
        assign(browser, agent, title)
        last = next(event for event in stream if title in event["data"])

    again = follow(browser, "ignored", last_event_id=before)
    next(again)
    resumed = []
    while last not in resumed:
        resumed.append(next(again))
    assert "one" in next(event for event in resumed if event["event"] == "tree")["data"]


def test_a_stream_goes_on_after_the_daemon_was_away(browser: FakeBrowser) -> None:
    stream = follow(browser, newest(browser))
    next(stream)

    browser.web.hived.cut_connections()
    assign(browser, "w-10", "afterwards")

    assert next(event for event in stream if "tree" in event.get("event", ""))
    assert "afterwards" in browser.get("/tree").text


def test_an_unknown_place_is_a_gap(browser: FakeBrowser) -> None:
    for after in ("", "x", "00000000-1", newest(browser) + "99"):
        stream = follow(browser, after)
        next(stream)
        assert next(stream)["event"] == "gap", after


def test_frames_beyond_the_kept_ones_are_a_gap() -> None:
    log = FrameLog()
    first = log.newest
    for number in range(KEPT + 1):
        log.add("tree", {"number": number})

    assert log.after(first, frozenset({"tree"})) == [GAP]
    assert len(log.after(f"{log.epoch}-1", frozenset({"tree"}))) == KEPT
    assert log.after(log.newest, frozenset({"tree"})) == []


def test_blocks_are_one_gzip_stream_from_any_frame_on() -> None:
    log = FrameLog()
    frames = [log.add("tree", {"rows": {"a": "x" * number}}) for number in range(5)]

    unpacked = zlib.decompressobj(31).decompress(
        GZIP_HEADER + pack_block(b"first") + b"".join(frame.packed for frame in frames[2:])
    )

    assert unpacked == b"first" + b"".join(frame.plain for frame in frames[2:])


def test_a_reader_that_does_not_read_is_cut_off() -> None:
    log, ended = FrameLog(), list[bool]()
    stream = EventStream(frozenset({"tree"}), packed=True, abort=lambda: ended.append(True))
    for number in range(200):
        stream.replay(log.add("tree", {"number": number}))
    for number in range(UNREAD_MOST):
        stream.offer(log.add("tree", {"number": number}))
    stream.offer(log.add("audit", {}))
    assert not ended

    stream.offer(log.add("tree", {}))

    assert ended == [True]
    assert stream.is_ended


def test_frames_that_are_kept_are_bounded_by_their_bytes() -> None:
    log, text = FrameLog(), "x" * (KEPT_BYTES // 10)
    frames = [log.add("tree", {"text": text}) for _ in range(13)]
    first, last = frames[0], frames[-1]
    resumed = log.after(f"{log.epoch}-{last.number - 5}", frozenset({"tree"}))
    assert [frame.number for frame in resumed] == list(range(last.number - 4, last.number + 1))
    assert log.after(f"{log.epoch}-{first.number}", frozenset({"tree"})) == [GAP]
    assert sum(len(frame.plain) + len(frame.packed) for frame in resumed) <= KEPT_BYTES
