"""The socket of the root helper and the table of its actions.

It speaks Varlink with its own codec: the only peer is hived, `actions.parse` checks each action,
and every line that root does not import is one less to trust. It serves one connection at a time
and does one action at a time, each with a time limit; long work is a job.
"""

import json
import os
import pwd
import signal
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from errno import EDQUOT, ENOSPC
from pathlib import Path
from typing import Any, Final

from hive_core.plan import actions as a
from hive_core.plan import render
from hive_core.plan.fields import Malformed
from hive_core.privd import mounts, tree, units

SOCKET: Final = Path(render.RUN, "privd.sock")
LIMIT: Final = 1 << 20
SECONDS: Final = 2.0  # for one action
_UNIX, _DATAGRAM = socket.AF_UNIX, socket.SOCK_DGRAM


class OutOfTime(Exception):
    """An action took too long. Not an OSError: many actions handle those."""


REFUSALS: Final[dict[object, str]] = {
    Malformed: "InvalidArgument", FileNotFoundError: "NotFound", FileExistsError: "Conflict",
    NotADirectoryError: "Conflict", ENOSPC: "StorageFull", EDQUOT: "StorageFull",
    OutOfTime: "TimedOut", ConnectionError: "TimedOut"}  # fmt: skip
DO: Final[dict[type[Any], Callable[[Any], bool | dict[str, object]]]] = {
    a.MakeNode: lambda x: tree.make_node(x.lineage),
    a.MoveNode: lambda x: tree.rename(tree.node(x.source), tree.node(x.target)),
    a.ArchiveNode: lambda x: tree.archive(x.lineage, x.uuid),
    a.RestoreNode: lambda x: tree.rename((tree.ARCHIVE, x.uuid), tree.node(x.lineage)),
    a.AdoptRoot: lambda x: tree.rename((tree.ROOTS, x.source), (tree.ROOTS, x.uuid)),
    a.DropArchive: lambda x: tree.drop(tree.ARCHIVE, x.uuid),
    a.DropRoot: lambda x: tree.drop(tree.ROOTS, x.uuid),
    a.MakeSocketDirectory: lambda x: tree.make_socket_directory(x.uuid),
    a.RemoveSocketDirectory: lambda x: (
        mounts.hide_stores(x.uuid) and tree.remove_socket_directory(x.uuid)
    ),
    a.Mount: mounts.mount, a.Unmount: lambda x: mounts.detach(x.uuid),
    a.ShowStore: mounts.show_store, a.StartUnit: units.start, a.StopUnit: units.stop,
    a.KillUnit: units.kill,
    a.SetSlice: lambda x: units.act(*render.set_slice(x)),
    a.ObserveUnit: units.observe, a.ObserveStorage: lambda _: tree.observe(), a.RunJob: units.start,
}  # fmt: skip


def answer(frame: bytes) -> dict[str, object]:
    """Check one call, apply its action, and return the reply."""
    try:
        done = _do(json.loads(frame))
    except Exception as error:  # noqa: BLE001 - the edge: every fault becomes a reply
        name = REFUSALS.get(getattr(error, "errno", 0)) or REFUSALS.get(type(error), "Internal")
        parameters = {"reason": str(error) or type(error).__name__}
        parameters = vars(error) if isinstance(error, Malformed) else parameters
        # The text may contain input, including lone surrogates.
        parameters = {key: ascii(text)[1:-1] for key, text in parameters.items()}
        return {"error": f"org.hive.Broker.{name}", "parameters": parameters}
    return {"parameters": {"result": {"changed": done} if isinstance(done, bool) else done}}


def _do(call: object) -> bool | dict[str, object]:
    match call:
        case {"method": "org.hive.Privd.Apply", "parameters": {"action": value}}:
            return _in_time(a.parse(value))
        case _:
            raise Malformed("method", "must be org.hive.Privd.Apply with an action")


def _in_time(action: Any) -> bool | dict[str, object]:  # noqa: ANN401 - one of DO
    """Apply an action within the time limit; one that was cut off can be repeated."""

    def cut_off(*_: object) -> None:
        raise OutOfTime(f"{type(action).__name__} took more than {SECONDS} s")

    signal.signal(signal.SIGALRM, cut_off)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        return DO[type(action)](action)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def converse(connection: socket.socket, peer: int) -> None:
    """Answer the calls of one connection, in order, if it is hived's."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    with connection, suppress(OSError):
        uid, pending = struct.unpack("3i", credentials)[1], b""
        while uid == peer and len(pending) <= LIMIT and (data := connection.recv(LIMIT)):
            *frames, pending = (pending + data).split(b"\0")
            for frame in frames:
                if _is_closed(connection):
                    return
                connection.sendall(json.dumps(answer(frame)).encode() + b"\0")


def _is_closed(connection: socket.socket) -> bool:
    """Whether the caller has given up and decides again, so that this action is too late."""
    with suppress(BlockingIOError):
        return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    return False


def main() -> None:
    """Serve until killed. Nothing is lost then, because hived asks again."""
    if len(sys.argv) > 1 or "NOTIFY_SOCKET" not in os.environ:
        from hive_core.privd import command_line  # noqa: PLC0415 - what serves does without it

        command_line.answer_person(sys.argv[1:])
    hive = pwd.getpwnam("hive")
    SOCKET.unlink(missing_ok=True)
    with socket.socket(_UNIX) as listener, socket.socket(_UNIX, _DATAGRAM) as systemd:
        listener.bind(bytes(SOCKET))
        os.chown(SOCKET, 0, hive.pw_gid)
        SOCKET.chmod(0o660)
        listener.listen()
        systemd.sendto(b"READY=1", os.environ["NOTIFY_SOCKET"])
        while True:
            converse(listener.accept()[0], hive.pw_uid)
