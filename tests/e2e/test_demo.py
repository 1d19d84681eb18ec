"""The demo: the main job, start to end, as a newcomer runs it, with its dashboard."""

from __future__ import annotations

import http.client
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlencode

import pytest
from e2e.labhost import CHECKOUT
from e2e.test_lab import no_new_leftovers
from fixtures.dashboard import free_socket
from long import at_most

pytestmark = pytest.mark.lab

SHOWN = ("HELLO FROM OUTSIDE", "not your descendant", "container_crash", "refused",
         "restarts  lead", "└── tester", "awaiting plan approval",
         "From 1 to 1000 it is 500500.", "owl running",
         "success 5 words", "I thought about it.", "Here I am.",
         "the other one has listed the files.", "The colony says: 4 words",
         "All checks passed.")  # fmt: skip
# The embedded model, or that it is not there.
EMBEDDED = ("success The bridge opens on Monday", "SKIPPED: the embedded model")


def test_the_demo_shows_every_scene_and_leaves_nothing_behind() -> None:
    began = time.monotonic()
    with free_socket() as listening:
        port = listening.getsockname()[1]
    with no_new_leftovers() as env, started_demo("--web", str(port), env=env) as demo:
        shown, link = read_until(demo, f"http://localhost:{port}/login#")
        assert "wait for you in it" in shown, shown[-8000:]
        assert log_in(port, link) == 303
        rest, _ = demo.communicate(timeout=300)
    shown += rest
    assert demo.returncode == 0, shown[-8000:]
    assert time.monotonic() - began < at_most(120)
    for text in SHOWN:
        assert text in shown
    assert sum(text in shown for text in EMBEDDED) == 1


@contextmanager
def started_demo(*arguments: str, env: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [CHECKOUT / "scripts/demo", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=env,
    ) as demo:
        watch = threading.Timer(300, demo.terminate)
        watch.start()
        try:
            yield demo
        finally:
            watch.cancel()
            demo.terminate()


def read_until(demo: subprocess.Popen[str], start: str) -> tuple[str, str]:
    """What the demo says, to the line that begins so, and that line."""
    assert demo.stdout is not None
    shown = ""
    for line in demo.stdout:
        shown += line
        if line.startswith(start):
            return shown, line.strip()
    return shown, ""


def log_in(port: int, link: str) -> int:
    """How the dashboard answers to the secret of a link, from outside of the demo's host."""
    origin, _, secret = link.partition("/login#")
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {
        "Host": origin.removeprefix("http://"),
        "Origin": origin,
        "Content-Type": "application/x-www-form-urlencoded",
    }
    connection.request("POST", "/login", urlencode({"secret": secret}), headers)
    try:
        return connection.getresponse().status
    finally:
        connection.close()
