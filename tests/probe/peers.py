"""The probe pointed at containers of others, with their defaults, on a host of its own.

`PYTHONPATH=.:tests python -m probe.peers` (as root) prints a table. Nothing of it stays.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from e2e.labhost import Lab
from e2e.probe_targets import CANARIES, WORD
from e2e.test_privd_attacks_probe import PLAIN
from typing_extensions import override

PROBE = "/usr/src/hive/tests/probe/probe.py"
PYTHON = ["/usr/bin/python3", "-I", PROBE]
_NSPAWN = ["systemd-run", "--quiet", "--wait", "--pipe", "systemd-nspawn", "--quiet",
           "--settings=no", "--register=no", "--keep-unit", "--directory=/srv/plain",
           "--bind-ro=/usr", "--bind-ro=/srv/ro:/applied", "--bind=/srv/rw:/tree",
           "--as-pid2"]  # fmt: skip
# The lab's control groups are only half of version 2, which crun refuses.
_PODMAN = ["podman", "run", "--rm", "--network=none", "--cgroups=disabled", "--rootfs",
           "--volume=/usr:/usr:ro", "--volume=/srv/ro:/applied:ro", "--volume=/srv/rw:/tree",
           "/srv/plain"]  # fmt: skip
PEERS = {
    "systemd-nspawn": _NSPAWN,
    "systemd-nspawn --private-network": [*_NSPAWN, "--private-network"],
    "podman run --network=none, rootful": _PODMAN,
}


class UnifiedLab(Lab):
    @override
    def _cgroup_version(self) -> str:
        return "unified"


def options(pid: str) -> list[str]:
    """Facts about the outside, as options for the probe."""
    return ["--json", "--pid", pid, f"--word={WORD[::-1]}", "--tcp=127.0.0.1:7777",
            "--abstract=canary", "--unix=/run/canary.sock", "--ipc=0x1234", "--mq=canary",
            "--key=canary", "--canary=root/canary", "--canary=var/lib/canary", "--shared=/tree",
            "--structure=/applied", "--mine=/run/host/notify"]  # fmt: skip


def probe(lab: Lab, command: Sequence[str]) -> list[dict[str, object]]:
    done = lab.run(command, check=False, timeout=120)
    if not done.stdout.startswith("{"):
        raise SystemExit(done.stdout + done.stderr)
    rows: list[dict[str, object]] = json.loads(done.stdout)["attempts"]
    return rows


def main() -> None:
    with UnifiedLab() as lab:
        outside = lab.popen(["/usr/bin/python3", "-Ic", CANARIES, WORD], stdout=-1)
        assert outside.stdout is not None
        pid = outside.stdout.readline().strip()
        lab.run(["sh", "-ec", f"{PLAIN}\nmkdir /srv/plain/proc /srv/plain/sys /srv/plain/dev"])
        sys.stdout.write("| container | got out | by |\n| --- | --- | --- |\n")
        for name, command in PEERS.items():
            rows = probe(lab, [*command, *PYTHON, *options(pid)])
            out = [str(row["name"]) for row in rows
                   if row["outcome"] == "ESCAPED" and not row["inside"]]  # fmt: skip
            tried = sum(row["outcome"] != "not applicable" for row in rows)
            sys.stdout.write(f"| {name} | {len(out)} of {tried} | {', '.join(out)} |\n")
        outside.kill()
        outside.communicate()


if __name__ == "__main__":
    main()
