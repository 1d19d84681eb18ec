"""A host for the commands of the operator, with three agents."""

from __future__ import annotations

from e2e.hivehost import HiveHost
from e2e.shared_hosts import SharedHost


def make_command_host(shared: SharedHost) -> HiveHost:
    made = shared.prepare("commands")
    made.hive("agent", "create", "lead", "--role", "lead", "--", "hive-agent", "serve", "--",
              "tr", "a-z", "A-Z")  # fmt: skip
    made.hive("agent", "create", "worker", "--parent", "lead", "--role", "worker",
              "--", "sh", "-c", "echo hello from the worker; exec sleep 1000")  # fmt: skip
    made.hive("agent", "create", "other", "--role", "lead")
    return made
