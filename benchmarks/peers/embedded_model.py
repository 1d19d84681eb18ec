"""hive-small with the model that comes with hive, and the times of its answers."""

import http.client
import json
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from environments import environment_of

ROOT = Path(__file__).parents[2]
_WAIT = 120.0
_MOST = 120


@dataclass(frozen=True)
class AnswerTimes:
    """Seconds to the first piece of text, seconds from there to the last, and tokens."""

    first: float
    rest: float
    tokens: int


@contextmanager
def embedded_model() -> Iterator[tuple[Path, float]]:
    """Its socket, and the seconds of its start. FileNotFoundError: it could not be fetched here."""
    place = environment_of("small")
    if place is None:
        raise FileNotFoundError("the environment of the embedded model is not there")
    with TemporaryDirectory(dir="/tmp") as folder:
        path = Path(folder, "small.sock")
        command = [str(place / "bin/python"), "-m", "hive_core.small.server", "--socket", str(path),
                   "--models", str(Path(folder, "models.toml"))]  # fmt: skip
        began = time.perf_counter()
        with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
            try:
                assert process.stderr is not None
                loaded = next((line for line in process.stderr if "loaded in" in line), "")
                assert loaded, "hive-small ended before it served"
                yield path, time.perf_counter() - began
            finally:
                process.terminate()


def ask(path: Path, question: str) -> AnswerTimes:
    """One streamed answer of up to 120 tokens."""
    connection = http.client.HTTPConnection("hive-small", timeout=_WAIT)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(str(path))
    body = {
        "model": "small", "stream": True, "stream_options": {"include_usage": True},
        "max_tokens": _MOST, "temperature": 0,
        "messages": [{"role": "user", "content": question}],
    }  # fmt: skip
    began = time.perf_counter()
    connection.request("POST", "/v1/chat/completions", json.dumps(body))
    moments: list[float] = []
    tokens = 0
    for line in connection.getresponse():
        if line.startswith(b"data: {"):
            event = json.loads(line[6:])
            choices = event.get("choices") or [{}]
            if choices[0].get("delta", {}).get("content"):
                moments.append(time.perf_counter())
            tokens = (event.get("usage") or {}).get("completion_tokens", tokens)
    connection.close()
    return AnswerTimes(moments[0] - began, moments[-1] - moments[0], tokens)
