"""Configurations of agents that mean no good, through real jobs: attacks 15 to 20 and 22."""

from __future__ import annotations

import json
from typing import Any

import pytest
from e2e.hivehost import HiveHost
from e2e.shared_hosts import SharedHost

pytestmark = pytest.mark.lab("slow")

CONFIG = "/agents/{}/config"
FRESH = "git reset -q --hard $(git rev-list --max-parents=0 HEAD); "
# As an agent that is root in its container; HOME is where it may write.
START = "set -e; cd /agents/$1/config; export HOME=/tree/state; "
TRAPS = """
for key in core.fsmonitor core.pager core.editor core.sshCommand diff.external diff.x.textconv \
    filter.x.clean filter.x.smudge uploadpack.packObjectsHook core.alternateRefsCommand; do
    git config $key 'touch /tree/state/sprung /out/sprung /tmp/sprung'
done
git config core.hooksPath .git/traps; mkdir -p .git/traps .git/hooks
for hook in post-checkout pre-commit reference-transaction post-index-change fsmonitor-watchman; do
    printf '#!/bin/sh\\ntouch /tree/state/sprung\\n' >.git/traps/$hook; chmod +x .git/traps/$hook
    cp .git/traps/$hook .git/hooks
done
echo '* diff=x filter=x' >.git/info/attributes
"""


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    """root above mum, mum above kid and imp."""
    hive_host = shared_host.prepare("config")
    hive_host.grow(mum="root", kid="mum", imp="mum")
    for name in ("kid", "imp"):
        hive_host.hive("cap", "grant", name, "config.propose")
    return hive_host


def sh(host: HiveHost, agent: str, script: str, where: str = "") -> str:
    """The last line that a script prints which an agent runs in its configuration."""
    done = host.inside(agent, "sh", "-c", START + script, "sh", where or agent)
    return done.strip().rpartition("\n")[2]


def make_commit(host: HiveHost, agent: str, script: str) -> str:
    """A commit that an agent makes in its own clone."""
    return sh(host, agent, f"{script}\ngit add -A; git commit -qm change; git rev-parse HEAD")


def request(
    host: HiveHost, commit: str, agent: str = "kid", by: str = "kid", source: str | None = None
) -> dict[str, Any]:
    """The approval once the commit is judged."""
    more = {} if source is None else {"source": source}
    done = host.ask(by, "RequestApplyCommit", agent=agent, commit=commit, message="why", **more)
    wanted, document = done["approval"], dict[str, Any]()

    def is_judged() -> bool:
        document.update(host.call("GetApproval", id=wanted, limit=10_000).parameters)
        return bool(document["approval"]["state"] != "received")

    host.until(is_judged, f"{wanted} is not judged", 60)
    return document


def refusal(host: HiveHost, commit: str) -> str:
    """Why a commit of kid's is refused."""
    approval = request(host, commit)["approval"]
    assert approval["state"] == "refused", approval
    return str(approval["reason"])


def trap_marks(host: HiveHost) -> str:
    """Where the traps left their mark, on the whole host."""
    ours = "find /var/lib/hive /run/hive -name sprung 2>/dev/null"
    everybodys = "find /tmp /var/tmp /root -maxdepth 2 -name sprung 2>/dev/null"
    return host.run("sh", "-c", f"{ours}; {everybodys}", check=False).stdout


def test_attack_15_and_16_traps_in_a_repository_run_nothing(host: HiveHost) -> None:
    """H9: the commit of imp is fine, and is judged; its parent works in a clone of its own."""
    commit = make_commit(host, "imp", "echo hello >notes.md")
    sh(host, "imp", TRAPS)
    result = request(host, commit, "imp", "imp")
    assert result["approval"]["state"] == "pending", result
    assert [row["text"] for row in result["lines"] if row["sign"] == "+"] == ["hello"]
    place = sh(host, "mum", "hive-agent config clone imp", "imp")
    assert place == "/agents/mum/state/configs/imp"
    mine = sh(
        host, "mum", f"cd {place}; echo better >>AGENTS.md; git status >/dev/null;"
        " git commit -qam better; git fetch -q; git rev-parse HEAD", "imp",
    )  # fmt: skip
    result = request(host, mine, "imp", "mum", "mum")["approval"]
    assert (result["state"], result["requester"], result["source"]) == ("pending", "mum", "mum")
    assert trap_marks(host) == ""
    sh(host, "imp", "git status >/dev/null 2>&1")
    assert trap_marks(host) != ""
    before = host.inside("imp", "cat", "/run/hive/config/AGENTS.md")
    assert "better" not in before
    host.hive("approval", "approve", result["id"], "--commit", mine[:8])
    deployed = ("cat", "/run/hive/config/AGENTS.md")
    host.until(
        lambda: "better" in host.inside("imp", *deployed, check=False), "it is not deployed", 60
    )


TREES = {
    "attack 19, a symbolic link": ("ln -s /etc/shadow link", "is a symbolic link"),
    "attack 19, a name with a control character": ("printf x >\"$(printf 'a\\033b')\"", "ASCII"),
    "attack 18, a large file": ("head -c 9000000 /dev/zero >zeros", "larger than 5242880 bytes"),
    "attack 18, too much to read": ("seq 500000 >numbers", "is larger than 4194304 bytes (diff)"),
    "a configuration that says what no host knows": (
        "printf '[request]\\ncapabilites = []\\n' >agent.toml", "did you mean capabilities?",
    ),
    "a configuration that cannot be read": ("echo '[' >agent.toml", "agent.toml"),
}  # fmt: skip


@pytest.mark.parametrize("damage", TREES)
def test_a_tree_that_breaks_a_rule_is_refused_with_its_place(host: HiveHost, damage: str) -> None:
    """Attacks 18 and 19; each alone on top of what is deployed."""
    script, reason = TREES[damage]
    assert reason in refusal(host, make_commit(host, "kid", FRESH + script))


OBJECTS = {
    "attack 19, a name that only looks plain": (
        "b=$(echo x | git hash-object -w --stdin);"
        " t=$(printf '100644 blob %s\\t.GIT \\n' $b | git mktree)", "",
    ),
    "attack 19, a submodule": (
        "t=$(printf '160000 commit %040d\\ts\\n' 1 | git mktree --missing)", "submodule",
    ),
    "attack 19, a mode with a zero before": (
        "e=$(git rev-parse HEAD:prompts); t=$( (printf '040000 d\\0'; printf %s $e | xxd -r -p) |"
        " git hash-object -t tree -w --stdin --literally)", "git",
    ),
    "attack 17, an object that is missing": (
        "t=$(printf '100644 blob %040d\\tf\\n' 1 | git mktree --missing)", "",
    ),
    "attack 18, files without number": (
        "b=$(echo x | git hash-object -w --stdin);"
        " t=$(printf '100644 blob %s\\tf\\n' $b | git mktree);"
        " for i in 1 2 3 4 5 6 7 8; do t=$(for j in 1 2 3 4 5 6 7 8; do"
        " printf '040000 tree %s\\t%s\\n' $t d$j; done | git mktree); done",
        "more than 15000 files",
    ),
}  # fmt: skip


@pytest.mark.parametrize("damage", OBJECTS)
def test_objects_made_by_hand_are_refused(host: HiveHost, damage: str) -> None:
    """Attacks 17, 18 and 19."""
    script, reason = OBJECTS[damage]
    commit = sh(host, "kid", f"{script}; git commit-tree -m x -p HEAD $t")
    assert reason in refusal(host, commit)


def test_attack_18_a_check_that_hangs_is_ended_and_delays_no_other(host: HiveHost) -> None:
    """A FIFO where git expects an object; another agent's commit is judged meanwhile."""
    commit = sh(host, "kid", "git commit-tree -m x -p HEAD HEAD^{tree}")
    sh(host, "kid", f"f=.git/objects/{commit[:2]}/{commit[2:]}; rm -f $f; mkfifo $f")
    hung = host.ask("kid", "RequestApplyCommit", agent="kid", commit=commit, message="x")[
        "approval"
    ]
    fine = make_commit(host, "mum", "echo fine >f")
    approval = request(host, fine, "mum", "root", source="mum")["approval"]
    assert approval["state"] == "pending"
    assert host.call("GetApproval", id=hung)["approval"]["state"] == "received"
    sh(host, "kid", f"f=.git/objects/{commit[:2]}/{commit[2:]}; rm -f $f; true")

    def is_ended() -> bool:
        return bool(host.call("GetApproval", id=hung)["approval"]["state"] == "refused")

    host.until(is_ended, "it hangs", 60)
    assert "within 15 seconds" in host.call("GetApproval", id=hung)["approval"]["reason"]


def test_attack_17_an_invalid_commit_name_is_refused_at_once(host: HiveHost) -> None:
    for name in ("HEAD", "--upload-pack=touch /tmp/sprung", "a" * 39, "A" * 40):
        reply = host.ask("kid", "RequestApplyCommit", agent="kid", commit=name, message="x")
        assert reply.error in ("InvalidArgument", "InvalidParameter"), reply
    assert "does not have this commit" in refusal(host, "1" * 40)


def test_attack_20_and_22_the_review_shows_exactly_what_is_deployed(host: HiveHost) -> None:
    script = (
        FRESH + "echo '* -diff export-ignore' >.gitattributes;"
        " printf 'kind \\342\\200\\256cruel\\033[2J\\n' >prompts/system.md"
    )
    result = request(host, make_commit(host, "kid", script))
    assert result["approval"]["state"] == "pending", result
    seen = [row["text"] for row in result["lines"] if row["path"] == "prompts/system.md"]
    assert "kind ⟨U+202E⟩cruel⟨U+001B⟩[2J" in seen
    shown = host.hive("approval", "show", result["approval"]["id"])
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert ".gitattributes: has no effect" in json.dumps(result, ensure_ascii=False)


def test_init_config_keeps_existing_files(host: HiveHost) -> None:
    """H8: a fresh template; the work of before lies beside it."""
    sh(host, "mum", "echo mine >mine")
    reply = host.ask("mum", "InitConfig", agent="mum", wait=30)
    assert not reply.error, reply
    assert sh(host, "mum", "git status --porcelain; cat .before/*/mine") == "mine"
    assert sh(host, "mum", "test -e mine || git rev-parse HEAD").isalnum()
