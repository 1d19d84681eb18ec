"""Bare SQLite behind a blocking socket: what a send costs with nothing around it.

`python -m benchmarks.peers.bare FOLDER` serves FOLDER/a0.sock, a thread for each connection. It
reads the same frame as hive, writes the same facts down (the message, and a hash-chained line of an
audit log) with the same settings of SQLite, and answers after COMMIT. It checks
nothing, not even whether the sender may send.
"""

import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp

ROOT = Path(__file__).resolve().parents[2]
TABLES = """
CREATE TABLE messages (
    id INTEGER PRIMARY KEY, sender INTEGER, recipient INTEGER, relation TEXT, kind TEXT,
    sent_at REAL, body TEXT
);
CREATE TABLE events (seq INTEGER PRIMARY KEY, digest BLOB, body TEXT);
"""
ME, YOU = "00000001-0000-0000-0000-000000000000", "00000002-0000-0000-0000-000000000000"


class Store:
    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        for setting in (
            "locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = FULL",
            "cache_size = -65536",
        ):  # fmt: skip
            self._db.execute(f"PRAGMA {setting}")
        self._db.executescript(TABLES)
        self._lock = threading.Lock()
        self._digest = bytes(32)

    def send(self, to: str, body: str) -> int:
        """Number of the message, which is on disk."""
        now = time.time()
        event = json.dumps({
            "allowed": True, "caller": ME, "commit": "0" * 40,
            "fields": {"caller_name": "a0", "target_name": to}, "kind": "record",
            "operation": "send", "reason": "a sibling", "request": "0123456789ab-1",
            "rule": "a sibling of the agent", "target": YOU, "time": now,
        })  # fmt: skip
        with self._lock:
            self._digest = sha256(self._digest + event.encode()).digest()
            self._db.execute("BEGIN IMMEDIATE")
            lastrowid = self._db.execute(
                "INSERT INTO messages (sender, recipient, relation, kind, sent_at, body)"
                " VALUES (1, 2, 'sibling', 'message', ?, ?)",
                (now, body),
            ).lastrowid
            self._db.execute(
                "INSERT INTO events (digest, body) VALUES (?, ?)", (self._digest, event)
            )
            self._db.execute("COMMIT")
        return lastrowid or 0


def answer(peer: socket.socket, store: Store) -> None:
    with peer, suppress(ConnectionError):
        _answer(peer, store)


def _answer(peer: socket.socket, store: Store) -> None:
    rest = b""
    while data := peer.recv(65536):
        *frames, rest = (rest + data).split(b"\0")
        for frame in frames:
            parameters = json.loads(frame)["parameters"]
            result = store.send(parameters["to"], parameters["body"])
            peer.sendall(json.dumps({"parameters": {"id": f"{result:013x}"}}).encode() + b"\0")


def main(folder: Path) -> None:
    store = Store(folder / "bare.db")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(folder / "a0.sock"))
    listening.listen()
    print("ready", flush=True)
    while True:
        peer, _ = listening.accept()
        threading.Thread(target=answer, args=(peer, store), daemon=True).start()


@contextmanager
def serving() -> Iterator[Path]:
    folder = Path(mkdtemp(dir="/var/tmp"))
    server = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.peers.bare", str(folder)],
        stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    try:
        if server.stdout is None or server.stdout.readline() != b"ready\n":
            raise RuntimeError("bare SQLite does not start")
        yield folder
    finally:
        server.kill()
        server.communicate()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
