"""What many tabs cost while agents send each other mail; the long form is the load of the aims."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from fuzz.served import serve_in_process
from long import figure, times

from benchmarks import web as bench
from benchmarks.load.programs import cpu_seconds, end_sender, mebibytes, run_load, write_line
from benchmarks.load.streams import check_frames, read_for
from benchmarks.services.dashboard import serving_dashboard


@pytest.mark.sized
def test_many_tabs_cost_little_and_no_frame_is_lost_or_comes_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bounds are wide: shares of a core grow where others use the machine."""
    agents, logins = times(40, 1000), times(4, 50)
    monkeypatch.setattr(bench, "DECODED", 2)
    with serve_in_process(tmp_path, agents) as hived, ExitStack() as stack:
        web = stack.enter_context(serving_dashboard(tmp_path))
        cookies = [web.log_in(number) for number in range(logins)]
        streams = list(bench._open_streams(web, cookies, stack))
        stack.enter_context(run_load("chatter", tmp_path, agents, agents))
        lone = stack.enter_context(run_load("lone_sender", tmp_path, 0.1))
        tabs = stack.enter_context(run_load("tabs", tmp_path, web.port, 0.2))
        write_line(tabs, "\t".join(cookies))
        start = [cpu_seconds(pid) for pid in (web.pid, hived.pid)]
        seconds = times(4, 30)
        read_for(streams, seconds)
        spent = [
            cpu_seconds(pid) - before
            for pid, before in zip((web.pid, hived.pid), start, strict=True)
        ]
        memory = mebibytes(web.pid)
        sends = end_sender(lone)
        made, loaded, slowest = map(float, tabs.communicate()[0].split())
        check_frames(streams)
    figure(
        "tabs",
        web=spent[0] / seconds,
        hived=spent[1] / seconds,
        memory=memory,
        made=made,
        rows_p99=slowest,
    )
    assert spent[0] / seconds < 0.6
    assert memory < 128
    assert made >= 1
    assert loaded == made * logins
    assert len(list(bench._delays(sends, streams))) >= len(sends) / 2
