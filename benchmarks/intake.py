"""From a request to its judgement, through both jobs in their containers on a real host: a commit
of 10,000 files, a small one, and those of agents that mean no good.

The peer does with git alone what both jobs begin with: a clone over upload-pack and a strict fsck
of what came, in the agent's own container, without any container started.
"""

import shlex
import time
from collections.abc import Iterator
from statistics import median

from e2e.hivehost import HiveHost
from e2e.labhost import Lab

from benchmarks.report.rows import Row, beside

SECONDS = 5.0  # what hangs is given so long here
SETTINGS = f"""
[approvals]
pending = 1000
a_day = 10000
[intake]
seconds = {SECONDS}
"""
SMALL = "echo be kind >AGENTS.md; git add -A; git commit -qm x"
MANY = """
python3 - <<'END'
import os
for number in range(10_000):
    os.makedirs(f"skills/{number // 100}", exist_ok=True)
    with open(f"skills/{number // 100}/{number}.md", "w") as file:
        file.write(f"skill {number}\\nsays so\\nand no more\\n")
END
git add -A; git commit -qm x
"""
BOMB = """
b=$(echo x | git hash-object -w --stdin); t=$(printf '100644 blob %s\\tf\\n' $b | git mktree)
for i in 1 2 3 4 5 6 7 8 9 10; do
    t=$(for j in 0 1 2 3 4 5 6 7 8 9; do printf '040000 tree %s\\td%s\\n' $t $j; done | git mktree)
done
git update-ref HEAD $(git commit-tree -m x $t)
"""
HOSTILE = {
    "a symbolic link": "ln -s / link; git add -A; git commit -qm x",
    "a pack of 80 MiB": "for i in $(seq 20); do head -c 4194304 /dev/urandom >$i; done;"
    " git add -A; git commit -qm x",
    "30,000 objects": "seq 30000 | split -l 1 -a 4 - f; git add -A; git commit -qm x",
    "a blob of 500 MiB of zeros": "head -c 524288000 /dev/zero >z; git add -A; git commit -qm x",
    "ten thousand million files in 12 objects": BOMB,
    "an object that is missing": "echo x >x; git add -A; git commit -qm x;"
    " b=$(git rev-parse HEAD:x); rm -f .git/objects/$(echo $b | sed 's,^..,&/,')",
    f"an object that hangs (bound {SECONDS:g} s)": "echo y >y; git add -A; git commit -qm x;"
    " f=.git/objects/$(git rev-parse HEAD:y | sed 's,^..,&/,'); rm -f $f; mkfifo $f",
}
REFS = (
    SMALL + '; c=$(git rev-parse HEAD); seq 300000 | sed "s,.*,$c refs/heads/b&," >.git/packed-refs'
)
PEER = (
    "rm -rf /tree/state/p; git clone -q --bare --no-local . /tree/state/p;"
    " git -C /tree/state/p fsck --strict"
)
ROUNDS = 5


def run() -> list[Row]:
    with Lab() as lab:
        host = HiveHost(lab)
        host.settings(SETTINGS)
        host.setup()
        try:
            return list(_rows(host))
        finally:
            host.close_connections()


def _rows(host: HiveHost) -> Iterator[Row]:
    yield _beside(host, "intake of a small commit, p50", _agent_with_commit(host, SMALL), ROUNDS)
    yield _beside(host, "intake of 10,000 files, p50", _agent_with_commit(host, MANY), 3)
    yield _row(
        "intake beside 300,000 refs",
        _judgement_time(host, _agent_with_commit(host, REFS), "pending"),
    )
    for label, script in HOSTILE.items():
        yield _row(
            f"refusal: {label}", _judgement_time(host, _agent_with_commit(host, script), "refused")
        )


def _beside(host: HiveHost, name: str, agent: str, rounds: int) -> Row:
    value = median(_judgement_time(host, agent, "pending") for _ in range(rounds))
    peer = beside("git clone, git fsck", lambda: median(_peer(host, agent) for _ in range(rounds)))
    if isinstance(values := peer.get("peer_value"), float):
        peer["peer_value"] = values * 1e3
    return {**_row(name, value), **peer}


def _row(name: str, seconds: float) -> Row:
    return {"name": name, "value": seconds * 1e3, "unit": "ms"}


def _agent_with_commit(host: HiveHost, script: str) -> str:
    """A fresh agent with a commit of this script's in its configuration."""
    name = f"a{len(host.tree())}"
    host.grow(**{name: "root"})
    host.hive("cap", "grant", name, "config.propose")
    _inside(host, name, f"{script}\n")
    return name


def _inside(host: HiveHost, agent: str, script: str) -> str:
    start = f"set -e; cd /agents/{agent}/config; export HOME=/tree/state; "
    return host.inside(agent, "sh", "-c", start + script).strip()


def _judgement_time(host: HiveHost, agent: str, state: str) -> float:
    """Seconds from the call to the judgement of a new commit with the same tree."""
    again = "git commit-tree -m x -p HEAD HEAD^{tree} 2>/dev/null || git rev-parse HEAD"
    commit = _inside(host, agent, again)
    started = time.perf_counter()
    reply = host.ask(agent, "RequestApplyCommit", agent=agent, commit=commit, message="x")
    while True:
        row = host.call("GetApproval", id=reply["approval"], limit=1)["approval"]
        if row["state"] != "received":
            break
        time.sleep(0.005)
    assert row["state"] == state, shlex.quote(str(row))
    taken = time.perf_counter() - started
    if state == "pending":
        host.call("Deny", id=row["id"], why="measured")
    return taken


def _peer(host: HiveHost, agent: str) -> float:
    """Seconds of the peer in the container of the agent, without the time to enter it."""
    timed = f"s=$(date +%s%N); {PEER} >/dev/null 2>&1; e=$(date +%s%N); echo $((e - s))"
    return int(_inside(host, agent, timed)) / 1e9
