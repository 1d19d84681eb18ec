"""Attack 64: a fault of our own in a command is one line, and a report that tells no secrets."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import hive_core
from hive_core.agent import crash_report

PACKAGE = Path(hive_core.__file__).parent
VALUE = "correct-horse-battery-staple"
# Each command line needs a file of the installation that is damaged here.
COMMANDS = {
    "hive": ("hive_core.cli.main", "cli/host/status.py", ["status"]),
    "hive-agent": ("hive_core.agent.main", "cli/operations.json", ["send", "bob", VALUE]),
}


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An installation of which two files were written half, as on a disk that was full."""
    folder = tmp_path_factory.mktemp("installation")
    leave = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PACKAGE, folder / "hive_core", ignore=leave)
    for _, file, _ in COMMANDS.values():
        path = folder / "hive_core" / file
        os.truncate(path, path.stat().st_size * 2 // 3)
    return folder


def run_command(damaged: Path, home: Path, program: str) -> subprocess.CompletedProcess[str]:
    """A command as people start it, in an environment that holds a secret."""
    module, _, words = COMMANDS[program]
    code = f"import sys; sys.path.insert(0, {str(damaged)!r}); import {module} as m; m.main()"
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "KEY": VALUE}
    return subprocess.run(
        [sys.executable, "-c", code, *words], env=environment, capture_output=True, text=True,
        check=False, timeout=60, cwd=home if home.is_dir() else home.parent,
    )  # fmt: skip


def reports(home: Path) -> Sequence[Path]:
    return sorted((home / ".local/state/hive").glob("*"))


@pytest.mark.parametrize("program", COMMANDS)
def test_attack_64_a_fault_of_a_command_is_one_line_and_a_report(
    damaged: Path, tmp_path: Path, program: str
) -> None:
    done = run_command(damaged, tmp_path, program)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"{program}: internal error: ")
    (report,) = reports(tmp_path)
    assert line.endswith(f"; please report it with {report}")
    assert stat.S_IMODE(report.stat().st_mode) == 0o600
    text = report.read_text()
    assert "Traceback (most recent call last):" in text
    assert "hive_core/" in text
    assert VALUE not in text


def test_attack_64_only_the_last_reports_are_kept(damaged: Path, tmp_path: Path) -> None:
    folder = tmp_path / ".local/state/hive"
    folder.mkdir(parents=True)
    for number in range(30):
        (folder / f"hive-report-{number}.txt").touch()
        os.utime(folder / f"hive-report-{number}.txt", (number, number))
    (folder / "hive-agent-report-1.txt").touch()
    run_command(damaged, tmp_path, "hive")
    names = {report.name for report in reports(tmp_path)}
    assert len(names) == crash_report.KEPT + 1
    assert {"hive-agent-report-1.txt", "hive-report-29.txt"} < names
    assert "hive-report-0.txt" not in names


def test_where_no_home_can_be_written_the_report_lies_elsewhere(
    damaged: Path, tmp_path: Path
) -> None:
    home = tmp_path / "file"
    home.touch()
    done = run_command(damaged, home, "hive")
    report = Path(done.stderr.strip().rpartition(" ")[2])
    assert "Traceback" in report.read_text()
    assert stat.S_IMODE(report.stat().st_mode) == 0o600
    report.unlink()


def test_what_an_exception_quotes_is_left_out() -> None:
    with pytest.raises(ValueError, match=VALUE) as fault:
        int(VALUE)
    text = "\n".join(crash_report._lines("hive", fault.value))
    assert VALUE not in text
    assert "ValueError: invalid literal for int() with base 10: '...'" in text
