"""FOLDER EVERY: agent 1 sends agent 0 a durable message each EVERY seconds, until stdin ends.

It prints for each when it was sent and when it was answered, by the monotonic clock.
"""

import select
import socket
import sys
import time
from pathlib import Path

SEND = b'{"method":"org.hive.Broker.Send","parameters":{"to":"a0","body":"How is the build?"}}\0'


def main(folder: Path, every: float) -> None:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(folder / "a1.sock"))
    while not select.select([sys.stdin], [], [], every)[0]:
        sent = time.monotonic()
        connection.sendall(SEND)
        while not connection.recv(1 << 16).endswith(b"\0"):
            pass
        print(sent, time.monotonic(), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
