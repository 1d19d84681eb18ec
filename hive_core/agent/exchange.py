"""`hive-agent exchange`: send a message and wait for its answer."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Final

from hive_core.agent import output
from hive_core.agent.current_message import current_message
from hive_core.agent.derived_commands import parser_of
from hive_core.agent.reconnect import Link
from hive_core.errors import Conflict, TimedOut

ABOUT: Final = "Send a message and wait for the answer to it."
SECONDS: Final = 60.0
_AT_ONCE: Final = 50.0  # seconds one `wait_reply` waits; the daemon allows no more


def _parser() -> argparse.ArgumentParser:
    parser = parser_of("exchange", ABOUT)
    parser.add_argument("to", help="name of an agent, or operator")
    parser.add_argument("body", help="text of the message; - reads it")
    parser.add_argument(
        "--wait", type=float, default=SECONDS, help="maximum seconds to wait (default 60)"
    )
    parser.add_argument("--kind", help="kind of the message, for programs")
    return parser


def run_exchange(path: str, arguments: Sequence[str]) -> int:
    """Run the command. An answer that comes after `--wait` seconds is ordinary mail."""
    options = _parser().parse_args(arguments)
    body = sys.stdin.read() if options.body == "-" else options.body
    with Link(path) as link:
        sent = link.change(
            "send", to=options.to, body=body, kind=options.kind,
            reply_within=min(max(options.wait, 1.0), 300.0),
            in_turn_of=current_message() or None,
        )  # fmt: skip
        reply = wait_reply(link, str(sent["id"]), options.wait)
    if reply is None:
        raise TimedOut(f"no answer to {sent['id']} from {options.to}; a late one comes as mail")
    check_delivery(reply)
    if options.output == "json":
        output.result(reply, "json")
    else:
        output.line(output.plain(str(reply["body"])))
    return 0


def check_delivery(reply: Mapping[str, object]) -> None:
    """Raise Conflict when the daemon says that the message could not be delivered."""
    if reply.get("kind") == "dead_letter" and reply.get("relation") == "daemon":
        raise Conflict(str(reply.get("body")))


def wait_reply(link: Link, message: str, seconds: float) -> dict[str, object] | None:
    """The answer to a message of this agent, by several calls that each wait for a short time."""
    ends = time.monotonic() + seconds
    while True:
        left = max(ends - time.monotonic(), 0.0)
        reply = link.ask("wait_reply", id=message, wait=min(left, _AT_ONCE)).get("reply")
        if isinstance(reply, dict):
            return reply
        if left <= 0:
            return None
