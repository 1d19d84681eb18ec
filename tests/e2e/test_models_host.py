"""What a host has for models: users, the embedded model behind its socket, what sessions import."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from e2e.hivehost import HiveHost
from e2e.shared_hosts import SharedHost
from environments import need_environment

pytestmark = pytest.mark.lab

SOCKET = "/run/hive-small/small.sock"
AS_MODEL = ("setpriv", "--reuid=hive-model", "--regid=hive-model", "--clear-groups")
AS_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
# One call; prints the status and the answer.
CALL = """
import http.client, json, socket, sys
connection = http.client.HTTPConnection("small", timeout=60)
connection.sock = socket.socket(socket.AF_UNIX)
connection.sock.connect(sys.argv[1])
body = {"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 8}
connection.request("POST", "/v1/chat/completions", json.dumps(body))
response = connection.getresponse()
print(json.dumps([response.status, json.loads(response.read())]))
"""
TEST = """
import http.client, json, socket, sys
connection = http.client.HTTPConnection("model", timeout=60)
connection.sock = socket.socket(socket.AF_UNIX)
connection.sock.connect("/run/hive-model/operator.sock")
connection.request("POST", "/test", json.dumps({"alias": sys.argv[1]}))
print(connection.getresponse().read().decode())
"""
# Enters the control group of a service, as a process of it would be there, and sends a datagram to
# each address; prints those that the kernel refused. Root passes the service's other limits.
SEND = """
import pathlib, socket, sys
pid = pathlib.Path("/proc/self/stat").read_text().split()[0]
group = next(path for path in sys.argv[1:3] if pathlib.Path(path).is_dir())
pathlib.Path(group, "cgroup.procs").write_text(pid)
for address in sys.argv[3:]:
    try:
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", (address, 9))
    except PermissionError:
        print(address)
"""
# To import all of it takes four seconds of processor; the sessions below do so as they begin.
FIND = """
from importlib.util import find_spec
names = ("anthropic", "jinja2", "mcp", "openai", "pydantic_ai", "hive_core.varlink")
print(*(find_spec(name).origin for name in names), sep="\\n")
"""


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    need_environment("small")
    return shared_host.prepare("models")


def chat(host: HiveHost) -> tuple[int, Any]:
    done = host.run(*AS_MODEL, "/usr/bin/python3", "-Ic", CALL, SOCKET)
    status, answer = json.loads(done.stdout)
    return status, answer


def state(host: HiveHost, unit: str) -> str:
    return host.run("systemctl", "is-active", unit, check=False).stdout.strip()


def prop(host: HiveHost, unit: str, name: str) -> str:
    return host.run("systemctl", "show", "--value", f"--property={name}", unit).stdout.strip()


def process_facts(host: HiveHost, unit: str) -> dict[str, str]:
    text = host.run("cat", f"/proc/{prop(host, unit, 'MainPID')}/status").stdout
    return {key: value.strip() for key, value in (line.split(":", 1) for line in text.splitlines())}


def ask_proxy(host: HiveHost, alias: str) -> str:
    return host.run("/usr/bin/python3", "-Ic", TEST, alias).stdout


@contextmanager
def other_models(host: HiveHost, text: str) -> Iterator[None]:
    """Other contents of models.toml, for a while."""
    host.run("cp", "-a", "/etc/hive/models.toml", "/run/models.before")
    host.run("sh", "-c", "cat >/etc/hive/models.toml", text=text)
    try:
        yield
    finally:
        host.run("sh", "-c", "cat /run/models.before >/etc/hive/models.toml")


@contextmanager
def reloading_models(host: HiveHost, text: str) -> Iterator[None]:
    """The same, in force inside."""
    reload = ("systemctl", "reload", "hive-model.service")
    try:
        with other_models(host, text):
            host.run(*reload)
            yield
    finally:
        host.run(*reload)


def answer_of(host: HiveHost, alias: str) -> str:
    done = host.run("hive", "model", "test", alias, check=False)
    return str(done.stdout + done.stderr)


def exposure(host: HiveHost, unit: str) -> float:
    text = host.run("systemd-analyze", "security", "--no-pager", unit).stdout
    match = re.search(rf"exposure level for {unit}: (\S+)", text)
    assert match is not None
    return float(match[1])


def test_setup_makes_users_directories_and_settings_for_models(host: HiveHost) -> None:
    keys = host.run("stat", "-c", "%U:%G %a", "/etc/hive/keys").stdout
    assert keys == "root:hive-model 750\n"
    models = host.run("stat", "-c", "%U:%G %a", "/etc/hive/models.toml").stdout
    assert models == "root:root 644\n"
    for user in ("hive-model", "hive-small"):
        assert host.run("id", "-nG", user).stdout.split() == [user]
    done = host.run("hive", "doctor")
    assert "embedded" in done.stdout
    assert "runtime" in done.stdout
    assert "nothing to do" in host.setup()


def test_the_first_call_starts_the_embedded_model(host: HiveHost) -> None:
    host.run("systemctl", "stop", "hive-small.service", check=False)
    assert "hive-small idle" in host.hive("status")
    status, answer = chat(host)
    assert status == 200
    assert answer["choices"][0]["message"]["content"]
    assert state(host, "hive-small.service") == "active"
    assert host.json("status")["models"]["hive-small"] == "active"


def refused_addresses(host: HiveHost, unit: str, *addresses: str) -> list[str]:
    group = prop(host, unit, "ControlGroup")
    groups = (f"/sys/fs/cgroup/unified{group}", f"/sys/fs/cgroup{group}")  # hybrid, or version 2
    return host.run("/usr/bin/python3", "-Ic", SEND, *groups, *addresses).stdout.split()


def test_the_kernel_refuses_what_the_units_deny(host: HiveHost) -> None:
    """IPAddressDeny=; that of the proxy has what only the host itself may ask."""
    there = ("127.0.0.1", "169.254.7.7", "224.0.0.9")
    for address in (f"{there[1]}/32", "224.0.0.0/4"):
        host.run("ip", "route", "replace", "local" if "/32" in address else "unicast", address,
                 "dev", "lo")  # fmt: skip
    chat(host)
    denied = ("hived.service", "hive-privd.service", "hive-small.service")
    assert [refused_addresses(host, unit, *there) for unit in denied] == [list(there)] * 3
    assert refused_addresses(host, "hive-model.service", *there) == list(there[1:])
    assert refused_addresses(host, "dbus.service", *there) == []


def test_the_proxy_runs_without_rights_and_calls_the_embedded_model(host: HiveHost) -> None:
    assert state(host, "hive-model.service") == "active"
    socket = host.run("stat", "-c", "%U:%G %a", "/run/hive-model/operator.sock").stdout
    assert socket == "root:hive-operator 660\n"
    answer = json.loads(ask_proxy(host, "hive-small"))
    assert answer["text"], answer
    assert answer["tokens_out"] > 0
    refused = host.run(*AS_NOBODY, "/usr/bin/python3", "-Ic", TEST, "hive-small", check=False)
    assert "PermissionError" in refused.stderr
    facts = process_facts(host, "hive-model.service")
    assert int(facts["CapBnd"], 16) == 0
    assert facts["Uid"].split()[0] == host.run("id", "-u", "hive-model").stdout.strip()
    assert exposure(host, "hive-model.service") <= 2.0
    assert "hive-model active" in host.hive("status")


def test_the_proxy_takes_new_settings_and_keeps_the_old_ones_where_these_are_wrong(
    host: HiveHost,
) -> None:
    before = prop(host, "hive-model.service", "MainPID")
    rules = '[[rules]]\ntext = "scripted answer"\n'
    host.run("sh", "-c", "cat >/etc/hive/rules.toml", text=rules)
    models = '[providers.s]\nkind = "scripted"\npath = "/etc/hive/rules.toml"\n'
    models += '[models.actor]\nprovider = "s"\nname = "actor"\n'
    with other_models(host, models):
        host.run("systemctl", "reload", "hive-model.service")
        host.until(lambda: "scripted answer" in ask_proxy(host, "actor"), "no new settings")
        host.run("sh", "-c", "echo nonsense >/etc/hive/models.toml")
        host.run("systemctl", "reload", "hive-model.service")
        assert "scripted answer" in ask_proxy(host, "actor")
    host.run("systemctl", "reload", "hive-model.service")
    assert prop(host, "hive-model.service", "MainPID") == before


def test_a_key_counts_from_the_next_call_on(host: HiveHost) -> None:
    models = '[providers.far]\nbase_url = "http://127.0.0.1:9/v1"\nwire = "chat"\nkey = "far"\n'
    models += '[models.far]\nprovider = "far"\nname = "far-1"\n'
    with reloading_models(host, models):
        assert "is not set on this host" in answer_of(host, "far")
        host.run("hive", "model", "key", "set", "far", text="sk-of-a-test-0123456789\n")
        assert "cannot reach the provider" in answer_of(host, "far")
        host.run("hive", "model", "key", "rm", "far")
        assert "is not set on this host" in answer_of(host, "far")


def test_only_the_proxy_reaches_the_embedded_model(host: HiveHost) -> None:
    done = host.run(*AS_NOBODY, "/usr/bin/python3", "-Ic", CALL, SOCKET, check=False)
    assert "PermissionError" in done.stderr


def test_the_embedded_model_has_no_network_and_no_rights(host: HiveHost) -> None:
    chat(host)
    pid = prop(host, "hive-small.service", "MainPID")
    links = host.run("nsenter", f"--target={pid}", "--net", "ip", "-o", "link").stdout.splitlines()
    assert [line.split(":")[1].strip() for line in links] == ["lo"]
    facts = process_facts(host, "hive-small.service")
    assert int(facts["CapBnd"], 16) == 0
    assert facts["NoNewPrivs"] == "1"
    assert facts["Uid"].split()[0] == host.run("id", "-u", "hive-small").stdout.strip()
    # The engine's own HTTP server is behind a socket whose directory is gone.
    listening = host.run("nsenter", f"--target={pid}", "--net", "ss", "-Hltn").stdout
    assert listening == ""
    assert exposure(host, "hive-small.service") <= 2.0


def test_a_killed_model_is_started_by_the_next_call(host: HiveHost) -> None:
    chat(host)
    before = prop(host, "hive-small.service", "MainPID")
    host.run("systemctl", "kill", "--signal=KILL", "hive-small.service")
    host.until(lambda: state(host, "hive-small.service") == "failed", "it did not end")
    assert chat(host)[0] == 200
    assert prop(host, "hive-small.service", "MainPID") != before


def test_a_file_that_cannot_be_read_is_told_by_doctor_and_by_each_answer(host: HiveHost) -> None:
    models = '[providers.f]\nkind = "gguf"\npath = "/home/x.gguf"\n'
    models += '[models.own]\nprovider = "f"\nname = "own"\n'
    with other_models(host, models):
        status, answer = chat(host)
        assert (status, "cannot read /home/x.gguf" in str(answer)) == (503, True)
        done = host.run("hive", "doctor", check=False)
        assert done.returncode == 1
        assert "does not see" in done.stdout
    host.until(lambda: chat(host)[0] == 200, "the settings were not read again")


def test_a_container_has_what_sessions_import_and_cannot_change_it(host: HiveHost) -> None:
    host.grow(ann="root")
    python = ("env", "PYTHONPATH=/opt/hive/runtime", "/usr/bin/python3", "-c", FIND)
    *libraries, own = host.inside("ann", *python).splitlines()
    assert own == "/opt/hive/runtime/hive_core/varlink.py"
    assert all(path.startswith("/opt/hive/runtime/") for path in libraries), libraries
    version = "import sys; print('%d.%d' % sys.version_info[:2])"
    own = host.inside("ann", "/usr/bin/python3", "-c", version)
    assert host.inside("ann", "cat", "/opt/hive/runtime/.python") == own
    done = host.enter("ann", "touch", "/opt/hive/runtime/mine", check=False)
    assert "Read-only file system" in done.stderr


def test_an_agent_with_the_embedded_model_answers_a_chat(host: HiveHost) -> None:
    host.hive("agent", "create", "scout", "--role", "worker", "--runtime", "builtin")
    answer = host.hive("chat", "scout", text="Hello, who are you?\n").strip()
    assert len(answer) > 2
    log = host.hive("session", "log", "scout").splitlines()
    # It leaves the input to others: to the loop that it stands in, and to lines typed ahead.
    loop = "printf '1\\n2\\n' | while read -r number; do hive session log scout | sed -n 1p; done"
    assert host.run("sh", "-c", loop).stdout.splitlines() == 2 * log[:1]
    assert [line.split()[2] for line in log if line.split()[1] == "1"][-3:] == [
        "response", "end", "closed",
    ]  # fmt: skip


def test_without_its_environment_the_units_of_the_embedded_model_go(host: HiveHost) -> None:
    """As after `scripts/install --no-small` on a host that had the embedded model before."""
    place = host.run("readlink", "/usr/local/lib/hive-small").stdout.strip()
    host.run("rm", "/usr/local/lib/hive-small")
    try:
        assert "removed /etc/systemd/system/hive-small.socket" in host.setup()
        assert state(host, "hive-small.socket") == "inactive"
        assert host.json("status")["models"]["hive-small"] == "not installed"
        done = host.run("hive", "doctor")
        assert "the embedded model is not installed" in done.stdout
    finally:
        host.run("ln", "-s", place, "/usr/local/lib/hive-small")
        host.setup()
    assert chat(host)[0] == 200
