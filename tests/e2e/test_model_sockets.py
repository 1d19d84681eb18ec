"""Sockets for calls of models on a host: handed to hive-model's user, kept over restarts."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest
from e2e.hivehost import HiveHost
from e2e.shared_hosts import SharedHost

pytestmark = pytest.mark.lab

USER = "hive-model"
# An agent: it connects, says so, and waits for an answer of the model.
CALL = """
import socket
client = socket.socket(socket.AF_UNIX)
client.connect("/run/hive/model.sock")
print("connected", flush=True)
client.settimeout(60)
print(client.recv(100).decode())
"""
# hive-model: it takes over the sockets, and serves one call of the agent that is named.
SERVE = """
import json, socket, sys
hand = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
hand.settimeout(30)
hand.connect("/run/hive/hand-model.sock")
doors = {}
while True:
    data, descriptors, _, _ = socket.recv_fds(hand, 4096, 4)
    packet = json.loads(data)
    if packet.get("synced"):
        break
    doors[packet["name"]] = socket.socket(fileno=descriptors[0]), packet["uids"]
door, (base, count) = doors[sys.argv[1]]
door.settimeout(30)
client, _ = door.accept()
credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
uid = int.from_bytes(credentials[4:8], "little")
assert base <= uid < base + count, (uid, base, count)
client.sendall(b"hello")
"""
RESERVE = """
import socket, sys
control = socket.socket(socket.AF_UNIX)
control.connect("/run/hive/model-control.sock")
control.settimeout(20)
control.sendall(sys.argv[1].encode() + bytes(1))
print(control.recv(4096).decode())
"""


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> Iterator[HiveHost]:
    made = shared_host.prepare("models")
    if made.run("id", USER, check=False).returncode:
        made.run("useradd", "--system", "--no-create-home", USER)
        made.restart()
    made.run("systemctl", "stop", "hive-model.service", check=False)
    made.grow(ann={"role": "worker", "parent": "root", "command": ["sleep", "infinity"]})
    made.wait("running", "ann")
    yield made
    made.run("systemctl", "start", "hive-model.service")


def call_model(host: HiveHost) -> subprocess.Popen[str]:
    """A call in ann's container; it has connected."""
    words = ["hive", "shell", "ann", "--", "python3", "-c", CALL]
    call = host.lab.popen(words, stdout=subprocess.PIPE)
    assert call.stdout is not None
    assert call.stdout.readline() == "connected\n"
    return call


def serve(host: HiveHost) -> None:
    host.run("runuser", "-u", USER, "--", "python3", "-c", SERVE, "ann")


def answer(call: subprocess.Popen[str]) -> str:
    text, _ = call.communicate(timeout=60)
    return text.strip()


def test_calls_queue_over_restarts_of_hived_and_without_hive_model(host: HiveHost) -> None:
    first = call_model(host)  # there is no hive-model
    serve(host)
    assert answer(first) == "hello"
    second = call_model(host)
    inode = host.run("stat", "-c", "%i", f"/run/hive/agents/{host.uuid('ann')}/run/model.sock")
    host.restart()
    host.kill()
    host.answers()
    third = host.run("stat", "-c", "%i", f"/run/hive/agents/{host.uuid('ann')}/run/model.sock")
    assert inode.stdout == third.stdout
    serve(host)
    assert answer(second) == "hello"


def test_only_the_user_of_hive_model_is_served(host: HiveHost) -> None:
    refused = host.run("python3", "-c", SERVE, "ann", check=False)
    assert refused.returncode
    parameters = {
        "agent": host.uuid("ann"), "alias": "hive-small", "wire": "chat", "bytes": 4, "out_most": 1,
    }  # fmt: skip
    call = json.dumps({"method": "org.hive.Broker.ReserveModel", "parameters": parameters})
    shown = host.run("runuser", "-u", USER, "--", "python3", "-c", RESERVE, call)
    assert '"reservation":"' in shown.stdout
    refused = host.run("python3", "-c", RESERVE, call, check=False)
    assert "reservation" not in refused.stdout
