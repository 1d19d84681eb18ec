"""A part of our interface as a user of asyncvarlink writes it down; that library checks it.

No `from __future__ import annotations`: it does not look behind annotations that are text.
"""

from typing import TypedDict

import asyncvarlink


class Identity(TypedDict):
    """What `Whoami` answers."""

    name: str
    uuid: str
    parent: str | None
    role: str
    title: str
    tier: str
    model: str
    capabilities: list[str]
    children: list[str]
    limits: dict[str, int]
    parallel: int | None
    subagent: str
    models: list[str]
    runtime: str


class Sent(TypedDict):
    """What `Send` answers."""

    id: str
    thread: str
    priority: int


class TheirBroker(asyncvarlink.VarlinkInterface, name="org.hive.Broker"):
    """Two methods."""

    @asyncvarlink.varlinkmethod
    def Whoami(self) -> Identity:  # noqa: N802 - the name on the wire
        raise AssertionError

    @asyncvarlink.varlinkmethod
    def Send(self, *, to: str, body: str) -> Sent:  # noqa: N802
        raise AssertionError((to, body))
