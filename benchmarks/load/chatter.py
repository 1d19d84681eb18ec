"""FOLDER AGENTS RATE: agents send each other so many durable messages a second, until stdin ends.

Agent 0 gets none of them. At the end it prints how many were answered.
"""

import itertools
import select
import socket
import sys
import time
from pathlib import Path

TICK = 0.1
SEND = b'{"method":"org.hive.Broker.Send","parameters":{"to":"a%d","body":"How is the build?"}}\0'


def main(folder: Path, agents: int, rate: int) -> int:
    connections = []
    for number in range(1, agents):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(folder / f"a{number}.sock"))
        connection.settimeout(0)
        connections.append(connection)
    poll, by_number = select.poll(), {one.fileno(): one for one in connections}
    for one in connections:
        poll.register(one, select.POLLIN)
    poll.register(sys.stdin, select.POLLIN | select.POLLHUP)
    senders, answered, due = itertools.cycle(enumerate(connections, 1)), 0, time.monotonic()
    print("ready", flush=True)
    while True:
        if time.monotonic() >= due:
            due += TICK
            for number, one in itertools.islice(senders, round(rate * TICK)):
                one.send(SEND % (number % (agents - 1) + 1))
        for descriptor, _ in poll.poll(max(0.0, due - time.monotonic()) * 1000):
            if descriptor not in by_number:
                return answered
            answered += by_number[descriptor].recv(1 << 16).count(b"\0")


if __name__ == "__main__":
    print(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])), flush=True)
