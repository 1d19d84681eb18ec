"""A configuration from its edit to a healthy agent, or back: H9, H18, attacks 21, 49 and R18."""

from __future__ import annotations

import json
from typing import Any

import pytest
from e2e.hivehost import HiveHost
from e2e.shared_hosts import SharedHost
from long import times

pytestmark = pytest.mark.lab("slow")

LIVE = '[harness]\nreload = "live"\n'
CLONE = "/agents/lead/state/configs/bob"
# Seconds after the approval; the short form has one in the middle of it.
MOMENTS = [number / 20 for number in range(times(9, 2), times(10, 422), 7)]
# Runs on; says which configuration it was started with.
PROGRAM = "cat /run/hive/config/AGENTS.md >/agents/bob/state/started; echo up; exec sleep 100000"
EDIT = """
who=$1; [ -d "$2" ] || hive-agent config clone bob
cd "$2"; shift 2
while [ $# -gt 0 ]; do mkdir -p "$(dirname "$1")"; printf %s "$2" >"$1"; shift 2; done
git add -A; git -c user.name="$who" -c user.email="$who@x" commit -qm change; git rev-parse HEAD
"""


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    made = shared_host.prepare("config")
    made.grow(lead={"role": "lead"})
    made.grow(bob={"parent": "lead", "command": ["sh", "-c", PROGRAM]})
    return made


def edit(host: HiveHost, files: dict[str, str], clone: str = CLONE, who: str = "lead") -> str:
    """A commit by an agent in a clone of its own; its id."""
    pairs = [word for pair in files.items() for word in pair]
    said = host.inside(who, "sh", "-ec", EDIT, "sh", who, clone, *pairs)
    return said.strip().rpartition("\n")[2]


def request(host: HiveHost, commit: str, who: str = "lead", source: str = "lead") -> str:
    reply = host.ask(who, "RequestApplyCommit", agent="bob", commit=commit, message="please",
                     source=source)  # fmt: skip
    return str(reply["approval"])


def approval(host: HiveHost, id_: str) -> dict[str, Any]:
    result: dict[str, Any] = host.call("GetApproval", id=id_)["approval"]
    return result


def until(host: HiveHost, id_: str, *states: str, seconds: float = 30) -> dict[str, Any]:
    host.until(lambda: approval(host, id_)["state"] in states,
               f"{id_} is not {states}: {approval(host, id_)}", seconds)  # fmt: skip
    return approval(host, id_)


def pending(host: HiveHost, files: dict[str, str]) -> tuple[str, str]:
    commit = edit(host, files)
    id_ = request(host, commit)
    until(host, id_, "pending")
    return id_, commit


def deploy(host: HiveHost, files: dict[str, str]) -> tuple[str, str]:
    id_, commit = pending(host, files)
    assert not host.call("Approve", id=id_, commit=commit[:8]).error
    until(host, id_, "deployed")
    return id_, commit


def show_file(host: HiveHost, path: str = "AGENTS.md") -> str:
    return host.inside("bob", "cat", f"/run/hive/config/{path}")


def tags(host: HiveHost, id_: str) -> set[str]:
    repo = f"/var/lib/hive/applied/{host.uuid('bob')}.git"
    listed = host.run("sh", "-c", f"cd {repo}/refs/tags && ls -d */{id_}", check=False).stdout
    return {word.partition("/")[0] for word in listed.split()}


def test_h9_a_parent_proposes_a_configuration_and_the_operator_approves_it(host: HiveHost) -> None:
    """H9, H18: nothing runs before; then it is deployed, with a restart, and watched."""
    first = host.main_pid("bob")
    assert "Be kind" not in show_file(host)
    id_, commit = pending(host, {"agent.toml": LIVE, "AGENTS.md": "Be kind.\n"})
    assert "Be kind" not in show_file(host)
    assert host.main_pid("bob") == first
    result = approval(host, id_)
    assert (result["requester"], result["agent"], result["commit"]) == ("lead", "bob", commit)
    assert result["effect"] == "restart"
    host.hive("approval", "approve", id_, "--commit", commit[:8], "--yes")
    assert approval(host, id_)["state"] == "deployed"
    assert show_file(host) == "Be kind.\n"
    assert host.inside("bob", "cat", "/agents/bob/state/started") == "Be kind.\n"
    assert host.main_pid("bob") != first
    assert tags(host, id_) == {"approved", "building", "deployed"}
    log = host.run("runuser", "-u", "hive", "--", "git", "-C", "/var/lib/hive/meta", "log", "-1",
                   "--grep=^deploy bob", "--format=%B").stdout  # fmt: skip
    assert f"deploy bob {commit[:12]} (generation 2)" in log
    assert f"Hive-Approval: {id_}" in log


def test_h18_the_applied_repositories_show_what_is_deployed(host: HiveHost) -> None:
    """H18: read-only, by name, live by the capability; the meta repo too."""
    deploy(host, {"agent.toml": LIVE, "AGENTS.md": "Seen.\n"})
    commit = host.call("History", agent="bob")["generations"][0]["commit"]
    seen = host.inside("root", "cat", "/applied/bob/refs/heads/main")
    assert seen.strip() == commit
    assert "bob" in host.inside("root", "cat", "/meta/topology.json")
    host.run("hive", "shell", "root", "--", "sh", "-c",
             "! touch /applied/x && ! touch /meta/x && ! rm /applied/bob/HEAD")  # fmt: skip


def test_a_live_change_reaches_the_running_container_without_a_restart(host: HiveHost) -> None:
    deploy(host, {"agent.toml": LIVE, "AGENTS.md": "One.\n"})
    first = host.main_pid("bob")
    id_, _ = deploy(host, {"AGENTS.md": "Two.\n"})
    assert approval(host, id_)["effect"] == "live"
    assert show_file(host) == "Two.\n"
    assert host.main_pid("bob") == first


def test_a_running_agent_sees_no_edit_and_cannot_write_its_configuration(host: HiveHost) -> None:
    """The clone is the agent's, what is deployed is not: read-only for root in the container."""
    before = show_file(host)
    edit(host, {"AGENTS.md": "Rule the world.\n"}, "/agents/bob/config", "bob")
    assert show_file(host) == before
    for command in (
        "echo x >/run/hive/config/AGENTS.md", "rm /run/hive/config/AGENTS.md",
        "rm /run/hive/config", "mv /run/hive/config /run/hive/old",
        "ln -sfn /agents/bob/config /run/hive/config", "touch /run/hive/.configs/x",
        "chmod u+w /run/hive/config/AGENTS.md && echo x >>/run/hive/config/AGENTS.md",
    ):  # fmt: skip
        done = host.run("hive", "shell", "bob", "--", "sh", "-c", command, check=False)
        assert done.returncode != 0, command
    assert show_file(host) == before


def test_a_broken_configuration_is_rolled_back_and_the_requester_is_told(host: HiveHost) -> None:
    """H9: the command ends; the old one runs again, and requester and parent know why."""
    _, good = deploy(host, {"agent.toml": LIVE, "AGENTS.md": "Good.\n"})
    host.mail("lead")
    command = json.dumps(["sh", "-c", "echo no such prompt; exit 7"])
    bad = f"{LIVE}[request]\ncommand = {command}\n"
    id_, commit = pending(host, {"agent.toml": bad})
    done = host.run("hive", "approval", "approve", id_, "--commit", commit[:8], "--yes",
                    check=False)  # fmt: skip
    assert done.returncode != 0
    assert "ended with 7" in done.stderr
    host.wait("running", "bob")
    assert show_file(host) == "Good.\n"
    (notice,) = (message for message in host.mail("lead") if message["kind"] == "config")
    assert "ended with 7" in notice["body"]
    assert "no such prompt" in notice["body"]
    assert tags(host, id_) == {"approved", "building", "failed"}
    rows = host.call("History", agent="bob")["generations"]
    assert "ended with 7" in rows[0]["failed"]
    assert next(row for row in rows if row["current"])["commit"] == good


def test_a_rollback_is_a_deploy(host: HiveHost) -> None:
    _, old = deploy(host, {"agent.toml": LIVE, "AGENTS.md": "Old.\n"})
    deploy(host, {"AGENTS.md": "New.\n"})
    assert show_file(host) == "New.\n"
    host.hive("rollback", "bob")
    assert show_file(host) == "Old.\n"
    rows = host.call("History", agent="bob")["generations"]
    assert (rows[0]["kind"], rows[0]["commit"], rows[0]["current"]) == ("rollback", old, True)
    assert len(rows) <= 4


def test_attack_21_exactly_the_approved_commit_runs_despite_later_changes(
    host: HiveHost,
) -> None:
    """Attack 21: the clone goes on, and files of the daemon's repository are swapped (root)."""
    id_, commit = pending(host, {"agent.toml": LIVE, "AGENTS.md": "Approved.\n"})
    edit(host, {"AGENTS.md": "Not approved.\n"})
    host.hive("approval", "approve", id_, "--commit", commit[:8], "--yes")
    assert show_file(host) == "Approved.\n"
    id_, commit = pending(host, {"AGENTS.md": "Also approved.\n"})
    repo = f"/var/lib/hive/applied/{host.uuid('bob')}.git"
    host.run("sh", "-c", f"cat {repo}/hive/*.nar >/tmp/x; rm -f {repo}/hive/{commit}.nar;"
             f" cp /tmp/x {repo}/hive/{commit}.nar; rm -f {repo}/objects/pack/*")  # fmt: skip
    done = host.run("hive", "approval", "approve", id_, "--commit", commit[:8], "--yes",
                    check=False)  # fmt: skip
    assert done.returncode != 0
    assert approval(host, id_)["state"] == "void"
    assert show_file(host) == "Approved.\n"


def test_the_deployed_configuration_is_mounted_again_after_a_reboot(host: HiveHost) -> None:
    """`/run` is empty then: it is there before the agent starts."""
    deploy(host, {"agent.toml": LIVE, "AGENTS.md": "Again.\n"})
    host.close_connections()
    host.lab.reboot()
    host.wait("running", "root", "lead", "bob", seconds=45)
    assert show_file(host) == "Again.\n"
    host.until(lambda: host.inside("bob", "cat", "/agents/bob/state/started") == "Again.\n",
               "it was not there at the start")  # fmt: skip


@pytest.mark.sized
@pytest.mark.parametrize("moment", MOMENTS)
def test_r18_a_deploy_continues_after_the_daemon_is_killed(host: HiveHost, moment: float) -> None:
    """R18, attack 49: the daemon is killed at several moments, and the deploy still completes."""
    id_, commit = pending(host, {"agent.toml": "", "AGENTS.md": f"{moment} {id(host)}\n"})
    host.hive("approval", "approve", id_, "--commit", commit[:8], "--yes", "--no-wait")
    host.run("sh", "-c", f"sleep {moment}; systemctl kill --signal=KILL hived.service")
    host.close_connections()  # their connections are gone
    host.answers()
    ended = until(host, id_, "deployed", "failed")
    assert ended["state"] == "deployed", ended
    host.wait("running", "bob")
    assert show_file(host).startswith(str(moment))
    assert host.call("History", agent="bob")["generations"][0]["commit"] == commit
