"""What lies outside of containers for the probe of `tests/probe`, and what the probe says of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from e2e.labhost import Lab

PROBE: Final = "/usr/src/hive/tests/probe/probe.py"  # in a lab
WORD: Final = "a-word-of-the-host"
CANARIES: Final = """
import ctypes, os, socket, sys, time
LIBC = ctypes.CDLL(None)
files = {"/root/canary": 0o600, "/var/lib/canary": 0o644, "/srv/canary": 0o666}
for path, mode in files.items():
    with open(path, "w") as file:
        file.write(sys.argv[1])
    os.chmod(path, mode)
tcp = socket.socket(); tcp.bind(("127.0.0.1", 7777)); tcp.listen()
held = [tcp]
os.makedirs("/nix/var/nix/daemon-socket", exist_ok=True)
nix = "/nix/var/nix/daemon-socket/socket"
for address in ("\\0canary", "/run/canary.sock", nix):
    wire = socket.socket(socket.AF_UNIX); wire.bind(address); wire.listen(); held.append(wire)
os.chmod("/run/canary.sock", 0o777)
os.chmod(nix, 0o777)
assert LIBC.shmget(0x1234, 4096, 0o1666) >= 0
assert LIBC.mq_open(b"/canary", os.O_CREAT | os.O_RDWR, 0o666, None) >= 0
assert LIBC.syscall(248, b"user", b"canary", b"secret", 6, -4) >= 0
print(os.getpid(), flush=True)
time.sleep(3600)
"""


@contextmanager
def canaries(lab: Lab) -> Iterator[int]:
    """Files, sockets, shared memory, a queue and a key of the host; the process that has them."""
    command = ["/usr/bin/env", f"CANARY={WORD}", "/usr/bin/python3", "-Ic", CANARIES, WORD]
    outside = lab.popen(command, stdout=-1)
    assert outside.stdout is not None
    try:
        yield int(outside.stdout.readline())
    finally:
        outside.kill()
        outside.communicate()


def options(pid: int, *more: str) -> list[str]:
    """What the probe knows of the outside; words are spelled backwards."""
    return ["--json", "--pid", str(pid), f"--word={WORD[::-1]}", "--tcp=127.0.0.1:7777",
            "--abstract=canary", "--unix=/run/canary.sock", "--ipc=0x1234", "--mq=canary",
            "--key=canary", "--canary=root/canary", "--canary=var/lib/canary",
            "--canary=srv/canary", "--canary=var/lib/hive/tree", "--shared=/tree/state",
            "--mine=/run/host/notify", "--mine=/run/hive/broker.sock",
            "--mine=/run/hive/model.sock", *more]  # fmt: skip


def escapes(rows: dict[str, dict[str, Any]]) -> dict[str, str]:
    """What got out of the container; what was merely gained within it is another matter."""
    return {
        name: row["detail"]
        for name, row in rows.items()
        if row["outcome"] == "ESCAPED" and not row["inside"]
    }
