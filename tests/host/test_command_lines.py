"""The command lines of hived, its root helper and its services: none starts by accident."""

from __future__ import annotations

import os
import pwd
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from each import for_each
from fixtures.forked_starts import CHECKOUT, End, ForkedStarts

from hive_core import VERSION
from hive_core.host.config.command_line import check_user
from hive_core.notify.main import NotifyOptions
from hive_core.notify.main import parse_options as parse_notify
from hive_core.otel.main import parse_options as parse_otel
from hive_core.web.main import parse_options as parse_web

MODULES = {
    "hived": "daemon", "hive-privd": "privd.server", "hive-model": "proxy.main",
    "hive-egress": "egress.main", "hive-web": "web.main", "hive-notify": "notify.main",
    "hive-otel": "otel.main",
}  # fmt: skip

Start = Callable[..., End]


@pytest.fixture(name="start", scope="module")
def _start() -> Iterator[Start]:
    """Run an installed program with these words, without systemd: its status, output and errors.

    Each is a process of its own. The imports of a program, nearly all that it costs, are made once.
    """
    scripts = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["scripts"]
    programs: dict[str, ForkedStarts] = {}

    def start(program: str, *words: str) -> End:
        if program not in programs:
            module = f"hive_core.{MODULES[program]}"
            programs[program] = ForkedStarts(sys.executable, scripts[program], module)
        return programs[program].run(*words)

    yield start
    for program in programs.values():
        program.close()


@for_each("program", MODULES)
def test_each_program_prints_its_version_and_its_help_and_ends(start: Start, program: str) -> None:
    assert start(program, "--version") == (0, f"{program} {VERSION}\n", "")
    status, out, err = start(program, "--help")
    assert (status, err) == (0, "")
    assert out.startswith(f"usage: {program} [-h]")
    assert "--version" in out


@for_each("program", MODULES)
def test_an_unknown_option_ends_each_program_with_status_2(start: Start, program: str) -> None:
    status, out, err = start(program, "--nonsense")
    assert (status, out) == (2, "")
    assert "--nonsense" in err


def test_the_root_helper_without_systemd_says_how_it_is_started(start: Start) -> None:
    assert start("hive-privd") == (
        2, "", "hive-privd: cannot start: systemd runs it: `systemctl start hive-privd`\n"
    )  # fmt: skip


@pytest.fixture(name="settings")
def _settings(tmp_path: Path) -> Path:
    """Settings of a hive of its own, whose folders any user can find."""
    for folder in (*tmp_path.parents, tmp_path):
        if folder.is_relative_to("/tmp") and folder != Path("/tmp"):
            folder.chmod(0o755)
    (tmp_path / "state").mkdir()
    (tmp_path / "run").mkdir(mode=0o777)
    file = tmp_path / "hive.toml"
    file.write_text(
        f'[paths]\nstate = "{tmp_path}/state"\nruntime = "{tmp_path}/run"\n', encoding="utf-8"
    )
    return file


def test_root_cannot_run_the_hived_of_another_user_by_hand_and_opens_nothing(
    start: Start, settings: Path
) -> None:
    state, mail = settings.with_name("state"), pwd.getpwnam("mail")
    os.chown(state, 0, mail.pw_gid)  # as `hive setup` makes it
    status, _, err = start("hived", str(settings))
    assert status == 5
    assert "Cannot start: hived runs as user mail; use `systemctl start hived`" in err
    assert [*state.iterdir(), *settings.with_name("run").iterdir()] == []


def test_hived_without_its_state_folder_makes_none(start: Start, settings: Path) -> None:
    settings.with_name("state").rmdir()
    status, _, err = start("hived", str(settings))
    assert status == 4
    assert "`hive setup` makes it" in err
    assert not settings.with_name("state").exists()


def test_a_user_whose_group_has_the_state_may_run_hived(tmp_path: Path) -> None:
    check_user(tmp_path)


def test_services_have_one_word_for_the_settings_and_one_for_the_socket() -> None:
    words = ["--settings", "/a", "--socket", "/b"]
    for parse in (parse_web, parse_notify, parse_otel):
        options = parse(words)
        assert (options.settings, options.socket) == (Path("/a"), Path("/b"))


def test_names_of_options_of_an_older_release_still_work_and_are_not_in_the_help(
    start: Start,
) -> None:
    options = parse_web(["--config", "/a", "--login", "/b"])
    assert (options.settings, options.socket) == (Path("/a"), Path("/b"))
    assert parse_notify([]) == NotifyOptions()
    _, said, _ = start("hive-web", "--help")
    assert "--config" not in said
    assert "--login" not in said
