"""Hosts that several test files use, one file after the other.

A new host costs two and a half seconds of processor before its first agent. The files of one name
run in one process (tests/conftest.py), in the order in which they stand here. Each begins with the
root agent alone and with its settings; what the files before it left in the ledger is there.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import PurePath
from typing import Final

from e2e.hivehost import HiveHost
from e2e.labhost import Lab, LabError

FILES: Final = {
    "tree": (
        "test_rows_tree", "test_rows_views", "test_rows_authority", "test_rows_audit",
        "test_rows_roles", "test_move_live", "test_jobs_that_fail",
    ),
    "wire": ("test_rows_clients", "test_rows_wire", "test_cli_serve", "test_notify"),
    "models": (
        "test_models_host", "test_egress", "test_model_sockets", "test_attacks_data",
        "test_destroy_many", "test_daemon_life", "test_memory_short",
    ),
    "work": (
        "test_rows_settings", "test_rows_kill", "test_rows_machines", "test_rows_tasks",
        "test_rows_lives",
    ),
    "mail": (
        "test_rows_keeping", "test_rows_budgets", "test_rows_mail", "test_rows_questions",
        "test_rows_triggers",
    ),
    "config": (
        "test_config", "test_config_hostile", "test_reconcile_drift", "test_revocation",
        "test_attacks_starts",
    ),
    "plans": ("test_rows_plans", "test_rows_recovery"),
    "commands": (
        "test_cli_commands", "test_cli_inside", "test_container_attacks", "test_web",
        "test_attack_59",
    ),
    "clones": (
        "test_rows_pipelines", "test_rows_skills", "test_rows_subagents", "test_rows_clones",
        "test_rows_sessions", "test_rows_queens", "test_cli_runtimes", "test_rows_models",
    ),
    "chaos": ("chaos/test_agents", "chaos/test_bus", "chaos/test_disk", "chaos/test_reboot"),
    "privd": (  # a root helper without hived (privdhost.py)
        "test_privd_start", "test_privd_end", "test_privd_boot", "test_privd_limits",
        "test_privd_move", "test_privd_attacks", "test_privd_attacks_shared",
        "test_privd_attacks_probe", "test_privd_attacks_hived", "test_privd_jobs",
        "test_privd_stores", "test_privd_in_time", "test_privd_attacks_races",
    ),
}  # fmt: skip
# What files have set together: a daemon that is started again for other settings costs a second.
GRACE: Final = 3  # seconds
REAP: Final = 4
STARTS_AT_ONCE: Final = 4
STARTS: Final = f"""
[grace]
start = 3600
[back_off]
first = 0.05
most = 0.2
failures = 2
[limits]
starts_at_once = {STARTS_AT_ONCE}
"""
ARCHIVED: Final = 3  # seconds until what a destroyed agent leaves is deleted
SETTINGS: Final = {
    # Every refusal is recorded, however many of these tests a machine runs in one minute.
    "tree": '[limits]\nrefusals_kept = 100000\n[log]\njournal = "all"\n',
    "models": '[egress]\nallow = ["*.example.org:443"]\n',
    "work": f"[tasks]\ngrace = {GRACE}\n[back_off]\nfirst = 0.2\n[life]\nreap = {REAP}\n",
    "config": """
[deploy]
window = 0.7
generations = 4
[approvals]
pending = 100
a_day = 1000
[intake]
seconds = 15.0
[back_off]
most = 1
""",
    "mail": f"""
[limits]
inbox_count = 1000
[queues]
copies = "low"
[talk]
open = 3
critical = 1.5
[budgets]
stop = 1
[triggers]
webhooks = true
[tasks]
deadline = 600
[retention]
archive = {ARCHIVED}
""",
    "plans": "[daemons]\nqueen = true\n[talk]\nopen = 1000\nasked = 1000\n",
}
Agents = Mapping[str, dict[str, object]]
# An agent of files that follow each other; a start of a container costs a third of a second.
LEAD: Final[Agents] = {"lead": {"parent": "root", "role": "lead"}}
_NAMES: Final = {file: name for name, files in FILES.items() for file in files}
_PLACES: Final = {file: number for number, file in enumerate(_NAMES)}


def shared_name(node: str) -> str:
    """The name of the host of a test; empty when no other file uses its host."""
    return next((_NAMES[name] for name in _names_of(node) if name in _NAMES), "")


def shared_place(node: str) -> int:
    """The place of a file among those that share hosts; files that share none come after them."""
    return next((_PLACES[name] for name in _names_of(node) if name in _PLACES), len(_PLACES))


def _names_of(node: str) -> tuple[str, str]:
    """A file as FILES may name it: without its folder, or with it where others are called so."""
    path = PurePath(node.partition("::")[0]).with_suffix("")
    return path.name, "/".join(path.parts[-2:])


class SharedHost:
    """The host of the files that run now."""

    def __init__(self) -> None:
        self.name = ""
        self._written: dict[str, str] = {}  # files of /etc/hive, as the daemons have read them
        self._agents: Agents = {}
        self._host: HiveHost | None = None

    def prepare(
        self,
        name: str,
        settings: str | None = None,
        *,
        files: Mapping[str, str] | None = None,
        agents: Agents | None = None,
    ) -> HiveHost:
        """The host of this name with the root agent, these agents, settings and files of /etc/hive.

        An agent stays as it is, with an empty inbox, where the test file before had the same. The
        settings are those that its files have together, unless others are given. Files of the test
        file before are gone.
        """
        if settings is None:
            settings = SETTINGS.get(name, "")
        wanted = {**(files or {}), **({"hive.toml": settings} if settings else {})}
        before = self._agents.items()
        alike = {name: words for name, words in (agents or {}).items() if (name, words) in before}
        if self._host is None or self.name != name or not self._is_reset(self._host, wanted, alike):
            self.close()
            self._host = self._make(wanted)
            self.name = name
        self._agents = agents or {}
        there = self._host.tree()
        missing = {key: words for key, words in self._agents.items() if key not in there}
        if missing:
            self._host.grow(**missing)
        self._host.began = self._host.events(last=1)[0]["seq"]
        return self._host

    def close(self) -> None:
        if self._host is not None:
            self._host.close_connections()
            self._host.lab.stop()
            self._host = None

    def _make(self, wanted: Mapping[str, str]) -> HiveHost:
        host = HiveHost(Lab().start())
        try:
            self._written = {}
            self._write(host, wanted)
            host.setup()
        except BaseException:
            host.lab.stop()
            raise
        return host

    def _write(self, host: HiveHost, wanted: Mapping[str, str]) -> None:
        for file in self._written.keys() - wanted.keys():
            host.lab.path(f"/etc/hive/{file}").unlink()
        for file, text in wanted.items():
            path = host.lab.path(f"/etc/hive/{file}")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self._written = dict(wanted)

    def _is_reset(self, host: HiveHost, wanted: Mapping[str, str], alike: Agents) -> bool:
        """Remove the agents of the file before; False where a failed test left what cannot go."""
        try:
            host.close_connections()
            parents = {name: words["parent"] or None for name, words in alike.items()}
            parents["root"] = None
            tree = host.tree()
            staying = {name: tree[name] for name in tree if parents.get(name, "-") == tree[name]}
            host.prune(staying)
            for name in staying:
                while host.mail(name):
                    pass
            if wanted != self._written:
                self._replace(host, wanted)
        except (AssertionError, OSError, LabError, subprocess.SubprocessError):
            return False
        return True

    def _replace(self, host: HiveHost, wanted: Mapping[str, str]) -> None:
        """Have other settings in force. What only those before keep alive goes with them."""
        left = host.tree().keys() - {"root"}
        self._write(host, wanted)
        host.restart()
        host.run("systemctl", "try-reload-or-restart", "hive-model.service")
        host.prune({name: parent for name, parent in host.tree().items() if name not in left})
