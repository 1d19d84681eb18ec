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


def make_echo_host(shared: SharedHost) -> HiveHost:
    """A host on which the whole tree runs."""
    made = shared.prepare("wire")
    made.grow(lead={"role": "lead", "title": "Chief"}, other={"role": "lead"},
              echo={"command": ["hive-agent", "serve", "--", "sh", "-c", _ECHO]})  # fmt: skip
    command = ["sh", "-c", "env; exec sleep 1000"]
    made.grow(kid={"parent": "lead", "role": "worker", "command": command})
    return made
