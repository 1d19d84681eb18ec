"""The command lines of hived, its root helper and its services: none starts by accident."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest
from each import for_each

from hive_core import VERSION
from hive_core.host.config.command_line import check_user
from hive_core.notify.main import NotifyOptions
from hive_core.notify.main import parse_options as parse_notify
from hive_core.otel.main import parse_options as parse_otel
from hive_core.web.main import parse_options as parse_web

CHECKOUT = Path(__file__).parents[2]
MODULES = {
    "hived": "daemon", "hive-privd": "privd.server", "hive-model": "proxy.main",
    "hive-egress": "egress.main", "hive-web": "web.main", "hive-notify": "notify.main",
    "hive-otel": "otel.main",
}  # fmt: skip

FORKS = """
import gc, json, os, sys
from importlib import import_module
gc.disable()
place, module, entry, *options = sys.argv[1:]
sys.path.insert(0, place)
import_module(module)
begin, _, function = entry.partition(":")
main, answers = getattr(import_module(begin), function), []
gc.freeze()  # else each process copies all of it as it ends
for option in options:
    streams = [os.memfd_create(name) for name in ("out", "err")]
    child = os.fork()
    if not child:
        for number, stream in enumerate(streams, 1):
            os.dup2(stream, number)
        sys.argv = ["-c", option]
        main()
        sys.exit()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    answers.append([status, *(os.pread(stream, 1 << 20, 0).decode() for stream in streams)])
print(json.dumps(answers))
"""


def start(program: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a program as its launcher does, without systemd."""
    code = f"import sys; sys.path.insert(0, {str(CHECKOUT)!r})\n"
    code += f"from hive_core.{MODULES[program]} import main\nmain()"
    return subprocess.run(
        [sys.executable, "-I", "-c", code, *words],
        env={"PATH": os.defpath}, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


@cache
def answers(program: str) -> dict[str, tuple[int, str, str]]:
    """Status, output and errors of an installed program for its plain options and an unknown one.

    Each is a process of its own. Their imports, nearly all that it costs, are made once.
    """
    options = ("--version", "--help", "--nonsense")
    entry = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["scripts"][program]
    words = (str(CHECKOUT), f"hive_core.{MODULES[program]}", entry, *options)
    command = [sys.executable, "-I", "-c", FORKS, *words]
    done = subprocess.run(
        command, env={"PATH": os.defpath}, capture_output=True, text=True, check=True, timeout=60
    )
    said = [(status, out, err) for status, out, err in json.loads(done.stdout)]
    return dict(zip(options, said, strict=True))


@for_each("program", MODULES)
def test_each_program_prints_its_version_and_its_help_and_ends(program: str) -> None:
    assert answers(program)["--version"] == (0, f"{program} {VERSION}\n", "")
    status, out, err = answers(program)["--help"]
    assert (status, err) == (0, "")
    assert out.startswith(f"usage: {program} [-h]")
    assert "--version" in out


@for_each("program", MODULES)
def test_an_unknown_option_ends_each_program_with_status_2(program: str) -> None:
    status, out, err = answers(program)["--nonsense"]
    assert (status, out) == (2, "")
    assert "--nonsense" in err


def test_the_root_helper_without_systemd_says_how_it_is_started() -> None:
    done = start("hive-privd")
    assert done.returncode == 2
    assert done.stderr == (
        "hive-privd: cannot start: systemd runs it: `systemctl start hive-privd`\n"
    )


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
    settings: Path,
) -> None:
    state, mail = settings.with_name("state"), pwd.getpwnam("mail")
    os.chown(state, 0, mail.pw_gid)  # as `hive setup` makes it
    done = start("hived", str(settings))
    assert done.returncode == 5
    assert "Cannot start: hived runs as user mail; use `systemctl start hived`" in done.stderr
    assert [*state.iterdir(), *settings.with_name("run").iterdir()] == []


def test_hived_without_its_state_folder_makes_none(settings: Path) -> None:
    settings.with_name("state").rmdir()
    done = start("hived", str(settings))
    assert done.returncode == 4
    assert "`hive setup` makes it" in done.stderr
    assert not settings.with_name("state").exists()


def test_a_user_whose_group_has_the_state_may_run_hived(tmp_path: Path) -> None:
    check_user(tmp_path)


def test_services_have_one_word_for_the_settings_and_one_for_the_socket() -> None:
    words = ["--settings", "/a", "--socket", "/b"]
    for parse in (parse_web, parse_notify, parse_otel):
        options = parse(words)
        assert (options.settings, options.socket) == (Path("/a"), Path("/b"))


def test_names_of_options_of_an_older_release_still_work_and_are_not_in_the_help() -> None:
    options = parse_web(["--config", "/a", "--login", "/b"])
    assert (options.settings, options.socket) == (Path("/a"), Path("/b"))
    assert parse_notify([]) == NotifyOptions()
    _, said, _ = answers("hive-web")["--help"]
    assert "--config" not in said
    assert "--login" not in said
