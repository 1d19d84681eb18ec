"""The tree of agents in which files, views and moves are tested."""

from __future__ import annotations

from e2e.authority_tree import CHATTY
from e2e.hivehost import HiveHost
from e2e.shared_hosts import SharedHost

TREE = {
    "root": None, "lead": "root", "ann": "lead", "ben": "lead", "cid": "ann", "rival": "root",
    "island": None,
}  # fmt: skip
_AGENTS: dict[str, dict[str, object]] = {
    "lead": {"parent": "root", "role": "lead"}, "rival": {"parent": "root", "role": "lead"},
    "island": {"parent": ""}, "ann": {"parent": "lead", "role": "lead"},
    "ben": {"parent": "lead", "role": "lead"},
    "cid": {"parent": "ann", "role": "worker", "command": ["sh", "-c", CHATTY]},
}  # fmt: skip


def make_family_host(shared: SharedHost) -> HiveHost:
    """A host on which the whole tree runs."""
    return shared.prepare("tree", agents=_AGENTS)
