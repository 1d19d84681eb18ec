"""The tree and its files from the outside: spec rows H1-H3, H5, H6, H14 and K9."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from e2e.family_tree import TREE, make_family_host
from e2e.hivehost import HiveHost
from e2e.shared_hosts import SharedHost
from long import at_most

pytestmark = pytest.mark.lab

META = "/var/lib/hive/meta"
AS_HIVE = ("setpriv", "--reuid=hive", "--regid=hive", "--init-groups")


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    return make_family_host(shared_host)


def topology(host: HiveHost) -> Any:  # noqa: ANN401 - JSON is anything
    """As it stands in the commit in force, not in the work tree."""
    return json.loads(git(host, "show", "HEAD:topology.json"))


def git(host: HiveHost, *words: str) -> str:
    """What git says, run by the owner of the repository: no other user enters it."""
    return host.run(*AS_HIVE, "git", "-C", META, *words).stdout


def files(host: HiveHost) -> dict[str, bytes]:
    """What is in the folder of the meta repository, beside git's own."""
    folder = host.lab.path(META)
    result = {}
    for path in (*folder.glob("[!.]*.*"), *folder.glob("agents/*")):
        with suppress(FileNotFoundError):  # one that is replaced now
            result[path.name] = path.read_bytes()
    return result


def commit_by_hand(host: HiveHost, script: str, how: str = "commit -am by-hand") -> str:
    """A commit as an operator makes it; gives its id, in git's own words.

    Who asks for HEAD a moment later may see the branch set back already.
    """
    words = "-c user.name=op -c user.email=op@x -c core.abbrev=40"
    clone = "rm -rf /root/by-hand && git clone -q hive::meta /root/by-hand && cd /root/by-hand"
    push = "git push -q -f origin main || true"
    commit = f"{clone} && {script} && LC_ALL=C git {words} {how} && {{ {push}; }}"
    said = host.run("sh", "-ec", commit).stdout
    (oid,) = re.findall(r"^\[[^]]* ([0-9a-f]{40})\]", said, re.MULTILINE)
    return str(oid)


def edit(change: str) -> str:
    code = f"import json;p='topology.json';t=json.load(open(p));{change};json.dump(t,open(p,'w'))"
    return f'/usr/bin/python3 -Ic "{code}"'


def identity(host: HiveHost, agent: str) -> Any:  # noqa: ANN401 - JSON is anything
    return json.loads(host.inside(agent, "cat", "/run/hive/identity.json"))


def test_topology_is_a_file_in_the_daemons_repo(host: HiveHost) -> None:
    """H1: name -> parent, null = root, committed in the repo that belongs to the daemon."""
    assert topology(host) == TREE
    assert json.loads(host.run("cat", f"{META}/topology.json").stdout) == TREE
    assert host.tree() == TREE
    owners = host.run("find", META, "-printf", "%u\n").stdout.split()
    assert set(owners) == {"hive"}
    trailers = git(host, "log", "-1", "--format=%(trailers)")
    assert "Hive-Caller: operator" in trailers
    assert "Hive-Operation: spawn" in trailers


def test_an_agent_cannot_claim_a_parent(host: HiveHost) -> None:
    """H1: neither by a call, a file of its own, its environment, nor the repo itself."""
    before = topology(host)
    for parent in ("root", "rival", "", "cid", "ben"):
        refused = host.ask("ben", "Move", agent="ben", parent=parent)
        assert refused.error in {"NotAllowed", "NotFound"}, (parent, refused)
    assert host.ask("ben", "Spawn", name="pet", parent="root").error == "NotAllowed"
    assert host.ask("ben", "Spawn", name="pet", parent="rival").error == "NotFound"
    claim = "for d in config state; do echo '{\"ben\": null}' >/agents/ben/$d/topology.json; done"
    host.inside("ben", "sh", "-c", f"{claim}; HIVE_PARENT=root HIVE_NAME=root hive-agent whoami")
    said = host.inside("ben", "env", "HIVE_NAME=root", "hive-agent", "call", "Whoami")
    assert json.loads(said)["name"] == "ben"
    assert "No such file" in host.run(
        "hive", "shell", "ben", "--", "ls", META, "/etc/hive", check=False
    ).stderr  # fmt: skip
    assert topology(host) == before


def test_moving_touches_no_file_of_an_agent(host: HiveHost) -> None:
    """H1: an agent's storage is the same before and after, to the change time of each file."""
    host.inside("ben", "sh", "-c", "cd /agents/ben/config && git init -q . && echo 1 >file")
    look = ("find", "/agents/ben/config", "/agents/ben/state", "-printf", "%p %i %C@ %T@ %m\n")
    before = host.inside("ben", *look)
    host.hive("move", "ben", "--parent", "rival")
    assert host.inside("ben", *look) == before
    host.hive("move", "ben", "--parent", "lead")
    assert host.inside("ben", *look) == before


@pytest.mark.parametrize(
    ("script", "says"),
    [
        (edit("t['lead']='cid'"), "cycle"),
        ("git rm -q topology.json", ""),
        ("git rm -q agents/ann.json", "ann"),
        ("rm topology.json; ln -s /etc/passwd topology.json", ""),
    ],
    ids=["cycle", "absent", "spec-gone", "symlink"],
)
def test_a_damaged_commit_widens_no_authority(host: HiveHost, script: str, says: str) -> None:
    """H2, H14: the last good commit stays in force, the refused one is shown beside it.

    What else is refused is in tests/security/test_manual_commits.py.
    """
    before = host.call("Status")["commit"]
    oid = commit_by_hand(host, script)
    host.until(
        lambda: oid in {row["commit"] for row in host.call("Status")["refused"]},
        f"{oid} is not shown as refused", 5,
    )  # fmt: skip
    status = host.call("Status")
    assert status["commit"] == before
    (shown,) = (
        refused_commit for refused_commit in status["refused"] if refused_commit["commit"] == oid
    )
    assert says in shown["reason"]
    assert shown["reason"]
    assert host.tree() == TREE
    assert host.ask("ann", "Stop", agent="lead").error == "NotAllowed"
    assert host.ask("cid", "Whoami")["parent"] == "ann"
    assert git(host, "rev-parse", "HEAD").strip() == before
    assert git(host, "cat-file", "-t", oid) == "commit\n"
    # Nor is it in the way of what comes next. What is no plain file is left to the operator.
    git(host, "reset", "-q", "--hard")
    assert host.call("Allow", agent="ben", other="rival")["allow"] == ["rival"]
    assert host.call("Disallow", agent="ben", other="rival")["allow"] == []


def test_rewritten_history_is_refused(host: HiveHost) -> None:
    """H2: a branch that no longer holds the head in force is parked, not adopted."""
    before = host.call("Status")["commit"]
    # At one stroke: a branch that was only set back would be set right before the next one.
    oid = commit_by_hand(host, "echo x >note && git add note", "commit --amend -m by-hand")
    host.until(
        lambda: oid in {row["commit"] for row in host.call("Status")["refused"]},
        "not parked",
        5,
    )
    assert host.call("Status")["commit"] == before
    assert oid[:8] in host.hive("status")
    assert host.tree() == TREE


def test_attack_59_changes_in_the_work_tree_have_no_effect_and_are_reverted(
    host: HiveHost,
) -> None:
    """H2: what is not committed changes nothing; the folder is the daemon's own copy."""
    before = files(host)
    for change in ("echo '{}' >topology.json", "rm topology.json", "echo '# x' >>flake.nix"):
        host.run(*AS_HIVE, "sh", "-c", f"cd {META} && {change}")
        assert host.tree() == TREE
        # Not `git status`, which locks the index for most of the time that it takes.
        host.until(lambda: files(host) == before, f"not restored after {change}")


def test_new_agents_are_children_of_their_creator_and_overrides_survive(host: HiveHost) -> None:
    """H3: an operator's hand commit is adopted within a second and kept by all that follows."""
    assert host.ask("ann", "Spawn", name="new-a", wait=20)["name"] == "new-a"
    host.hive("agent", "create", "new-o", "--no-wait")
    assert topology(host) == {**TREE, "new-a": "ann", "new-o": "root"}
    oid = commit_by_hand(host, edit("t['new-a']='island'"))
    # A second, and the command that looks.
    host.until(lambda: host.call("Status")["commit"] == oid, "not adopted", at_most(2))
    host.until(lambda: host.inside("island", "ls", "/agents") == "island\nnew-a\n", "no view")
    assert identity(host, "new-a")["parent"] == "island"
    host.hive("destroy", "new-o", "--yes")
    host.run("systemctl", "restart", "hived.service")
    host.close_connections()
    assert host.tree() == {**TREE, "new-a": "island"}
    host.wait("running", "ann")  # it was restarted, for it has lost new-a
    assert host.ask("ann", "Stop", agent="new-a").error == "NotFound"
    host.hive("destroy", "new-a", "--yes")
    host.wait("running", *TREE)
    assert topology(host) == TREE


def test_every_listing_shows_the_parent(host: HiveHost) -> None:
    """H5: and is read anew after each change, in the container too."""
    keys = {"name", "uuid", "parent", "role", "state", "activity", "children"}

    def check(node: Any) -> None:  # noqa: ANN401 - JSON is anything
        assert keys <= node.keys()
        assert TREE[node["name"]] == node["parent"]
        for child in node["children"]:
            check(child)

    for node in host.json("tree"):
        check(node)
    rows = host.ask("lead", "ListAgents")["agents"]
    assert {row["name"]: row["parent"] for row in rows} == {
        "root": None, "lead": "root", "ann": "lead", "ben": "lead", "cid": "ann", "rival": "root",
    }  # fmt: skip
    assert all(
        row.keys() == {"name", "uuid", "parent", "role", "title", "state", "activity", "quarantine"}
        for row in rows
    )
    host.hive("move", "cid", "--parent", "ben")
    try:
        assert host.tree()["cid"] == "ben"
        assert topology(host)["cid"] == "ben"
        assert host.ask("cid", "Whoami")["parent"] == "ben"
        assert host.ask("ben", "Whoami")["children"] == ["cid"]
        assert identity(host, "cid")["parent"] == "ben"
        assert identity(host, "ben")["children"] == ["cid"]
        assert identity(host, "ann")["children"] == []
        drawn = host.hive("tree").splitlines()
        assert any(line.startswith("│       └── cid") for line in drawn), drawn
    finally:
        host.hive("move", "cid", "--parent", "ann")


def test_a_subtree_moves_live_mounts_included(host: HiveHost) -> None:
    """H6: who moves is not restarted, with its descendants; files follow in running containers."""
    before = host.pids(*TREE)
    host.inside("cid", "sh", "-c", "echo deep >/agents/cid/state/note")
    assert host.inside("lead", "cat", "/agents/cid/state/note") == "deep\n"
    host.hive("move", "ann", "--parent", "rival")
    try:
        after = host.pids(*TREE)
        assert {name for name in TREE if before[name] != after[name]} == {"lead", "ben"}
        assert host.tree() == {**TREE, "ann": "rival"}
        assert host.inside("rival", "cat", "/agents/cid/state/note") == "deep\n"
        host.inside("rival", "sh", "-c", "echo from-rival >/agents/ann/state/note")
        assert host.inside("ann", "cat", "/agents/ann/state/note") == "from-rival\n"
        assert host.inside("lead", "ls", "/agents") == "ben\nlead\n"
        output = host.inside("lead", "sh", "-c", "find /tree -name note; ls /tree/kids | wc -l")
        assert output == "1\n"
        assert host.ask("rival", "Stop", agent="cid", wait=20)["agents"] == ["cid"]
        assert host.ask("lead", "Start", agent="cid").error == "NotFound"
        assert host.ask("rival", "Start", agent="cid", wait=20)["agents"] == ["cid"]
        assert host.run("hive", "why", "lead", "stop", "cid", check=False).returncode == 5
    finally:
        host.hive("move", "ann", "--parent", "lead")
        host.close_connections("cid")
    assert host.inside("lead", "cat", "/agents/ann/state/note") == "from-rival\n"


def test_open_handles_of_the_old_parent_are_revoked(host: HiveHost) -> None:
    """H6: whoever held a file of it is ended with its machine; who moves runs on.

    `test_revocation.py` has every way of holding that was thought of.
    """
    host.inside("ben", "touch", "/tree/state/held")
    hold = ["hive", "shell", "lead", "--", "sh", "-c", "exec 9</agents/ben/state/held; sleep 901"]
    holder = host.lab.popen(hold)
    try:
        grip = "ls -l /proc/[0-9]*/fd/9 2>/dev/null | grep -c held"
        host.until(lambda: host.inside("lead", "sh", "-c", grip, check=False) != "0\n", "no grip")
        ben = host.main_pid("ben")
        moved = host.call("Move", agent="ben", parent="rival", wait=50)
        assert "lead" in moved["restarts"]
        assert moved["revoked"]
        assert holder.wait(10) != 0
        assert host.main_pid("ben") == ben
    finally:
        holder.kill()
        holder.wait()
        host.call("Move", agent="ben", parent="lead", wait=50)
        host.wait("running", "lead", "rival", "ann")


def test_loops_are_refused(host: HiveHost) -> None:
    """H6, H14: never under itself or a descendant, whoever asks; unknown parents neither."""
    before = topology(host)
    for parent in ("lead", "ann", "cid"):
        assert host.call("Move", agent="lead", parent=parent).error == "NotAllowed"
        assert host.fails(5, "move", "lead", "--parent", parent)
        assert host.fails(5, "move", "lead", "--parent", parent, "--dry-run")
        assert host.ask("root", "Move", agent="lead", parent=parent).error == "NotAllowed"
    assert host.fails(4, "move", "lead", "--parent", "nobody")
    assert host.fails(4, "move", "nobody", "--parent", "lead")
    assert topology(host) == before


def test_only_common_ancestors_move_agents(host: HiveHost) -> None:
    """H6: an ancestor of both; making a root is the operator's."""
    assert host.ask("lead", "Move", agent="cid", parent="ben", wait=20)["parent"] == "ben"
    assert host.ask("lead", "Move", agent="cid", parent="lead", wait=20)["parent"] == "lead"
    assert host.ask("lead", "Move", agent="cid", parent="ann", wait=20)["live"] is True
    assert host.ask("lead", "Move", agent="cid", parent="root").error == "NotAllowed"
    assert host.ask("lead", "Move", agent="cid", parent="rival").error == "NotAllowed"
    assert host.ask("lead", "Move", agent="cid", parent="island").error == "NotFound"
    assert host.ask("root", "Move", agent="lead", parent="").error == "NotAllowed"
    assert host.ask("rival", "Move", agent="lead", parent="rival").error == "NotAllowed"
    before = host.pids(*TREE)
    host.hive("move", "lead", "--parent", "")
    assert host.tree() == {**TREE, "lead": None}
    assert host.ask("root", "Stop", agent="cid").error == "NotFound"
    assert host.inside("root", "ls", "/agents") == "rival\nroot\n"
    assert host.ask("lead", "Send", to="island", body="roots are no siblings").error == "NotFound"
    host.hive("move", "lead", "--parent", "root")
    after = host.pids(*TREE)
    assert {name for name in TREE if before[name] != after[name]} == {"root", "rival"}


@pytest.fixture
def family(host: HiveHost) -> Iterator[dict[str, str | None]]:
    """Below ann: mid, and below that low and low2."""
    host.grow(mid={"parent": "ann", "role": "lead"})
    host.grow(low="mid", low2="mid")
    host.inside("low", "sh", "-c", "echo mine >/agents/low/state/mine")
    yield {**TREE, "mid": "ann", "low": "mid", "low2": "mid"}
    host.close_connections("low")
    for name in host.tree().keys() - TREE.keys():
        host.call("Destroy", agent=name, wait=20)


def test_only_destroy_removes_an_agent_from_the_tree(
    host: HiveHost, family: dict[str, str | None]
) -> None:
    """K9: stop, kill and a crash leave it as it is."""
    for end in ("Stop", "Kill"):
        host.call(end, agent="mid", wait=20)
        assert host.tree() == family
        host.call("Start", agent="mid", wait=20)
    host.inside("mid", "sh", "-c", "kill -KILL -1", check=False)
    host.wait("failed", "mid")
    assert host.tree() == family
    assert host.ask("low", "Whoami")["parent"] == "mid"
    assert topology(host) == family


def test_destroy_moves_the_children_to_the_grandparent(
    host: HiveHost, family: dict[str, str | None]
) -> None:
    """K9: to the nearest living ancestor, live, with an event and a notice to both sides."""
    assert family["low"] == "mid"
    host.mail("ann")
    low = host.main_pid("low")
    gone = host.call("Destroy", agent="mid", wait=20)
    assert (gone["agents"], sorted(gone["adopted"])) == (["mid"], ["low", "low2"])
    assert gone["adopter"] == "ann"
    assert host.tree() == {**TREE, "low": "ann", "low2": "ann"}
    assert host.main_pid("low") == low
    for agent in ("ann", "low"):
        assert host.inside(agent, "cat", "/agents/low/state/mine") == "mine\n"
    assert identity(host, "low")["parent"] == "ann"
    (adopted,) = (message for message in host.mail("ann") if message["kind"] == "adopted")
    assert {"low", "low2"} <= set(adopted["body"].replace(",", " ").split())
    (notice,) = (message for message in host.mail("low") if message["kind"] == "adopted")
    assert (notice["relation"], "ann" in notice["body"]) == ("daemon", True)
    event = [event for event in host.events(last=20) if event["operation"] == "destroy"][-1]
    assert (event["target"], event["fields"]["adopted"]) == ("mid", ["low", "low2"])
