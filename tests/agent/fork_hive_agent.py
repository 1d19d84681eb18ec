"""`hive-agent` without starting Python for each: this process has it imported, and forks.

It is started with its end of a socket pair. An order has the words of a command, its environment
and the numbers of its descriptors; the descriptors of the order are where it is answered, the
standard error of the command, and those that the command is given. The answer is the id of the
process with a pidfd, and its status when it has ended.
"""

import gc
import json
import os
import selectors
import socket
import sys
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from hive_core.agent.main import main

_ORDER_MOST = 1 << 18
_DESCRIPTORS_MOST = 8


def serve(channel: socket.socket) -> None:
    """Serve until the tests have ended."""
    selector = selectors.DefaultSelector()
    selector.register(channel, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.data is not None:
                selector.unregister(key.fd)
                answer_end(key.fd, *key.data)
            else:
                take_order(channel, selector)


def take_order(channel: socket.socket, selector: selectors.BaseSelector) -> None:
    """Fork for the next order."""
    data, descriptors, _, _ = socket.recv_fds(channel, _ORDER_MOST, _DESCRIPTORS_MOST)
    if not data:
        os._exit(0)
    pid = os.fork()
    if not pid:
        become(json.loads(data), descriptors)
    control = socket.socket(fileno=descriptors.pop(0))
    for descriptor in descriptors:
        os.close(descriptor)
    handle = os.pidfd_open(pid)
    socket.send_fds(control, [str(pid).encode()], [handle])
    selector.register(handle, selectors.EVENT_READ, (control, pid))


def become(order: tuple[list[str], dict[str, str], list[int]], descriptors: list[int]) -> None:
    """Be a command that was started with these words.

    It is run from here, so that no object of the callers closes a descriptor of the same number.
    """
    words, environment, places = order
    _, errors, *passed = descriptors
    os.dup2(errors, 2)
    for place, descriptor in zip(places, passed, strict=True):
        os.dup2(descriptor, place)
    beginning = 3
    for place in [*sorted(places), os.sysconf("SC_OPEN_MAX")]:
        os.closerange(beginning, place)
        beginning = place + 1
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["hive-agent", *words]
    main()


def answer_end(handle: int, control: socket.socket, pid: int) -> None:
    """Say how a process has ended; whoever ordered it may be gone."""
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(handle)
    with control:
        try:
            control.send(str(status).encode())
        except BrokenPipeError:
            return


import_module("hive_core.agent.session.main")
gc.freeze()  # else the first collection in each process copies all of it
serve(socket.socket(fileno=int(sys.argv[1])))
