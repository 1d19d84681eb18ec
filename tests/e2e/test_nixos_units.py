"""The units that the NixOS module writes, word for word, on a host where the store holds hive.

What NixOS itself brings is not here: a switch, accounts, the options of other modules. The programs
that containers find come from a tree of the store, as there, and not from /usr.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e.hivehost import HiveHost
from e2e.labhost import Lab

pytestmark = pytest.mark.lab
GOLDEN = Path(__file__).parents[1] / "nix" / "golden"
STORE = "/nix/store/00000000000000000000000000000000-hive"
# Debian's programs and this checkout in the places where package.nix puts them.
LAID = r"""
set -e
bin=$(dirname "$(readlink -f "$(command -v hived)")")
package=$(sed -n 's#^ExecStartPre=/bin/sh \(.*\)/privd/hive-prepare#\1#p' \
    /etc/systemd/system/hive-privd.service)
mkdir -p "$1/lib/hive"
ln -s "$bin" "$1/bin"
ln -s "$package" "$1/lib/hive/hive_core"
ln -s /usr "$1/lib/hive/usr"
systemctl stop hived hive-privd
"""


@pytest.fixture(scope="module")
def host(lab: Lab) -> Iterator[HiveHost]:
    hive_host = HiveHost(lab)
    hive_host.settings("[root]\nautostart = false\n")
    hive_host.setup()
    hive_host.run("sh", "-c", LAID, "sh", STORE)
    for unit in GOLDEN.iterdir():
        target = lab.path(f"/etc/systemd/system/{unit.name}")
        target.unlink(missing_ok=True)
        target.write_text(unit.read_text())
    hive_host.settings('[root]\ncommand = ["sleep", "1000"]\n')
    lab.path("/etc/hive/agents.json").write_text(
        json.dumps({"ann": {"command": ["sleep", "1000"]}, "bob": {"parent": "ann"}})
    )
    hive_host.run("systemctl", "daemon-reload")
    hive_host.run("systemctl", "start", "hive-privd", "hived")
    yield hive_host
    hive_host.close_connections()


def test_declared_agents_run_from_the_store(host: HiveHost) -> None:
    host.run("systemctl", "start", "hive-declare.service")
    host.wait("running", "root", "ann", "bob")
    said = host.run("journalctl", "-o", "cat", "-u", "hive-declare").stdout
    assert "created ann\ncreated bob\n" in said
    mounts = host.inside("bob", "cat", "/proc/self/mountinfo")
    assert {line.split()[4] for line in mounts.splitlines()} >= {"/usr", "/nix/store"}
    assert json.loads(host.inside("bob", "hive-agent", "whoami"))["parent"] == "ann"


def test_a_reload_by_a_switch_stops_no_agent(host: HiveHost) -> None:
    host.wait("running", "root", "ann", "bob")
    before = host.main_pid("bob")
    daemon = host.run("systemctl", "show", "-P", "MainPID", "hived").stdout
    host.run("systemctl", "reload", "hived")

    def is_new() -> bool:
        shown = host.run("systemctl", "show", "-P", "MainPID", "hived").stdout
        return shown not in (daemon, "0\n")

    host.until(is_new, "the old one stays")
    host.wait("running", "root", "ann", "bob")
    assert host.main_pid("bob") == before


def test_a_second_switch_leaves_existing_agents(host: HiveHost) -> None:
    host.run("systemctl", "restart", "hive-declare.service")
    host.lab.path("/etc/hive/agents.json").write_text(json.dumps({"bob": {"parent": ""}}))
    host.run("systemctl", "restart", "hive-declare.service")
    said = host.run("journalctl", "-o", "cat", "-u", "hive-declare").stdout
    assert said.count("created ann\n") == 1
    assert "bob is not changed: parent is ann, declared none" in said
