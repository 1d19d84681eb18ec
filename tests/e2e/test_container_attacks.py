"""Attacks from inside real containers on a real daemon, and on the terminal of its operator."""

from __future__ import annotations

import pytest
from e2e.hivehost import HiveHost
from e2e.shared_hosts import SharedHost

pytestmark = pytest.mark.lab
HOLD = ["sleep", "1000"]
PYTHON = ("/usr/bin/python3", "-Ic")

# 64 connections: a call that waits, then fat ones behind it; and answers that nobody reads.
FLOOD = """
import json, select, socket, time
def frame(method, **parameters):
    call = {"method": "org.hive.Broker." + method, "parameters": parameters}
    return json.dumps(call).encode() + b"\\0"
fat = frame("Wake", body="x" * 1_000_000)
mine = []
for number in range(64):
    s = socket.socket(socket.AF_UNIX)
    s.connect("/run/hive/broker.sock")
    s.sendall(frame("Recv", wait=50) if number % 2 else frame("ListMessages") * 1000)
    s.setblocking(False)
    mine.append(s)
end, sent = time.monotonic() + 6, 0
while time.monotonic() < end:
    for s in select.select([], mine, [], 0.2)[1]:
        try:
            sent += s.send(fat)
        except OSError:
            mine.remove(s)
print(sent)
"""

# The parent takes a connection that its child has made and offers on a socket in its own files.
OFFER = """
import socket
listening = socket.socket(socket.AF_UNIX)
listening.bind("/tree/state/offer")
listening.listen()
mine = socket.socket(socket.AF_UNIX)
mine.connect("/run/hive/broker.sock")
mine.sendall(b'{"method":"org.hive.Broker.Whoami"}\\0')
mine.recv(1 << 16)
peer, _ = listening.accept()
socket.send_fds(peer, [b"x"], [mine.fileno()])
peer.recv(1)
"""
TAKE = """
import socket, time
peer = socket.socket(socket.AF_UNIX)
for _ in range(200):
    try:
        peer.connect("/agents/kid/state/offer")
        break
    except OSError:
        time.sleep(0.05)
_, (fd,), _, _ = socket.recv_fds(peer, 1, 1)
theirs = socket.socket(fileno=fd)
theirs.sendall(b'{"method":"org.hive.Broker.Whoami"}\\0')
print(theirs.recv(1 << 16).decode())
theirs.sendall(b'{"method":"org.hive.Broker.Stop","parameters":{"agent":"kid"}}\\0')
print(theirs.recv(1 << 16).decode())
"""


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    hive_host = shared_host.prepare("commands")
    hive_host.grow(bad={"command": HOLD}, good={"command": HOLD})
    hive_host.grow(kid={"parent": "bad", "command": HOLD})
    return hive_host


def _answers(host: HiveHost, agent: str) -> bool:
    asked = host.run("hive", "shell", agent, "--", "hive-agent", "whoami", check=False)
    return asked.returncode == 0


def _hived_property(host: HiveHost, name: str) -> int:
    shown = host.run("systemctl", "show", "--value", f"--property={name}", "hived.service")
    return int(shown.stdout)


def test_attack_36_a_flood_from_a_container_neither_ends_nor_swells_the_daemon(
    host: HiveHost,
) -> None:
    pid = _hived_property(host, "MainPID")
    sent = int(host.shell("bad", *PYTHON, FLOOD))
    assert _hived_property(host, "MainPID") == pid
    status = host.run("cat", f"/proc/{pid}/status").stdout
    (peak,) = [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")]
    assert peak < 400 * 1024, f"{peak} KiB after {sent} bytes"
    assert host.ask("good", "Whoami")["name"] == "good"
    # Its own connections count until the daemon has seen each of them end.
    host.until(lambda: _answers(host, "bad"), "bad is heard again")


@pytest.mark.parametrize(
    "command",
    [
        "rm -f /run/hive/broker.sock",
        "mv /run/hive/broker.sock /run/hive/other",
        "ln -sf /dev/null /run/hive/broker.sock",
        "echo x > /run/hive/identity.json",
        "touch /run/hive/.identity.new",
        "mount -o remount,bind,rw /run/hive",
        "umount /run/hive && touch /run/hive/broker.sock",
    ],
)
def test_attack_34_root_in_a_container_cannot_replace_its_socket(
    host: HiveHost, command: str
) -> None:
    host.run("hive", "shell", "bad", "--", "/bin/sh", "-c", command, check=False)
    folder = f"/run/hive/agents/{host.uuid('bad')}/run"
    listed = host.run("ls", "-A", folder).stdout.split()
    assert set(listed) - {".configs", "config"} == {"broker.sock", "identity.json", "model.sock"}
    assert '"name": "bad"' in host.run("cat", f"{folder}/identity.json").stdout
    assert host.ask("bad", "Whoami")["name"] == "bad"


def test_attack_34_a_passed_connection_has_only_its_owners_rights(
    host: HiveHost,
) -> None:
    words = ["hive", "shell", "kid", "--", *PYTHON, OFFER]
    offering = host.lab.popen(words)
    try:
        whoami, stop = host.shell("bad", *PYTHON, TAKE).splitlines()
    finally:
        offering.kill()
        offering.wait()
    assert '"name":"kid"' in whoami
    # bad may stop kid; on kid's connection it is kid that asks.
    assert "NotAllowed" in stop


def test_attack_41_the_socket_directory_names_no_hidden_agent(host: HiveHost) -> None:
    host.grow(secret={"parent": "good", "command": HOLD})
    for where in ("/run/hive", "/agents", "/tree"):
        words = f"ls -laR {where}; cat /run/hive/identity.json /proc/1/environ; mount; hostname"
        said = host.shell("bad", "/bin/sh", "-c", words, check=False)
        for hidden in ("secret", host.uuid("secret")[:8], host.uuid("good")[:8]):
            assert hidden not in said


def test_attack_45_agent_text_moves_no_cursor_of_the_operator(host: HiveHost) -> None:
    evil = "a\x1b[2J\x1b]0;owned\x07\r\x9b31m\u202e\u200b\x7f"
    assert not host.ask("bad", "Spawn", name="odd", title=evil, command=["printf", evil]).error
    host.ask("bad", "Send", to="operator", body=evil)
    host.ask("bad", "Stop", agent=evil)
    host.call("WaitAgents", agents=["odd"], states=["stopped"], wait=20)
    for command in (
        ["tree"], ["logs", "odd"], ["events"], ["inbox"], ["agent", "list"], ["status"],
        ["tree", "-o", "json"], ["inbox", "-o", "jsonl"], ["events", "-o", "jsonl"],
        ["call", "ListAgents"], ["why", "bad", "stop", evil],
    ):  # fmt: skip
        done = host.run("hive", *command, check=False)
        shown = done.stdout + done.stderr
        assert not set("\x1b\x07\r\x9b\u202e\u200b\x7f") & set(shown), command
