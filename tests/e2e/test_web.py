"""The dashboard on a host: a link opens it, an approval in it deploys, and it has no rights."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from e2e.hivehost import HiveHost
from e2e.shared_hosts import SharedHost
from e2e.test_config import approval, edit, request, until
from fixtures.chromium import add_authenticator, chromium
from fixtures.dashboard import free_socket, origin_of
from lab import forward_port

pytestmark = pytest.mark.lab

# Logs in by the link of its argument, and prints what each step answered.
VISIT = """
import http.client, json, sys, urllib.parse
origin, _, secret = sys.argv[1].partition("/login#")
host = origin.removeprefix("http://")
def ask(method, path, body=None, address="127.0.0.1", **headers):
    connection = http.client.HTTPConnection(address, 4483, timeout=60)
    connection.request(method, path, body, {"Host": host, **headers})
    response = connection.getresponse()
    return response.status, response.getheader("Set-Cookie") or "", response.read().decode()
form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": origin}
before = ask("GET", "/tree")
status, cookie, _ = ask("POST", "/login", urllib.parse.urlencode({"secret": secret}), **form)
again = ask("POST", "/login", urllib.parse.urlencode({"secret": secret}), **form)
held = {"Cookie": cookie.partition(";")[0]}
tree = ask("GET", "/tree", **held)
other = ask("GET", "/tree", address="::1", **held)
print(json.dumps([before[0], status, again[0], tree[0], other[0], "root" in tree[2]]))
"""
# What a process of hive-web gets from login.sock without a credential.
TAKEN = """
import json, socket
for method in ("ListAgents", "GetMetrics", "WatchAgents", "ListEvents", "Todo"):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect("/run/hive/login.sock")
    call = {"method": "org.hive.Broker." + method, "parameters": {}}
    connection.sendall(json.dumps(call).encode() + bytes(1))
    print(json.loads(connection.recv(65536).rstrip(bytes(1))).get("error", "answered"))
"""
AS_WEB = ("setpriv", "--reuid=hive-web", "--regid=hive-web", "--init-groups")


SETTINGS = """
[web]
origins = ["{origin}"]
[deploy]
window = 0.7
"""


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> Iterator[HiveHost]:
    """Its dashboard is reached from the machine too, at the port that its links name."""
    with free_socket() as listening:
        settings = SETTINGS.format(origin=origin_of(listening))
        made = shared_host.prepare("commands", settings)
        with forward_port(made.lab, (listening, "4483")):
            yield made


def prop(host: HiveHost, unit: str, name: str) -> str:
    return host.run("systemctl", "show", "--value", f"--property={name}", unit).stdout.strip()


def test_a_link_opens_the_dashboard_which_its_socket_has_started(host: HiveHost) -> None:
    """K39: nothing is shown without a login, and the tree of agents with one."""
    assert prop(host, "hive-web.socket", "ActiveState") == "active"
    assert prop(host, "hive-web.service", "ActiveState") == "inactive"

    link = host.hive("web", "login").strip()
    steps = json.loads(host.run("/usr/bin/python3", "-Ic", VISIT, link).stdout)

    assert steps == [303, 303, 403, 200, 200, True]
    assert prop(host, "hive-web.service", "ActiveState") == "active"


def test_hive_web_has_no_network_and_reads_nothing_without_a_credential(host: HiveHost) -> None:
    pid = prop(host, "hive-web.service", "MainPID")
    own, ours = (host.run("readlink", f"/proc/{at}/ns/net").stdout for at in (pid, "self"))
    assert own != ours
    assert prop(host, "hive-web.service", "User") == "hive-web"
    host.run("systemd-analyze", "security", "--threshold=20", "hive-web.service")

    answers = host.run(*AS_WEB, "/usr/bin/python3", "-Ic", TAKEN).stdout.split()
    assert answers == ["org.hive.Broker.NotAllowed"] * 5
    for path in ("/run/hive/operator.sock", "/var/lib/hive/hive.db", "/var/lib/hive/meta/HEAD"):
        assert host.run(*AS_WEB, "cat", path, check=False).returncode != 0, path


def test_an_approval_in_the_browser_is_deployed(host: HiveHost) -> None:
    """From the link to the file in the container, with a passkey that Chromium holds."""
    host.grow(bob={"parent": "root", "command": ["sleep", "infinity"]})
    clone = "/agents/root/state/configs/bob"
    commit = edit(host, {"AGENTS.md": "Be <b>kind</b>.\n"}, clone, "root")
    id_ = request(host, commit, "root", "root")
    until(host, id_, "pending")
    link = host.hive("web", "login").strip()
    origin = link.partition("/login#")[0]

    with TemporaryDirectory() as folder, chromium(Path(folder)) as chrome:
        add_authenticator(chrome)
        chrome.open(link)
        chrome.until_path("/passkey")
        chrome.find("#passkey-make button").click()
        chrome.until_path("/")
        chrome.open(f"{origin}/approvals/{id_}")
        assert "Be <b>kind</b>." in chrome.text("#difference")
        chrome.find("#approve button").click()
        chrome.until("document.getElementById('passkey-confirm')")
        assert approval(host, id_)["state"] == "pending"
        chrome.find("#passkey-confirm button").click()
        chrome.until_path("/")
        until(host, id_, "deployed")
        chrome.open(f"{origin}/agents/bob/config")
        assert f"(now) config {commit[:12]}" in " ".join(chrome.text("#tab").split())
        assert chrome.complaints() == []

    assert host.inside("bob", "cat", "/run/hive/config/AGENTS.md") == "Be <b>kind</b>.\n"
    asked = [event for event in host.events(last=100) if event["operation"] == "approve"]
    assert asked[-1]["fields"]["confirmed"] == "passkey"
