"""FOLDER EVERY: as the lone sender, and a send that a restart of hived cuts off is sent again.

It has a key of idempotency, so it is one message, however often it was sent. What is printed as the
time of a send is that of its last try.
"""

import json
import select
import sys
import time
from contextlib import suppress
from itertools import count
from pathlib import Path

from benchmarks.load.chatter import connect


def main(folder: Path, every: float) -> None:
    connection = connect(folder / "a1.sock")
    for number in count():
        if select.select([sys.stdin], [], [], every)[0]:
            return
        parameters = {"to": "a0", "body": "Well?", "idempotency_key": f"restart-{number}"}
        call = {"method": "org.hive.Broker.Send", "parameters": parameters}
        answer = b""
        sent = time.monotonic()
        while not answer:
            with suppress(ConnectionError):
                connection.settimeout(None)
                connection.sendall(json.dumps(call).encode() + b"\0")
                answer = connection.recv(1 << 16)
            if not answer:
                connection.close()
                connection = connect(folder / "a1.sock")
                sent = time.monotonic()
        print(sent, time.monotonic(), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
