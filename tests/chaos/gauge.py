"""What the host holds, measured every few seconds until the input ends; plain Python only.

Runs as root of the host and prints one JSON object for each look.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path

STATE, RUNTIME = Path("/var/lib/hive"), Path("/run/hive")
TICKS = os.sysconf("SC_CLK_TCK")


def process(unit: str) -> dict[str, float]:
    """Of the unit's main process: nothing while there is none."""
    words = ["systemctl", "show", "--value", "-p", "MainPID", f"{unit}.service"]
    pid = subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
    try:
        folder = Path("/proc", pid)
        status = dict(
            line.split(":", 1) for line in (folder / "status").read_text().splitlines()
        )  # fmt: skip
        stat = (folder / "stat").read_text().rpartition(")")[2].split()
        return {
            "pid": int(pid),
            "rss": int(status["VmRSS"].split()[0]) / 1024,
            "threads": int(status["Threads"]),
            "fds": len(os.listdir(folder / "fd")),  # noqa: PTH208 - plain and quick
            "cpu": (int(stat[11]) + int(stat[12])) / TICKS,
        }
    except (OSError, KeyError):
        return {}


def size(path: Path) -> float:
    """In MiB."""
    return path.stat().st_size / (1 << 20) if path.exists() else 0.0


def entries(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir()) if path.is_dir() else []


def folders(path: str) -> list[str]:
    return sorted(folder for folder, _, _ in os.walk(path))


def look() -> dict[str, object]:
    return {
        "at": time.time(),
        "hived": process("hived"),
        "privd": process("hive-privd"),
        "wal": size(STATE / "hive.db-wal"),
        "database": size(STATE / "hive.db"),
        "mounts": [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()],
        "groups": folders("/sys/fs/cgroup/systemd"),
        "socket_directories": entries(RUNTIME / "agents"),
        "exits": entries(RUNTIME / "exits"),
        "roots": entries(STATE / "roots"),
        "archived": entries(STATE / "tree/.archive"),
        "journal": sum(size(path) for path in Path("/var/log/journal").rglob("*.journal")),
        "processes": sum(name.name.isdigit() for name in Path("/proc").iterdir()),
    }


def main() -> None:
    every = float(sys.argv[1])
    while True:
        sys.stdout.write(json.dumps(look()) + "\n")
        sys.stdout.flush()
        if select.select([sys.stdin], [], [], every)[0]:
            return


if __name__ == "__main__":
    main()
