"""FOLDER AGENTS RATE: agents send each other so many durable messages a second, until stdin ends.

Agent 0 gets none of them. When hived is restarted they connect again. At the end it prints how many
were answered.
"""

import itertools
import select
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

TICK = 0.1
SEND = b'{"method":"org.hive.Broker.Send","parameters":{"to":"a%d","body":"How is the build?"}}\0'


def main(folder: Path, agents: int, rate: int) -> int:
    answered, is_begun, is_over = 0, False, False
    while not is_over:
        with ExitStack() as stack, suppress(ConnectionError):
            connections = [
                stack.enter_context(connect(folder / f"a{number}.sock"))
                for number in range(1, agents)
            ]
            if not is_begun:
                print("ready", flush=True)
            is_begun = True
            for count in talk(connections, rate):
                answered += count
            is_over = True
    return answered


def connect(path: Path) -> socket.socket:
    """A connection to this socket, as soon as somebody listens there."""
    while True:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(str(path))
        except (ConnectionError, FileNotFoundError):
            connection.close()
            time.sleep(TICK)
        else:
            connection.settimeout(0)
            return connection


def talk(connections: list[socket.socket], rate: int) -> Iterator[int]:
    """Send until stdin ends; yield how many were answered. ConnectionError: hived has ended."""
    poll, by_number = select.poll(), {one.fileno(): one for one in connections}
    for one in connections:
        poll.register(one, select.POLLIN)
    poll.register(sys.stdin, select.POLLIN | select.POLLHUP)
    senders, due = itertools.cycle(enumerate(connections, 1)), time.monotonic()
    while True:
        if time.monotonic() >= due:
            due += TICK
            for number, one in itertools.islice(senders, round(rate * TICK)):
                one.send(SEND % (number % len(connections) + 1))
        for descriptor, _ in poll.poll(max(0.0, due - time.monotonic()) * 1000):
            if descriptor not in by_number:
                return
            data = by_number[descriptor].recv(1 << 16)
            if not data:
                raise ConnectionResetError
            yield data.count(b"\0")


if __name__ == "__main__":
    print(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])), flush=True)
