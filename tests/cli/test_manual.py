"""The manual pages and the completion that `hive setup` installs, and `hive teardown` removes."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from hive_core.agent import catalog
from hive_core.cli.core.manual import escape, manual, write
from hive_core.cli.host.install import documents
from hive_core.cli.host.install.layout import File
from hive_core.cli.host.install.machine import HostMachine
from hive_core.cli.main import COMMANDS, hive
from hive_core.model.config.settings import Settings

PAGE, AGENT_PAGE, SETTINGS_PAGE = (manual()[place] for place in documents.PAGES)


def test_the_manual_page_has_every_command_and_option() -> None:
    context = click.Context(hive, info_name="hive")
    for name in COMMANDS:
        assert f".SS \\fBhive {escape(name)}\\fR" in PAGE, name
        command = hive.get_command(context, name)
        assert command is not None
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                assert escape(parameter.opts[-1]) in PAGE


def test_the_other_manual_pages_have_every_agent_command_and_setting() -> None:
    for operation in catalog.load():
        assert f"\\fB{escape(operation.name.replace('_', '-'))}\\fR" in AGENT_PAGE
    for table in Settings.model_fields:
        assert f".SH [{escape(table)}]" in SETTINGS_PAGE or f"\\fB{table}\\fR" in SETTINGS_PAGE


def test_no_line_of_text_is_a_troff_request() -> None:
    known = re.compile(r"\.(TH|SH|SS|PP|TP)\b")
    for text in (PAGE, AGENT_PAGE, SETTINGS_PAGE):
        assert all(known.match(line) for line in text.splitlines() if line[:1] in (".", "'"))
    assert escape(".so /etc/passwd\n'x \\n -o") == "\\&.so /etc/passwd\n\\&'x \\en \\-o"


@pytest.mark.parametrize("place", documents.PAGES)
def test_groff_reports_no_problem(tmp_path: Path, place: str) -> None:
    write(tmp_path, manual())
    program = shutil.which("groff")
    if program is None:  # a machine without manual pages
        return
    done = subprocess.run(
        [program, "-man", "-ww", "-Tutf8", "-rLL=100n", str(tmp_path / place)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    assert "hive" in done.stdout


def test_completion_and_pages_are_installed_once_and_removed(
    tmp_path: Path,
) -> None:
    share, files = documents.SHARE, documents.documents()
    assert tuple(file.path for file in files) == documents.PATHS
    result: list[str] = []
    machine = HostMachine(result.append)
    here = [File(tmp_path / file.path.relative_to(share), file.text) for file in files]
    assert [machine.file(file) for file in here] == [True] * len(here)
    assert [machine.file(file) for file in here] == [False] * len(here)
    machine.remove([file.path for file in here])
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_accepts_its_completion_script(tmp_path: Path, shell: str) -> None:
    script = tmp_path / "script"
    (file,) = (f for f in documents.documents() if f.path == documents.COMPLETIONS[shell])
    script.write_text(file.text)
    assert "_HIVE_COMPLETE" in file.text
    if program := shutil.which(shell):
        subprocess.run([program, "-n", str(script)], check=True)
