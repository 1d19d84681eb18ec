"""Where a key is: in the files of a host and of its containers, and in its processes."""

from __future__ import annotations

import subprocess
from typing import Final

from e2e.hivehost import HiveHost

# Each script has the key on its standard input; what searches files also makes one to be found.
# In a container: the files that changed since, but those of the host, which are searched there.
# Those in memory are all read: mmap may write them without a new time.
_IN_CONTAINER: Final = r"""
key=$(cat); echo "$key" >/run/seen
find / \( -path /proc -o -path /sys -o -path /usr \) -prune -o \
    -type f \( -newerct @%d -o -fstype tmpfs \) -exec grep -laF -e "$key" {} + 2>/dev/null
rm /run/seen
"""
# Each file system once. Devices are skipped: find(1) takes what they are mounted on for files.
_IN_MEMORY: Final = r"""
key=$(cat); echo "$key" >/run/seen
mounts=$(findmnt --raw --noheadings --output FSROOT,MAJ:MIN,TARGET --types tmpfs |
    awk '$1 == "/" && !seen[$2]++ { print $3 }')
find $mounts -xdev -path /run/provider.log -o \
    -type f -exec grep -laF --devices=skip -e "$key" {} + 2>/dev/null
rm /run/seen
"""
_OF_PROCESSES: Final = (
    "cat >/tmp/pattern; grep -laF -f /tmp/pattern /proc/[0-9]*/environ"
    " /proc/[0-9]*/cmdline 2>/dev/null; rm /tmp/pattern; true"
)


def files_inside(host: HiveHost, agent: str, key: str, since: int) -> str:
    return _run_inside(host, agent, _IN_CONTAINER % since, key)


def processes_inside(host: HiveHost, agent: str, key: str) -> str:
    return _run_inside(host, agent, _OF_PROCESSES, key)


def processes(host: HiveHost, key: str) -> str:
    return _run(host, _OF_PROCESSES, key)


def files_in_memory(host: HiveHost, key: str) -> str:
    """Those of the host but the log of the provider, which has the key."""
    return _run(host, _IN_MEMORY, key)


def written_files(host: HiveHost, key: str) -> list[str]:
    """Those on the disk of the host: all that was written lies in layers over the machine's."""
    files = []
    for layer in host.lab.written_layers():
        grep = ["grep", "-rlaF", "--devices=skip", "-f", "-", str(layer)]
        done = subprocess.run(grep, input=key, capture_output=True, text=True, check=False)
        assert done.returncode in {0, 1}, done.stderr
        files += [line.removeprefix(str(layer)) for line in done.stdout.splitlines()]
    return files


def _run(host: HiveHost, script: str, key: str) -> str:
    return host.run("sh", "-c", script, text=key).stdout


def _run_inside(host: HiveHost, agent: str, script: str, key: str) -> str:
    """In a container, whose root it is there."""
    reply = host.call("Locate", agent=agent)
    enter = ("nsenter", f"--target={reply['leader']}", "--all", "--")
    return host.run(*enter, "sh", "-c", script, text=key).stdout
