"""The dashboard on a host: setup starts its socket, a link opens it, and it has no rights."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from e2e.hivehost import HiveHost
from e2e.labhost import Lab

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


@pytest.fixture(scope="module")
def host(lab: Lab) -> Iterator[HiveHost]:
    made = HiveHost(lab)
    made.setup()
    yield made
    made.close_connections()


def prop(host: HiveHost, unit: str, name: str) -> str:
    return host.run("systemctl", "show", "--value", f"--property={name}", unit).stdout.strip()


def test_a_link_opens_the_dashboard_which_its_socket_has_started(host: HiveHost) -> None:
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
