"""Entering a container: what is believed, and what the container gets of us."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from hive_core.cli import enter
from hive_core.cli.enter import Place
from hive_core.cli.relay import in_pipes
from hive_core.errors import Conflict, NotRunning


def place(name: str = "bob", leader: int | None = None, base: int = 0x30000000) -> Place:
    return Place(name, os.getpid() if leader is None else leader, base)


def test_a_process_outside_of_the_agents_unit_is_refused() -> None:
    with pytest.raises(Conflict, match=r"is not in hive-agent@bob\.service"):
        enter.verify(place())


def test_a_process_that_has_ended_is_not_running() -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    with pytest.raises(NotRunning):
        enter.verify(place(leader=gone.pid))


def test_version_1_and_2_of_the_control_groups_are_both_joined() -> None:
    mounts = (
        "tmpfs /sys/fs/cgroup tmpfs ro,nosuid 0 0\n"
        "cgroup2 /sys/fs/cgroup/unified cgroup2 rw,nosuid,nodev 0 0\n"
        "cgroup /sys/fs/cgroup/systemd cgroup rw,nosuid,xattr,name=systemd 0 0\n"
        "cgroup /sys/fs/cgroup/memory cgroup rw,nosuid,memory 0 0\n"
        "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,nosuid,cpu,cpuacct 0 0\n"
    )
    found = enter.hierarchies(mounts)
    assert found == {
        "": "/sys/fs/cgroup/unified",
        "name=systemd": "/sys/fs/cgroup/systemd",
        "memory": "/sys/fs/cgroup/memory",
        "cpu,cpuacct": "/sys/fs/cgroup/cpu,cpuacct",
    }


def test_only_the_kind_of_the_terminal_goes_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setenv("TERM", "xterm\nLD_PRELOAD=/x")
    found = enter.environment(place())
    assert set(found) == {"PATH", "HOME", "LANG", "TERM", "HIVE_NAME", "HIVE_SOCKET"}
    assert found["TERM"] == "dumb"


RUN = """
import os, sys
sys.path.insert(0, {root!r})
held = os.open("/dev/null", os.O_RDONLY)
os.set_inheritable(held, True)
from hive_core.cli.relay import in_terminal
sys.exit(in_terminal(["/bin/sh", "-c", {script!r}], {{"PATH": "/usr/bin:/bin"}}))
"""


def test_a_terminal_of_its_own_hides_ours_and_passes_words_and_status() -> None:
    root = str(Path(enter.__file__).parents[2])
    script = "tty; ls /proc/self/fd | tr '\\n' ' '; read word; echo got $word; exit 7"
    master, slave = pty.openpty()
    ours = os.ttyname(slave)
    program = RUN.format(root=root, script=script)
    with subprocess.Popen([sys.executable, "-c", program], stdin=slave, stdout=slave) as process:
        os.close(slave)
        os.write(master, b"hello\n")
        assert process.wait(20) == 7
    said = os.read(master, 65536).decode()
    os.close(master)
    assert "got hello" in said
    assert ours not in said
    assert "0 1 2 3 got hello" in said  # ls itself holds the fourth


def test_pipes_pass_bytes_and_status(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    script = "printf 'a\\0b'; echo oops >&2; kill -TERM $$"
    with Path("/dev/null").open() as nothing:
        kept = os.dup(0)
        os.dup2(nothing.fileno(), 0)
        status = in_pipes(["/bin/sh", "-c", script], {"PATH": "/usr/bin:/bin"})
        os.dup2(kept, 0)
        os.close(kept)
    said = capfdbinary.readouterr()
    assert (status, said.out, said.err) == (128 + 15, b"a\0b", b"oops\n")
