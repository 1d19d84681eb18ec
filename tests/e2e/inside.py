"""A process in the container of an agent: what comes to it goes on to a socket of the agent.

Each connection to it becomes one that it makes in there, so that the daemon is called by who it
says, from where it says. Starting Python in the container would take a hundred times as long.
"""

from __future__ import annotations

import ctypes
import os
import socket
import threading
from collections.abc import Iterable
from typing import Final

BROKER: Final = "/run/hive/broker.sock"
MODEL: Final = "/run/hive/model.sock"
# cgroup, ipc, uts, user, pid, net, mount: https://man7.org/linux/man-pages/man2/setns.2.html
_NAMESPACES: Final = (
    0x02000000 | 0x08000000 | 0x04000000 | 0x10000000 | 0x20000000 | 0x40000000 | 0x00020000
)


def enter(leader: int, place: str, target: str, closed: Iterable[int], errors: int) -> int:
    """Leave a process in the container of `leader` that listens on `place`; 0 if it can.

    What keeps it from that is written to `errors`.

    `place` is a path of the host, `target` the socket in the container. The first process of the
    container adopts the process that is left, which ends with it.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(place)
        listening.listen()
        child = os.fork()
        if not child:
            status = 1
            try:
                for descriptor in closed:
                    os.close(descriptor)
                _go_in(leader)
                # Who enters a pid namespace is not in it; those whom it forks then are.
                if not os.fork():
                    _serve(listening, target)
                status = 0
            except OSError as error:
                os.write(errors, str(error).encode())
            finally:
                os._exit(status)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _go_in(leader: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    process = os.pidfd_open(leader)
    if libc.setns(process, _NAMESPACES):
        raise OSError(ctypes.get_errno(), f"setns: {os.strerror(ctypes.get_errno())}")
    os.close(process)
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    os.chdir("/")


def _serve(listening: socket.socket, target: str) -> None:
    while True:
        caller, _ = listening.accept()
        threading.Thread(target=_join, args=(caller, target), daemon=True).start()


def _join(caller: socket.socket, target: str) -> None:
    """Until either side ends it; a socket without a listener ends it at once."""
    with caller, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        try:
            server.connect(target)
        except OSError:
            return
        back = threading.Thread(target=_pump, args=(server, caller), daemon=True)
        back.start()
        _pump(caller, server)
        back.join()


def _pump(source: socket.socket, drain: socket.socket) -> None:
    try:
        while data := source.recv(1 << 16):
            drain.sendall(data)
    except OSError:
        pass  # the other direction has ended both
    finally:
        for end in (source, drain):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
