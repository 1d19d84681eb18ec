"""The packets with which hived hands over sockets, and the agent that each belongs to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from hive_core.model.names import is_uuid, name_fault

PACKET_MOST: Final = 4096
_WORD_MOST: Final = 64
_UIDS: Final = range(1 << 32)


@dataclass(frozen=True, slots=True)
class HandedSocket:
    """The socket of `agent`; its clients have a uid from `base` to `base + count - 1`.

    Those in `refused` are of its sub-agents, which have sockets of their own. `policy` stands for
    what they may do: where it changes, their connections end.
    """

    agent: str
    name: str
    sub: str
    base: int
    count: int
    policy: str = ""
    refused: range = range(0)

    @property
    def key(self) -> tuple[str, str]:
        return self.agent, self.sub

    def admits(self, uid: int) -> bool:
        return self.base <= uid < self.base + self.count and uid not in self.refused


@dataclass(frozen=True, slots=True)
class SocketGone:
    agent: str
    sub: str


@dataclass(frozen=True, slots=True)
class SocketsSynced:
    """All sockets that exist have been handed over."""


HandPacket = HandedSocket | SocketGone | SocketsSynced


def parse_packet(data: bytes) -> HandPacket:
    """One packet of hived. ValueError says what is wrong with it."""
    try:
        packet = json.loads(data)
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    if not isinstance(packet, dict):
        raise ValueError("not an object")  # noqa: TRY004 - a fault of the packet
    if packet.get("synced") is True:
        return SocketsSynced()
    if "gone" in packet:
        return SocketGone(_agent(packet.get("gone")), _word(packet, "sub"))
    return _agent_socket(packet)


def _agent_socket(packet: Mapping[str, Any]) -> HandedSocket:
    name = packet.get("name")
    if not isinstance(name, str) or name_fault(name):
        raise ValueError("`name` is not the name of an agent")
    uids = _uids(packet, "uids")
    refused = _uids(packet, "refused") if "refused" in packet else range(0)
    return HandedSocket(
        _agent(packet.get("agent")), name, _word(packet, "sub"), uids.start, len(uids),
        _word(packet, "policy"), refused,
    )  # fmt: skip


def _uids(packet: Mapping[str, Any], key: str) -> range:
    uids = packet.get(key)
    if not isinstance(uids, list) or len(uids) != len(("base", "count")):
        raise ValueError(f"`{key}` is not a base and a count")
    base, count = uids
    if not (type(base) is int and type(count) is int and base in _UIDS and count in _UIDS):
        raise ValueError(f"`{key}` is not a base and a count")
    if not count or base + count - 1 not in _UIDS:
        raise ValueError(f"`{key}` is empty, or ends above the largest uid")
    return range(base, base + count)


def _agent(value: object) -> str:
    if not isinstance(value, str) or not is_uuid(value):
        raise ValueError("`agent` is not a UUID")
    return value


def _word(packet: Mapping[str, Any], key: str) -> str:
    word = packet.get(key, "")
    if not isinstance(word, str) or len(word) > _WORD_MOST or not word.isascii():
        raise ValueError(f"`{key}` is not a word")
    return word
