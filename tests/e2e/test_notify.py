"""hive-notify and hive-otel as `hive setup` installs them: notices, their links, and traces."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from e2e.hivehost import HiveHost
from e2e.labhost import Lab
from e2e.shared_hosts import SharedHost
from fixtures.ntfy import NtfyTwin, ntfy_twin
from fixtures.otlp import otlp_receiver

from hive_core.notify.notices import sequence_id

pytestmark = pytest.mark.lab

PHONE, TRACES = 8091, 8092  # ports of the lab
SETTINGS = f"""
[notify.routes.phone]
type = "ntfy"
url = "http://127.0.0.1:{PHONE}"
topic = "t"
text = "full"
[otel]
url = "http://127.0.0.1:{TRACES}/v1/traces"
"""
STATE = "/var/lib/hive-{}/state.json"
SERVICES = ("hive-notify", "hive-otel")
# Sends a listening socket of its own network to whoever started it.
LISTEN = """
import socket, sys
made = socket.create_server(("127.0.0.1", int(sys.argv[2])))
socket.send_fds(socket.socket(fileno=int(sys.argv[1])), [b"."], [made.fileno()])
"""
# Opens a link as a browser on this host does, and prints the answer.
OPEN = """
import http.client, sys
method, host, path = sys.argv[1:]
connection = http.client.HTTPConnection("127.0.0.1", int(host.rpartition(":")[2]), timeout=60)
form = "application/x-www-form-urlencoded"
headers = {"Host": host, "Origin": "http://" + host, "Content-Type": form}
connection.request(method, path, headers=headers)
response = connection.getresponse()
print(response.status, response.read().decode())
"""


def lab_socket(lab: Lab, port: int) -> socket.socket:
    """A socket of this process that listens in the network of the lab."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        enter = ("nsenter", f"--net=/proc/{lab.pid}/ns/net", "--", sys.executable, "-Ic", LISTEN)
        words = [*enter, str(theirs.fileno()), str(port)]
        subprocess.run(words, check=True, pass_fds=[theirs.fileno()])
        _, (number,), _, _ = socket.recv_fds(ours, 1, 1)
    return socket.socket(fileno=number)


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    made = shared_host.prepare("wire", SETTINGS)
    made.setup()  # the host may have run with other settings before
    made.grow(bob="root")
    for name in SERVICES:  # each begins at the newest event
        path = made.lab.path(STATE.format(name.removeprefix("hive-")))
        made.until(path.exists, f"{name} has not begun", 30)
    return made


@pytest.fixture
def phone(host: HiveHost) -> Iterator[NtfyTwin]:
    with ntfy_twin(lab_socket(host.lab, PHONE)) as twin:
        yield twin


def ask_colour(host: HiveHost) -> str:
    """Have the root agent ask the operator; the question."""
    items = [{"prompt": "Which colour?", "options": ["red", "green"]}]
    return str(host.ask("root", "AskUser", items=items)["question"])


def notices_of(phone: NtfyTwin, question: str) -> list[dict[str, Any]]:
    """Those that have arrived of a question; what was on this host before may send others."""
    name = sequence_id(f"question:{question}")
    return [message for message in phone.messages if message["sequence_id"] == name]


def open_link(host: HiveHost, method: str, url: str) -> str:
    address = urlsplit(url)
    words = ("/usr/bin/python3", "-Ic", OPEN, method, address.netloc, address.path)
    return host.run(*words).stdout


@pytest.mark.parametrize("name", SERVICES)
def test_setup_starts_the_service_within_its_bounds(host: HiveHost, name: str) -> None:
    unit = f"{name}.service"
    shown = host.run(
        "systemctl", "show", "-p", "ActiveState", "-p", "User", "-p", "NRestarts", unit
    )
    assert {*shown.stdout.split()} == {"ActiveState=active", f"User={name}", "NRestarts=0"}
    host.run("systemd-analyze", "security", "--threshold=20", unit)

    token = f"/etc/hive/{name.removeprefix('hive-')}/login"
    assert host.run("stat", "-c", "%U %a", token).stdout == "root 600\n"
    own = ("setpriv", f"--reuid={name}", f"--regid={name}", "--init-groups")
    for path in (token, "/run/hive/operator.sock", "/var/lib/hive/hive.db"):
        assert host.run(*own, "cat", path, check=False).returncode != 0, path


def test_a_question_arrives_and_its_link_answers_it(host: HiveHost, phone: NtfyTwin) -> None:
    question = ask_colour(host)
    host.until(lambda: notices_of(phone, question), "no notice arrives", 30)
    (notice,) = notices_of(phone, question)
    assert (notice["title"], notice["message"]) == ("hive: root asks a question", "Which colour?")
    actions = notice["actions"]
    assert [action["label"] for action in actions] == ["Open", "red", "green"]
    assert notice["click"] == actions[0]["url"] == f"http://localhost:4483/questions/{question}"

    green = actions[2]["url"]
    assert re.match(r"200 .*green.*<button", open_link(host, "GET", green), re.DOTALL)
    assert host.call("GetQuestion", question=question)["question"]["state"] == "open"
    assert open_link(host, "POST", green).startswith("200 ")
    items = host.call("GetQuestion", question=question)["items"]
    assert [item["answer"] for item in items] == ["green"]
    assert not open_link(host, "POST", green).startswith("200 ")

    host.until(lambda: len(notices_of(phone, question)) > 1, "the end is not sent", 30)
    assert notices_of(phone, question)[1]["message"] == "answered by a link"


def test_what_is_queued_outlives_a_restart_of_the_service(host: HiveHost) -> None:
    question = ask_colour(host)  # nothing listens where the phone is
    path = host.lab.path(STATE.format("notify"))

    def is_tried() -> bool:
        queue = json.loads(path.read_text(encoding="utf-8"))["queue"]
        return any(one["notice"]["item"][1] == question and one["attempts"] for one in queue)

    host.until(is_tried, "the notice is not queued", 30)
    host.run("systemctl", "restart", "hive-notify.service")
    assert is_tried()
    with ntfy_twin(lab_socket(host.lab, PHONE)) as phone:
        host.until(lambda: notices_of(phone, question), "no notice arrives", 60)
        host.hive("question", "answer", question, "red")
        host.until(lambda: len(notices_of(phone, question)) > 1, "the end is not sent", 30)
    texts = [notice["message"] for notice in notices_of(phone, question)]
    assert texts == ["Which colour?", "answered by operator"]


def test_a_task_is_one_span(host: HiveHost) -> None:
    with otlp_receiver(lab_socket(host.lab, TRACES)) as traces:
        task = host.call("AssignTask", agent="bob", title="mend", description="x")["task"]
        host.ask("bob", "BeginTask", task=task)
        host.ask("bob", "FinishTask", task=task, status="success", summary="done")
        host.until(lambda: traces.spans, "no span arrives", 30)
    (span,) = traces.spans
    assert span.name == "invoke_agent bob"
    assert span.attributes["gen_ai.agent.name"] == "bob"
    assert "mend" not in str(traces.requests)
