"""The network of agents on a host: the rules are reached through hive-egress, and nothing else."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from e2e.hivehost import HiveHost
from e2e.shared_hosts import SharedHost

pytestmark = pytest.mark.lab

# The host is 93.184.216.1; a server on the internet is 93.184.216.34.
NETWORK = """
ip netns add internet
ip link add inet0 type veth peer name inet1 netns internet
ip address add 93.184.216.1/24 dev inet0
ip link set inet0 up
ip -n internet link set lo up
ip -n internet address add 93.184.216.34/24 dev inet1
ip -n internet link set inet1 up
echo 93.184.216.34 www.example.org www.example.com xn--bcher-kva.example.org >> /etc/hosts
echo 93.184.216.1 self.example.org >> /etc/hosts
echo 127.0.0.1 here.example.org >> /etc/hosts
"""
SERVER = (
    "ip",
    "netns",
    "exec",
    "internet",
    "python3",
    "-m",
    "http.server",
    "443",
    "-d",
    "/var/empty",
)
# A request over a tunnel, by the port that programs of the agent are told about.
GET = """
import http.client, sys
connection = http.client.HTTPConnection("127.0.0.1", 3128, timeout=30)
connection.set_tunnel(sys.argv[1], int(sys.argv[2]))
try:
    connection.request("GET", "/")
    print(connection.getresponse().status)
except OSError as error:
    print(error)
"""
# The answers to names as they are written, each in a line; `http.client` would change them.
ASK = """
import socket, sys
for target in sys.argv[1:]:
    client = socket.create_connection(("127.0.0.1", 3128), 30)
    client.sendall(f"CONNECT {target} HTTP/1.1\\r\\n\\r\\n".encode())
    print(target, client.recv(100).split()[1].decode())
"""
HOLD = """
import socket
client = socket.socket(socket.AF_UNIX)
client.connect("/run/hive/egress.sock")
client.sendall(b"CONNECT www.example.org:443 HTTP/1.1\\r\\n\\r\\n")
print(client.recv(100).split()[1].decode(), flush=True)
client.settimeout(60)
try:
    print(len(client.recv(100)))
except OSError:
    print(0)
"""
DIRECT = """
import socket
try:
    socket.create_connection(("93.184.216.34", 443), 5)
except OSError as error:
    print(error.strerror)
"""


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> Iterator[HiveHost]:
    made = shared_host.prepare("models")
    made.run("sh", "-ec", NETWORK)
    made.run("mkdir", "-p", "/var/empty")
    server = made.lab.popen(SERVER, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    made.grow(ann={
        "role": "worker", "parent": "root", "network": "egress-allowlist",
        "command": ["hive-agent", "serve", "--", "sh", "-c", "echo $HTTPS_PROXY $NO_PROXY"],
    }, bob={"role": "worker", "parent": "root", "command": ["sleep", "infinity"]},
        hal={"role": "worker", "parent": "root", "network": "host",
             "command": ["hive-agent", "serve", "--", "true"]})  # fmt: skip
    yield made
    server.kill()
    server.wait()


def get(host: HiveHost, name: str, port: int = 443) -> str:
    return host.shell("ann", "python3", "-c", GET, name, str(port)).strip()


def test_an_agent_reaches_what_the_rules_allow_and_nothing_else(host: HiveHost) -> None:
    """Row H29."""
    host.until(lambda: get(host, "www.example.org") == "200", "nothing is reached")
    for name, port in (
        ("www.example.com", 443), ("www.example.org", 80), ("93.184.216.34", 443),
        ("self.example.org", 443), ("here.example.org", 443),
    ):  # fmt: skip
        assert "403" in get(host, name, port), name
    assert host.shell("ann", "python3", "-c", DIRECT).strip() == "Network is unreachable"
    assert host.shell("bob", "sh", "-c", "ls /run/hive/egress.sock 2>&1 || true").count("No such")
    host.ask("root", "Send", to="ann", body="which proxy?")
    host.until(
        lambda: "http://127.0.0.1:3128" in str(host.mail("root")), "serve names no proxy", 30
    )
    events = [event for event in host.events(limit=1000) if event["kind"] == "egress"]
    (reached, *_) = [event for event in events if event["allowed"]]
    assert reached["fields"]["address"] == "93.184.216.34"
    assert {event["rule"] for event in events if not event["allowed"]} == {"allow-list", "address"}


def ask(host: HiveHost, agent: str, *targets: str) -> dict[str, int]:
    """The status that a program of an agent gets for each target."""
    lines = host.shell(agent, "python3", "-c", ASK, *targets).splitlines()
    return {target: int(status) for target, _, status in (line.rpartition(" ") for line in lines)}


def test_a_name_counts_in_each_way_to_write_it_and_no_other_one_looks_like_it(
    host: HiveHost,
) -> None:
    """H29: case, the dot at the end, and names outside of ASCII, which have an A-label."""
    host.until(lambda: get(host, "www.example.org") == "200", "nothing is reached")
    allowed = ("WWW.Example.ORG:443", "www.example.org.:443", "XN--BCHER-kva.example.org.:443")
    refused = ("WWW.EXAMPLE.COM.:443", "example.org.:443", "www.example.org.example.com:443")
    malformed = (
        "b\u00fccher.example.org:443", "www.\u0435xample.org:443", "www.example\uff0eorg:443",
        "www.example.org..:443", "www.example.org:\u0664\u0664\u0663",
    )  # fmt: skip
    said = ask(host, "ann", *allowed, *refused, *malformed)
    assert [said[target] for target in allowed] == [200] * len(allowed), said
    assert [said[target] for target in refused] == [403] * len(refused), said
    assert {said[target] for target in malformed} <= {400, 403}, said


def test_the_profile_host_reaches_the_internet_and_neither_its_host_nor_private_addresses(
    host: HiveHost,
) -> None:
    """H29: by any name and by address; only the operator gives it."""
    reached = ("www.example.com:443", "WWW.example.com.:443", "93.184.216.34:443")
    refused = (
        "self.example.org:443", "93.184.216.1:443", "here.example.org:443", "127.0.0.1:443",
        "localhost:443", "10.0.0.1:443", "169.254.169.254:80", "[::1]:443",
        "[::ffff:127.0.0.1]:443", "0x7f.1:443", "2130706433:443",
    )  # fmt: skip
    host.until(lambda: ask(host, "hal", reached[0])[reached[0]] == 200, "nothing is reached")
    said = ask(host, "hal", *reached, *refused)
    assert [said[target] for target in reached] == [200] * len(reached), said
    assert {said[target] for target in refused} <= {400, 403}, said
    spawned = host.ask("root", "Spawn", name="more", role="worker", network="host")
    assert spawned.error == "NotAllowed"


def test_a_capability_that_is_taken_away_ends_what_is_open(host: HiveHost) -> None:
    words = ["hive", "shell", "ann", "--", "python3", "-c", HOLD]
    tunnel = host.lab.popen(words, stdout=subprocess.PIPE)
    assert tunnel.stdout is not None
    assert tunnel.stdout.readline() == "200\n"
    host.hive("cap", "revoke", "ann", "network:egress-allowlist")
    assert tunnel.communicate(timeout=60)[0].strip() == "0"
    assert "200" not in get(host, "www.example.org")
    assert host.shell("ann", "sh", "-c", "ls /run/hive/egress.sock 2>&1 || true").count("No such")


def test_the_unit_is_hardened_and_survives_a_kill(host: HiveHost) -> None:
    host.hive("cap", "grant", "ann", "network:egress-allowlist")
    host.run("systemctl", "kill", "-s", "KILL", "hive-egress.service")
    host.until(lambda: get(host, "www.example.org") == "200", "hive-egress does not come back")
    assert host.json("status")["egress"] == "active"
    host.run("systemd-analyze", "security", "--threshold=20", "hive-egress.service")
