#!/usr/bin/python3
"""A reporter that the clock wakes: it sends a report of the disk to its parent or the operator.

It sets its own trigger when it starts. Set again under the same name, the trigger is replaced, so a
restart leaves one. CRON says when (every day at 18:00), ZONE in which time zone.
"""

import os
import shutil

import hive_agent


def disk_report() -> str:
    """The text of one report."""
    usage = shutil.disk_usage(".")
    return f"disk: {usage.used >> 20} of {usage.total >> 20} MiB used"


hive = hive_agent.AgentClient()
hive.change(
    "set_trigger",
    name="report",
    when={"cron": os.environ.get("CRON", "0 18 * * *"), "zone": os.environ.get("ZONE", "UTC")},
    action={"kind": "message", "text": "write the report"},
    missed="skip",
)
reader = hive.call("whoami")["parent"] or "operator"
while True:
    message = hive.recv()
    if message.kind == "trigger":
        # The same message may come again after a crash: its key makes it one report.
        hive.send(reader, disk_report(), kind="report", idempotency_key=f"report:{message.id}")
    hive.ack(message)
