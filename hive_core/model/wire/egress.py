"""Where an agent may connect to: rules, targets, and which rule allows which target. Pure values.

A rule is `NAME:PORT`, or `*.NAME:PORT` for every name with one or more labels before NAME (not for
NAME itself). Names are compared in lower case and without the dot at the end. A name outside ASCII
is written as its A-label (`xn--...`). An address is not a name, in whatever form.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

EGRESS_ALLOWLIST: Final = "egress-allowlist"
HOST: Final = "host"
NETWORK_PROFILES: Final = (EGRESS_ALLOWLIST, HOST)
NETWORK_PREFIX: Final = "network:"
ANY: Final = "any"  # what allows a target of the profile `host`

_NAME_MOST: Final = 253
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}", re.ASCII)
_PORT_MOST: Final = 65_535
# The last label of what a resolver may read as an address: 127.1, 0x7f.1, 2130706433.
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
_SHOWN: Final = 80
_WILDCARD: Final = "*."
_RULES_KEPT: Final = 4096


@dataclass(frozen=True, slots=True)
class EgressTarget:
    """A host and a port that an agent wants to connect to. `host` is canonical."""

    host: str
    port: int

    @property
    def address(self) -> IPv4Address | IPv6Address | None:
        """The address that the host is; None for a name."""
        return _address(self.host)

    # `hive` starts without typing_extensions, which has `override`.
    def __str__(self) -> str:  # type: ignore[explicit-override]
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class EgressRule:
    """A name, or all names below one, with a port."""

    name: str
    port: int
    below: bool = False

    def allows(self, target: EgressTarget) -> bool:
        if self.port != target.port or target.address is not None:
            return False
        return target.host.endswith(f".{self.name}") if self.below else target.host == self.name

    # `hive` starts without typing_extensions, which has `override`.
    def __str__(self) -> str:  # type: ignore[explicit-override]
        return f"{_WILDCARD if self.below else ''}{self.name}:{self.port}"


def parse_rule(text: str) -> EgressRule:
    """The rule in a text. ValueError says what is wrong with it."""
    host, port = _split(text)
    below = host.startswith(_WILDCARD)
    name = _canonical_name(host.removeprefix(_WILDCARD))
    if "." not in name:
        raise ValueError(
            f"{_excerpt(text)} has a name of one label; write a full name, as *.example.org:443"
        )
    return EgressRule(name, port, below)


# Each connection is judged by rules that change seldom: each is parsed once.
_parsed: Final = lru_cache(maxsize=_RULES_KEPT)(parse_rule)


def canonical_rule(text: str) -> str:
    """The rule as it is kept. ValueError says what is wrong with it."""
    return str(parse_rule(text))


def parse_target(text: str) -> EgressTarget:
    """The target of a CONNECT. ValueError says what is wrong with it.

    An address is accepted in its usual form alone; which agent may use one is decided elsewhere.
    """
    host, port = _split(text)
    if host.startswith("["):
        return EgressTarget(_literal(text, host), port)
    if _NUMBER.fullmatch(host.lower().rstrip(".").rpartition(".")[2]):
        return EgressTarget(_literal(text, f"[{host}]"), port)
    return EgressTarget(_canonical_name(host), port)


def allowing_rule(target: EgressTarget, rules: Iterable[str]) -> str | None:
    """The first of these rules that allows the target."""
    return next((rule for rule in rules if _parsed(rule).allows(target)), None)


def network_profile(capabilities: Iterable[str]) -> str | None:
    """The network profile of an agent with these capabilities; None where it has no network."""
    held = frozenset(capabilities)
    chosen = (name for name in (HOST, EGRESS_ALLOWLIST) if f"{NETWORK_PREFIX}{name}" in held)
    return next(chosen, None)


def network_fault(profile: str) -> str | None:
    """Why an agent cannot hold the network profile; None if it can."""
    if profile in NETWORK_PROFILES:
        return None
    there = " and ".join(NETWORK_PROFILES)
    if profile == "none":
        return f"an agent without a network profile has no network; there are {there}"
    return f"network profile {profile} does not exist; the profiles are {there}"


def _split(text: str) -> tuple[str, int]:
    if not text.isascii():
        raise ValueError(f"{_excerpt(text)} is not ASCII; write a name as its A-label (xn--...)")
    host, colon, port = text.rpartition(":")
    if not colon or not host:
        raise ValueError(f"{_excerpt(text)} is not NAME:PORT")
    if not _PORT.fullmatch(port) or int(port) > _PORT_MOST:
        raise ValueError(f"{_excerpt(text)} has no port from 1 to {_PORT_MOST}")
    return host, int(port)


def _canonical_name(host: str) -> str:
    name = host.lower().removesuffix(".")
    labels = name.split(".")
    if len(name) > _NAME_MOST or not all(map(_LABEL.fullmatch, labels)):
        raise ValueError(f"{_excerpt(host)} is not a name of a host")
    if _NUMBER.fullmatch(labels[-1]):
        raise ValueError(f"{_excerpt(host)} is an address; only names are allowed")
    return name


def _literal(text: str, host: str) -> str:
    """The address in brackets, if it is written as `ipaddress` writes it."""
    address = _address(host[1:-1]) if host.endswith("]") else None
    if address is None or (address.version == 6) != text.startswith("["):  # noqa: PLR2004
        raise ValueError(f"{_excerpt(text)} has an address in an unusual form")
    return str(address)


def _address(host: str) -> IPv4Address | IPv6Address | None:
    if "%" in host:
        return None
    try:
        return ip_address(host)
    except ValueError:
        return None


def _excerpt(text: str) -> str:
    return ascii(text[:_SHOWN])
