"""The tree of agents that clients call: a lead with a child, another lead, and one that echoes."""

from __future__ import annotations

from e2e.hivehost import HiveHost
from e2e.shared_hosts import SharedHost

TREE: dict[str, str | None] = {
    "root": None, "lead": "root", "kid": "lead", "other": "root", "echo": "root",
}  # fmt: skip
_ECHO = (
    "read -r x; case $x in bad*) echo tried >&2; exit 1;; quiet*) ;;"
    ' *) echo "$HIVE_FROM:$HIVE_RELATION:$x";; esac'
)


_AGENTS: dict[str, dict[str, object]] = {
    "lead": {"parent": "root", "role": "lead", "title": "Chief"},
    "other": {"parent": "root", "role": "lead"},
    "echo": {"parent": "root", "command": ["hive-agent", "serve", "--", "sh", "-c", _ECHO]},
    "kid": {
        "parent": "lead", "role": "worker", "command": ["sh", "-c", "env; exec sleep 1000"],
    },
}  # fmt: skip


def make_echo_host(shared: SharedHost) -> HiveHost:
    """A host on which the whole tree runs."""
    return shared.prepare("wire", agents=_AGENTS)
