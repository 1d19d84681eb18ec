"""Varlink services to measure, each a process of its own that listens on AGENTS sockets."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

ROOT = Path(__file__).resolve().parents[2]
AGENTS = 100


@contextmanager
def serving(kind: str) -> Iterator[Path]:
    """A service of this kind (`__main__.py` has them), ready; in the folder are its sockets."""
    # A disk, where /tmp may be memory: what hive answers has been synced.
    folder = Path(mkdtemp(dir="/var/tmp"))
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
    service = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.services", kind, str(folder)],
        stdout=subprocess.PIPE, env=environment,
    )  # fmt: skip
    try:
        if service.stdout is None or service.stdout.readline() != b"ready\n":
            raise RuntimeError(f"{kind} does not start")
        yield folder
    finally:
        service.kill()
        service.communicate()
        shutil.rmtree(folder)
