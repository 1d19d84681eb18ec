"""`scripts/lab`: runs one command in a lab of its own and ends as the command ended."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from e2e.labhost import (
    Lab,
    LabError,
    bare_environment,
    environment,
    fresh_lab,
    trixie_tree,
)

USAGE = "usage: scripts/lab [--trixie | --fresh] [--publish PORT:INSIDE] [--] COMMAND..."
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_GRACE_SECONDS = 5.0
# Accepts from the socket that it inherits as $1, and connects to the port $2 of the lab.
_FORWARD = (
    'exec 3<&"$1"; LISTEN_FDS=1 LISTEN_PID=$$ '
    'exec /lib/systemd/systemd-socket-proxyd "127.0.0.1:$2"'
)


def main(arguments: list[str]) -> int:
    kind = published = ""
    if arguments[:1] in (["--trixie"], ["--fresh"]):
        kind, arguments = arguments[0], arguments[1:]
    if arguments[:1] == ["--publish"] and arguments[1:]:
        published, arguments = arguments[1], arguments[2:]
    if arguments[:1] == ["--"]:
        arguments = arguments[1:]
    if not arguments or arguments[0].startswith("-"):
        sys.stderr.write(USAGE + "\n")
        return 0 if arguments in (["-h"], ["--help"]) else 2
    name = os.environ.get("LAB_NAME", "lab")
    try:
        with _listen(published) as door, _make_lab(kind, name) as lab, forward_port(lab, door):
            # What is set here for pip, git or apt would be heeded on a machine that has none of it.
            bare = kind == "--fresh"
            return _run(lab, arguments, bare_environment() if bare else environment(os.environ))
    except LabError as error:
        sys.stderr.write(f"lab: {error}\n")
        return 1


@contextlib.contextmanager
def _listen(published: str) -> Iterator[tuple[socket.socket, str] | None]:
    """The socket of the machine whose connections go to a port of the lab, if one is to."""
    outside, _, inside = published.partition(":")
    if not published:
        yield None
    elif outside.isdecimal() and inside.isdecimal():
        try:
            listening = socket.create_server(("127.0.0.1", int(outside)))
        except (OSError, OverflowError) as error:
            raise LabError(f"cannot listen on 127.0.0.1:{outside}: {error}") from error
        with listening:
            yield listening, inside
    else:
        raise LabError(f"cannot publish {published!r}: it is not PORT:INSIDE")


@contextlib.contextmanager
def forward_port(lab: Lab, door: tuple[socket.socket, str] | None) -> Iterator[None]:
    """Hand the connections of the machine's socket on to the lab, which has its own network."""
    if door is None:
        yield
        return
    listening, inside = door
    command = ("bash", "-c", _FORWARD, "bash", str(listening.fileno()), inside)
    with subprocess.Popen(
        lab.argv(command), env=environment(), pass_fds=(listening.fileno(),)
    ) as forwarder:
        try:
            yield
        finally:
            forwarder.kill()


def _make_lab(kind: str, name: str) -> Lab:
    if kind == "--fresh":
        return fresh_lab(name)
    return Lab(name, trixie_tree() if kind == "--trixie" else Path("/"))


def _run(lab: Lab, command: list[str], variables: dict[str, str]) -> int:
    here = str(Path.cwd())
    cwd = here if lab.path(here).is_dir() else "/"
    early: list[int] = []  # what came before there was anybody to hand it on to
    for number in _FORWARDED:
        signal.signal(number, lambda got, _: early.append(got))
    process = subprocess.Popen(lab.argv(command, cwd), env=variables)
    for number in _FORWARDED:
        signal.signal(number, lambda got, _: _forward(process, got))
    for got in early:
        _forward(process, got)
    status = process.wait()
    # A process that a signal ended is reported as shells do.
    return status if status >= 0 else 128 - status


def _forward(process: "subprocess.Popen[bytes]", number: int) -> None:
    """Hand a signal on, and pull the plug when it does not help; a terminal does the former."""
    if number == signal.SIGINT and sys.stdin.isatty():
        return
    with contextlib.suppress(OSError, IndexError, ValueError):
        task = f"/proc/{process.pid}/task/{process.pid}/children"
        os.kill(int(Path(task).read_text().split()[0]), number)
    signal.signal(signal.SIGALRM, lambda *_: process.kill())
    signal.setitimer(signal.ITIMER_REAL, _GRACE_SECONDS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
