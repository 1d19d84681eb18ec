"""The demo: the main job, start to end, as a newcomer runs it."""

from __future__ import annotations

import subprocess
import time

import pytest
from e2e.labhost import CHECKOUT
from e2e.test_lab import no_new_leftovers
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
    with no_new_leftovers() as env:
        done = subprocess.run(
            [CHECKOUT / "scripts/demo"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            env=env,
        )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert time.monotonic() - began < at_most(120)
    for shown in SHOWN:
        assert shown in done.stdout
    assert sum(shown in done.stdout for shown in EMBEDDED) == 1
