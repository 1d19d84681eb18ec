"""A failed job reports its reason in its result, its event and its log."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from e2e.hivehost import HiveHost
from e2e.shared_hosts import SharedHost

pytestmark = pytest.mark.lab

WHY = "the disk of this job is on fire"


@pytest.fixture
def host(shared_host: SharedHost) -> Iterator[HiveHost]:
    """A host on which the program of each job says why it ends and that it has failed."""
    made = shared_host.prepare("tree")
    unit = made.run("systemctl", "cat", "hive-privd.service").stdout
    package = re.search(r"ExecStartPre=/bin/sh (\S+)/privd/hive-prepare", unit)
    assert package is not None
    made.hive("agent", "create", "worker", "--", "sleep", "1000")
    broken = f"import sys; print('it began'); sys.exit({WHY!r})"
    made.run("tee", "/run/broken.py", text=broken)
    made.run("mount", "--bind", "/run/broken.py", f"{package[1]}/jobs/main.py")
    yield made
    made.run("umount", f"{package[1]}/jobs/main.py")


def test_a_job_error_carries_the_last_lines_of_the_job(host: HiveHost) -> None:
    """It was `job seed: ended with 1` in the record, the event, the log and on the terminal."""
    reply = host.call("InitConfig", agent="worker")
    done = host.run("hive", "wait", "--for", f"job={reply['job']}", "--timeout", "60", check=False)
    assert done.returncode == 1, done
    job = host.call("GetJob", id=reply["job"])
    for text in (done.stderr, str(job["error"])):
        assert "job seed: ended with 1; its last lines:" in text
        assert WHY in text
        assert "Trying to halt" not in text
    events = [event for event in host.json("events") if event["operation"] == "seed_config"]
    assert WHY in json.dumps(events), host.json("events")[-3:]

    git = ("git", "-C", "/agents/worker/config")
    host.inside("worker", *git, "commit", "--quiet", "--allow-empty", "--message", "as it is")
    commit = host.inside("worker", *git, "rev-parse", "HEAD").strip()
    words = {"agent": "worker", "commit": commit, "message": "as it is"}
    asked = str(host.ask("worker", "RequestApplyCommit", **words)["approval"])
    host.until(lambda: "refused" in host.hive("approval", "show", asked), "the job to fail", 60)
    page = host.hive("approval", "show", asked)
    assert "job fetch: ended with 1; its last lines:" in page
    assert WHY in page
