"""The operator's commands that enter containers: shells, copies, calls as an agent."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import termios
import time

import pytest
from e2e.command_host import make_command_host
from e2e.hivehost import HiveHost
from e2e.probe_targets import PROBE, canaries, escapes, options
from e2e.shared_hosts import SharedHost
from long import at_most

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    return make_command_host(shared_host)


def test_a_shell_is_the_agents_own_root_and_under_its_limits(host: HiveHost) -> None:
    assert host.shell("worker", "id", "-u") == "0\n"
    assert host.shell("worker", "hostname") == "worker\n"
    assert host.shell("worker", "sh", "-c", "echo $HOME $PWD") == "/tree/state /tree/state\n"
    names = {line.split("=")[0] for line in host.shell("worker", "env").splitlines()}
    assert {"AWS_KEY", "SUDO_USER", "LAB_NAME"}.isdisjoint(names)
    assert names <= {
        "CREDENTIALS_DIRECTORY",
        "PATH",
        "PYTHONPATH",
        "HOME",
        "LANG",
        "TERM",
        "HIVE_NAME",
        "HIVE_PARENT",
        "HIVE_SOCKET",
        "PWD",
        "SHLVL",
        "_",
    }
    assert (
        host.run("hive", "shell", "worker", "--", "sh", "-c", "exit 9", check=False).returncode == 9
    )
    within = ["hive", "shell", "other", "--", "sleep", "1000"]
    with host.lab.popen(within, stderr=-1) as entered:
        unit = "hive-agent@other.service"
        while "sleep" not in host.run("systemctl", "status", "--no-pager", unit).stdout.replace(
            "sleep infinity", ""
        ):
            assert entered.poll() is None
            time.sleep(0.05)
        host.hive("stop", "other", "--grace", "0")
        said = entered.communicate(timeout=at_most(15))[1]
        assert entered.returncode != 0
        assert "other was stopped or restarted, which ended the command" in said
    host.hive("start", "other")


def test_a_shell_cannot_mount_and_reads_its_words_as_they_are(host: HiveHost) -> None:
    done = host.run(
        "hive", "shell", "worker", "--", "mount", "-t", "tmpfs", "x", "/tmp", check=False
    )
    assert done.returncode != 0
    assert host.shell("worker", "echo", "$HOME ${PATH} $$ %n") == "$HOME ${PATH} $$ %n\n"
    assert host.run("hive", "shell", "worker", "--", "wc", "-c", text="a\n$b").stdout == "4\n"


def test_a_shell_on_a_terminal_gets_a_terminal_of_its_own(host: HiveHost) -> None:
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (33, 111))
    command = host.lab.argv(["env", "TERM=vt100", "hive", "shell", "worker"])
    with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave) as process:
        os.close(slave)
        said = until(master, b"worker# ")
        os.write(master, b"stty size; echo $TERM; : </dev/tty && test -t 0 && exit 7\n")
        assert process.wait(20) == 7
        said += os.read(master, 65536)
    os.close(master)
    assert b"33 111" in said
    assert b"vt100" in said


def until(terminal: int, end: bytes) -> bytes:
    said = b""
    while end not in said:
        said += os.read(terminal, 65536)
    return said


def test_files_are_copied_in_and_out(host: HiveHost) -> None:
    """Also folders and bytes; what an agent links out of its folder is not followed here."""
    host.run("sh", "-c", "mkdir -p /root/in/sub; printf 'a\\0b' >/root/in/sub/f; date >/root/note")
    host.hive("cp", "/root/note", "worker:note")
    host.hive("cp", "/root/in", "worker:.")
    assert host.shell("worker", "stat", "-c", "%u", "in/sub/f", "note") == "0\n0\n"
    assert host.hive("cp", "worker:note", "-") == host.run("cat", "/root/note").stdout
    host.shell("worker", "ln", "-s", "/etc/shadow", "in/link")
    host.run("rm", "-rf", "/root/out")
    done = host.run("hive", "cp", "worker:in", "/root/out")
    assert "not copied, neither a file nor a folder: ./link" in done.stderr
    assert host.run("find", "/root/out", "-mindepth", "1").stdout.split() == [
        "/root/out/sub", "/root/out/sub/f",
    ]  # fmt: skip
    assert host.run("cmp", "/root/in/sub/f", "/root/out/sub/f").returncode == 0
    assert "no such file" in host.fails(4, "cp", "worker:nothing", "/root/x")
    assert host.fails(2, "cp", "/root/note", "/root/x")


def test_an_agent_runs_a_given_script_and_a_new_one_after_set(host: HiveHost) -> None:
    host.run("tee", "/root/say.sh", text="#!/bin/sh\necho said $1 in $PWD; sleep 1000\n")
    host.hive("agent", "create", "crier", "--file", "/root/say.sh", "--", "hello")
    host.until(lambda: "said hello in /tree/state" in host.hive("logs", "crier"), "its word")
    said = host.run("hive", "agent", "set", "crier", "--command", "sleep 999", "--title", "Quiet",
                    "--restart").stderr  # fmt: skip
    assert re.search(r"commit [0-9a-f]{12}: set title, command of crier", said)
    page = host.hive("agent", "show", "crier")
    for text in (
        "agent        crier  Quiet",
        "command      sleep 999",
        "place        root / crier",
    ):
        assert text in page, text
    assert "restart_needed" in host.json("agent", "show", "crier")
    host.hive("destroy", "crier", "--yes")


def test_only_root_enters_containers_and_only_operators_call(host: HiveHost) -> None:
    group = host.run("getent", "group", "hive-operator").stdout.split(":")[2]
    operator = ("setpriv", "--reuid=65534", "--regid=65534", f"--groups={group}", "hive")
    assert host.run(*operator, "tree", "-o", "name").stdout.startswith("root\n")
    for words in (("shell", "worker"), ("call", "Whoami", "--as", "worker")):
        done = host.run(*operator, *words, check=False)
        assert done.returncode == 5
        assert "only root" in done.stderr
    stranger = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "hive", "tree")
    done = host.run(*stranger, check=False)
    assert done.returncode == 69
    assert "hive-operator" in done.stderr


def test_call_reaches_any_method_also_inside_an_agent(host: HiveHost) -> None:
    assert json.loads(host.hive("call", "whoami"))["name"] == "operator"
    assert json.loads(host.hive("call", "Whoami", "{}", "--as", "worker"))["name"] == "worker"
    said = host.fails(5, "call", "Stop", '{"agent": "lead"}', "--as", "worker")
    assert said == "hive-agent: cannot stop lead: not your descendant\n"
    assert "did you mean get_logs" in host.fails(2, "call", "get_log")


def test_an_operator_shell_is_confined_like_the_agent(host: HiveHost) -> None:
    """Attack 5: files of the container decide what a shell in it does."""
    host.grow(full={"command": ["sleep", "1000"], "boot": True})
    with canaries(host.lab) as pid:
        answer = options(pid, "--structure=/tree", "--structure=/tree/kids")
        for name in ("worker", "full"):
            said = host.shell(name, "/usr/bin/python3", "-I", PROBE, *answer, check=False)
            result = escapes({row["name"]: row for row in json.loads(said)["attempts"]})
            # Whoever enters joins the agent's control groups, whose root may write in them: it can
            # end the shell, and that is all.
            result.pop("control_groups", None)
            assert result == {}
