"""The tree of agents in which authority is tested, and the relations in it."""

from __future__ import annotations

from typing import Any

from e2e.hivehost import HiveHost
from e2e.shared_hosts import SharedHost

TREE: dict[str, str | None] = {
    "root": None, "lead": "root", "ann": "lead", "ben": "lead", "cid": "ann", "tom": "ann",
    "rival": "root", "island": None,
}  # fmt: skip
LIFECYCLE = ("Start", "Stop", "Restart", "Kill", "Update")


CHATTY = "echo a line of cid; echo second line >&2; while read -r x; do :; done; exec sleep 1000"


def above(agent: str) -> list[str]:
    ancestors, parent = [], TREE[agent]
    while parent is not None:
        ancestors.append(parent)
        parent = TREE[parent]
    return ancestors


def siblings(one: str, other: str) -> bool:
    return one != other and TREE[one] is not None and TREE[one] == TREE[other]


def sees(caller: str, target: str) -> bool:
    related = caller in above(target) or target in above(caller)
    return caller == target or related or siblings(caller, target)


def events_of_request(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without what the daemon tells of machines: starts, ends, activity."""
    return [event for event in events if event["caller"] != "daemon"]


AGENTS: dict[str, dict[str, object]] = {
    "lead": {"parent": "root", "role": "lead"}, "rival": {"parent": "root", "role": "lead"},
    "island": {"parent": ""}, "ann": {"parent": "lead", "role": "lead"},
    "ben": {"parent": "lead", "role": "worker"},
    "cid": {"parent": "ann", "role": "worker", "command": ["sh", "-c", CHATTY]},
    "tom": {"parent": "ann", "role": "task"},
}  # fmt: skip


def make_authority_host(shared: SharedHost) -> HiveHost:
    """A host on which the whole tree runs."""
    return shared.prepare("tree", agents=AGENTS)
