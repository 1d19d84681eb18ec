"""Starts containers without hive: the units that hive would make, or podman's.

Runs in a lab as root. Reads orders from standard input, one JSON object in a line, and answers each
with a line. All that can be done beforehand (nodes, mounts, roots) is done beforehand.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path[:1] = ["/usr/src/hive"]

from hive_core.plan import render  # noqa: E402 - after the path
from hive_core.plan.actions import AGENT_BASES, Mount, StartUnit, UnitLimits  # noqa: E402
from hive_core.privd import mounts, tree, units  # noqa: E402

FIRST = 5000  # ranges far from those of hive's own agents
PODMAN = ("podman", "--root=/srv/pod", "--runroot=/run/pod", "--storage-driver=vfs",
          "--cgroup-manager=cgroupfs", "--events-backend=none", "--log-level=error")  # fmt: skip


@dataclass(frozen=True)
class Container:
    """How to start one, how to end it, and the file in which its payload tells when it began."""

    start: Sequence[str]
    stop: Sequence[str]
    ready: Path

    def run(self) -> None:
        _do(self.start)

    def end(self) -> None:
        _do(self.stop)
        self.ready.unlink()


def _do(words: Sequence[str]) -> None:
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    if done.returncode:
        raise OSError(done.stderr.strip() or f"{words[0]} ended with {done.returncode}")


def unit(number: int, command: tuple[str, ...], *, boot: bool) -> Container:
    """A unit with the very properties and words that hive gives it, and another name."""
    uuid, base = f"{number:08x}-0000-4000-8000-{number:012x}", AGENT_BASES[FIRST + number]
    lineage, name = (uuid[:8],), f"bare-{number}"
    tree.make_node(lineage)
    tree.make_socket_directory(uuid)
    mounts.mount(Mount(uuid, lineage, base, "host"))
    action = StartUnit(
        uuid=uuid, name=name, nonce=1, spec="0" * 16, base=base, slice=(), limits=UnitLimits(),
        image="host", boot=boot, parent="root", command=command, patience=120_000,
    )  # fmt: skip
    host, place = units.host(), tree.MOUNTS / uuid
    argv = render.agent_argv(host, action)
    (place / "harness").write_text(render.harness(command))
    (place / "argv").write_text("".join(f"{word}\0" for word in argv))
    words = [word.replace(f"hive-agent@{name}", name) for word in render.systemd_run(host, action)]
    words.remove("--no-block")  # it comes back when the container has told that it is ready
    stop = ("sh", "-c", f"systemctl kill -s KILL {name}; systemctl stop {name} 2>/dev/null; :")
    return Container(words, stop, Path(tree.TREE, uuid[:8], "state/ready"))


def podman(number: int, command: tuple[str, ...], *, boot: bool) -> Container:
    """A root of its own, the machine's /usr, a user namespace, no network; no control group."""
    if boot:
        raise ValueError("nothing boots without control groups")
    root, base = Path(f"/srv/roots/{number}"), AGENT_BASES[FIRST * 2 + number]
    for place in ("usr", "proc", "sys", "dev", "tmp", "run", "etc", "root", "tree/state"):
        (root / place).mkdir(parents=True)
    for link in ("bin", "sbin", "lib", "lib64"):
        (root / link).symlink_to(f"usr/{link}")
    for path in (root, *root.rglob("*")):
        os.lchown(path, base, base)
    start = (
        *PODMAN, "run", "--detach", "--rm", f"--name=p{number}", "--network=none", "--no-hosts",
        "--cgroups=disabled", f"--uidmap=0:{base}:65536", "--volume=/usr:/usr:ro", "--rootfs",
        str(root), *command,
    )  # fmt: skip
    return Container(start, (*PODMAN, "kill", f"p{number}"), root / "tree/state/ready")


def start_all(containers: Sequence[Container], at_once: int) -> float:
    """Seconds until all of them were told to run, and had said so themselves."""
    with ThreadPoolExecutor(at_once) as pool:
        began = time.time()
        list(pool.map(Container.run, containers))
        now = time.time()
    said = max(map(_start_stamp, containers))
    return max(now, said) - began


def _start_stamp(container: Container) -> float:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if container.ready.exists() and (text := container.ready.read_text()):
            return float(text)
        time.sleep(0.001)
    raise TimeoutError(f"{container.start[-1]} never began")


WAYS: dict[str, Callable[..., Container]] = {"unit": unit, "podman": podman}


def main() -> None:
    way, known = WAYS[sys.argv[1]], dict[int, Container]()
    for line in sys.stdin:
        order = json.loads(line)
        try:
            answer: dict[str, object] = {"seconds": _obey(order, way, known)}
        except (OSError, ValueError, subprocess.SubprocessError) as problem:
            answer = {"error": str(problem)}
        print(json.dumps(answer), flush=True)


def _obey(
    order: dict[str, Any], way: Callable[..., Container], known: dict[int, Container]
) -> float:
    numbers = range(order["first"], order["first"] + order["count"])
    for number in numbers:
        if number not in known:
            known[number] = way(number, tuple(order["command"]), boot=order["boot"])
    chosen = [known[number] for number in numbers]
    seconds = start_all(chosen, order["at_once"])
    with ThreadPoolExecutor(order["at_once"]) as pool:
        list(pool.map(Container.end, chosen))
    return seconds


if __name__ == "__main__":
    os.environ["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    main()
