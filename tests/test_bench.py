"""What scripts/bench makes of the rows: a missing peer or a broken benchmark hides nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from each import for_each

from benchmarks import run
from benchmarks.report import page, rows, table

REPORT = Path(__file__).resolve().parents[1] / "docs/why/performance.md"


def _lacks() -> float:
    raise FileNotFoundError("redis-server is not installed")


def test_a_peer_that_is_missing_says_so_in_its_own_columns() -> None:
    row = {"name": "send", "value": 9.0, "unit": "sends/s"} | rows.beside("redis", _lacks)
    assert "redis-server is not installed" in table.plain([row])
    assert "send" in table.plain([row])


@pytest.mark.parametrize(("peer", "met"), [(2.0, "met"), (6.0, "short")])
def test_an_aim_beside_a_peer_is_met_or_short(peer: float, met: str) -> None:
    row = {"name": "send", "value": 10.0, "unit": "sends/s", "peer": "redis", "peer_value": peer}
    row = rows.with_aim(row, "twice redis", ratio_at_least=2)
    assert table.plain([row]).split()[-1] == met


def test_an_aim_beside_a_missing_peer_stays_open() -> None:
    row = {"name": "send", "value": 10.0, "unit": "sends/s"} | rows.beside("redis", _lacks)
    row = rows.with_aim(row, "twice redis", ratio_at_least=2)
    assert table.plain([row]).split()[-1] == "open"


@for_each("value, met", [(19.0, True), (21.0, False), (9.0, False)])
def test_an_aim_is_met_only_within_all_its_bounds(value: float, met: bool) -> None:  # noqa: FBT001
    row = {"name": "pass", "value": value, "unit": "ms"}
    assert rows.with_aim(row, "10 to 20 ms", at_least=10, at_most=20)["met"] is met


def test_a_benchmark_that_breaks_leaves_a_row_and_the_exit_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = "def run():\n    raise RuntimeError('no disk')\n"
    (tmp_path / "broken.py").write_text(broken)
    (tmp_path / "whole.py").write_text("def run():\n    return [{'name': 'a', 'value': 1}]\n")
    monkeypatch.setattr(run, "HERE", tmp_path)
    monkeypatch.setattr(run, "KNOWN", ["broken", "whole"])
    assert run.main(["--json", str(tmp_path / "out.json")]) == 1
    printed = capsys.readouterr().out
    assert "failed: no disk" in printed
    assert "whole" in printed
    assert run.main(["--from", str(tmp_path / "out.json")]) == 1
    assert capsys.readouterr().out == printed


def test_figures_go_between_the_marks_of_the_page_and_nowhere_else() -> None:
    text = (
        "a\n<!-- figures of sends -->\nold\n<!-- end -->\nb\n<!-- figures of x -->\n<!-- end -->\n"
    )
    result = [{"benchmark": "sends", "name": "send | one", "value": 1234.5, "unit": "sends/s"}]
    new = page.fill_page(text, {"machine": {"cores": 2}, "rows": result})
    assert "| send \\| one | 1,234 sends/s |" in new
    assert "old" not in new
    assert new.startswith("a\n")
    assert new.endswith("b\n<!-- figures of x -->\n<!-- end -->\n")
    assert page.fill_page(new, {"machine": {}, "rows": result}) == new


def test_a_benchmark_that_the_page_does_not_know_yet_comes_last() -> None:
    result = [{"benchmark": "moves", "name": "move", "value": 3, "unit": "ms"}]
    new = page.fill_page("# Performance\n", {"machine": {}, "rows": result})
    assert new.startswith("# Performance\n\n## moves\n\n<!-- figures of moves -->\n")
    assert "| move | 3 ms |" in new


def test_a_curve_is_shown_as_a_picture_and_an_aim_in_the_list_of_aims() -> None:
    point = {"benchmark": "growth", "name": "at ten", "value": 3, "unit": "ms", "plot": "plan"}
    last = {**point, "name": "at most", "aim": "below 5 ms", "met": True}
    places = "<!-- figures of the aims -->\n<!-- end -->\n<!-- figures of growth -->\n<!-- end -->"
    aims, section = page.fill_page(places, {"machine": {}, "rows": [point, last]}).split("-->", 2)[
        1:
    ]
    assert "at most" in aims
    assert "at most" in section
    assert "at ten" not in section
    assert "![plan](performance/plan.svg)" in section


def test_the_aims_of_benchmarks_that_did_not_run_stay() -> None:
    text = "<!-- figures of the aims -->\n<!-- end -->\n"
    sends = {"benchmark": "sends", "name": "send", "value": 3, "aim": "below 5", "met": True}
    for value in (7, 8):
        moves = {**sends, "benchmark": "moves", "name": "move", "value": value}
        for row in (sends, moves):
            text = page.fill_page(text, {"machine": {}, "rows": [row]})
    rows = [line for line in text.split("<!-- end -->")[0].splitlines() if line.startswith("| ")]
    assert [row.split(" | ")[:2] for row in rows] == [
        ["| what", "figure"], ["| send", "3"], ["| move", "8"],
    ]  # fmt: skip


def test_the_page_holds_no_place_for_a_benchmark_that_is_gone() -> None:
    assert set(page.names(REPORT.read_text())) <= {*run.KNOWN, "the machine", "the aims"}
