"""The control groups of one lab, in every hierarchy that the machine has mounted.

Without groups of its own a lab's systemd would take the groups of the machine for its own: two
labs would share their slices, and what they made would stay behind.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# Version 1 wants these set up before a process may enter, and systemd does not use them.
_LEFT_ALONE = {"cpuset", "freezer", "hugetlb", "rdma", "misc", "perf_event", "net_cls", "net_prio"}

_MOST_MEMORY = ("memory.max", "memory.limit_in_bytes")  # of version 2, and of version 1


class _Hierarchy(NamedTuple):
    mounted: Path
    version: int
    names: frozenset[str]


class Groups:
    def __init__(self, name: str) -> None:
        self._hierarchies = list(_hierarchies())
        self.paths = [hierarchy.mounted / name for hierarchy in self._hierarchies]

    def make(self) -> None:
        for hierarchy, path in zip(self._hierarchies, self.paths, strict=True):
            if hierarchy.version == 2:
                _hand_down(hierarchy.mounted)
            path.mkdir()
            with contextlib.suppress(OSError):
                # The machine's own processes count one by one beside it: it counts as two of them.
                (path / "cpu.shares").write_text(str(2 * 1024))

    def bound_memory(self, most: int) -> None:
        """Give all processes of the lab together so many bytes at most, cached files too."""
        files = [path / name for path in self.paths for name in _MOST_MEMORY]
        for file in filter(Path.exists, files):
            file.write_text(str(most))

    def memory_in_use(self) -> int:
        """Bytes that cannot be freed by dropping copies of files."""
        for path in self.paths:
            if any((path / name).exists() for name in _MOST_MEMORY):
                rows = (line.split() for line in (path / "memory.stat").read_text().splitlines())
                counts = {name: int(count) for name, count in rows}
                names = ("anon", "shmem") if "anon" in counts else ("total_rss", "total_shmem")
                return sum(counts[name] for name in names)
        raise RuntimeError("no hierarchy counts memory")

    def process_files(self) -> list[str]:
        """The files to write a process id to so that it enters the groups."""
        return [str(path / "cgroup.procs") for path in self.paths]

    def process_files_of(self, pid: int) -> list[str]:
        """The same for the groups that a process is in now."""
        places = dict(_places(pid))
        return [
            f"{hierarchy.mounted}{places[hierarchy.names]}/cgroup.procs"
            for hierarchy in self._hierarchies
        ]


def _hierarchies() -> Iterator[_Hierarchy]:
    """https://man7.org/linux/man-pages/man5/proc_pid_mountinfo.5.html"""
    known = {names for names, _ in _places("self")}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, after = line.split(" - ", 1)
        kind, _, options = after.split(" ", 2)
        mounted = Path(before.split()[4])
        if kind == "cgroup2":
            yield _Hierarchy(mounted, 2, frozenset())
        elif kind == "cgroup":
            names = [set(names) for names in known if names and names <= set(options.split(","))]
            for name in names:
                if not name & _LEFT_ALONE:
                    yield _Hierarchy(mounted, 1, frozenset(name))


def _places(pid: int | str) -> Iterator[tuple[frozenset[str], str]]:
    """https://man7.org/linux/man-pages/man7/cgroups.7.html, /proc/pid/cgroup"""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        yield frozenset(names.split(",")) - {""}, "" if path == "/" else path


def _hand_down(parent: Path) -> None:
    """Let groups below have the controllers; refused where the machine's own processes sit."""
    for controller in (parent / "cgroup.controllers").read_text().split():
        with contextlib.suppress(OSError):
            (parent / "cgroup.subtree_control").write_text(f"+{controller}")
