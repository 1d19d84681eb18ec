"""Entering a container: what is believed, and what the container gets of us."""

from __future__ import annotations

import os
import subprocess
import termios
from collections.abc import Callable
from pathlib import Path

import pytest

from hive_core.cli.agents import enter
from hive_core.cli.agents.enter import Place
from hive_core.cli.agents.relay import in_pipes, on_terminal
from hive_core.errors import Conflict, NotRunning


def place(name: str = "bob", leader: int | None = None, base: int = 0x30000000) -> Place:
    return Place(name, os.getpid() if leader is None else leader, base)


def test_a_process_outside_the_unit_of_the_agent_is_refused() -> None:
    with pytest.raises(Conflict, match=r"is not in hive-agent@bob\.service"):
        enter.verify(place())


def test_a_process_that_has_ended_is_not_running() -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    with pytest.raises(NotRunning):
        enter.verify(place(leader=gone.pid))


def test_control_groups_of_both_versions_are_joined() -> None:
    mounts = (
        "tmpfs /sys/fs/cgroup tmpfs ro,nosuid 0 0\n"
        "cgroup2 /sys/fs/cgroup/unified cgroup2 rw,nosuid,nodev 0 0\n"
        "cgroup /sys/fs/cgroup/systemd cgroup rw,nosuid,xattr,name=systemd 0 0\n"
        "cgroup /sys/fs/cgroup/memory cgroup rw,nosuid,memory 0 0\n"
        "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,nosuid,cpu,cpuacct 0 0\n"
    )
    hierarchies = enter.hierarchies(mounts.splitlines())
    assert hierarchies == {
        "": "/sys/fs/cgroup/unified",
        "name=systemd": "/sys/fs/cgroup/systemd",
        "memory": "/sys/fs/cgroup/memory",
        "cpu,cpuacct": "/sys/fs/cgroup/cpu,cpuacct",
    }


def test_only_the_terminal_type_is_passed_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setenv("TERM", "xterm\nLD_PRELOAD=/x")
    environment = enter.environment(place())
    assert set(environment) == {
        "PATH", "HOME", "LANG", "TERM", "HIVE_NAME", "HIVE_SOCKET", "PYTHONPATH",
        "CREDENTIALS_DIRECTORY",
    }  # fmt: skip
    assert environment["TERM"] == "dumb"


def test_command_arguments_are_passed_unchanged() -> None:
    argv = enter.argv(place(), ["echo", "$HOME ${PATH} %n"])
    assert argv[-2:] == ["echo", "$$HOME $${PATH} %n"]
    assert "--pipe" in argv
    assert "/dev/pts/7" in enter.argv(place(), ["sh"], "/dev/pts/7")


def test_pipes_pass_bytes_and_status(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    script = "printf 'a\\0b'; echo oops >&2; kill -TERM $$"
    with Path("/dev/null").open() as nothing:
        dup = os.dup(0)
        os.dup2(nothing.fileno(), 0)
        status = in_pipes(["/bin/sh", "-c", script])
        os.dup2(dup, 0)
        os.close(dup)
    said = capfdbinary.readouterr()
    assert (status, said.out, said.err) == (128 + 15, b"a\0b", b"oops\n")


def shell(script: str) -> Callable[[str], list[str]]:
    return lambda _terminal: ["/bin/sh", "-c", script]


def test_no_terminal_output_is_lost() -> None:
    keyboard, ours = os.openpty()
    shown, seen = os.pipe()[::-1]
    termios.tcsetwinsize(ours, (33, 111))
    before = termios.tcgetattr(ours)
    for number in range(20):
        assert on_terminal(shell(f"stty size; seq 500; exit {number}"), ours, shown) == number
        said = os.read(seen, 65536).split()
        assert said == [b"33", b"111", *(b"%d" % number for number in range(1, 501))]
    assert termios.tcgetattr(ours) == before
    for descriptor in (keyboard, ours, shown, seen):
        os.close(descriptor)


def test_terminal_input_reaches_the_program() -> None:
    keyboard, ours = os.openpty()
    shown, seen = os.pipe()[::-1]
    os.write(keyboard, b"hello\n")
    script = "read word; echo got $word"
    assert on_terminal(shell(script), ours, shown) == 0
    assert b"got hello" in os.read(seen, 65536)
    for descriptor in (keyboard, ours, shown, seen):
        os.close(descriptor)
