"""Branches of the tree: bounds that hold for one cannot be got round by making agents."""

from __future__ import annotations

from hive_core.model.agents.hive import Hive


def branch_top(hive: Hive, name: str) -> str:
    """The child of a root that the agent is or hangs below; a root is a branch by itself."""
    chain = (name, *hive.topology.lineage(name))
    return chain[-2] if len(chain) > 1 else name
