"""Which addresses may be connected to: those of the internet, and no others. Pure.

https://www.iana.org/assignments/iana-ipv4-special-registry/
https://www.iana.org/assignments/iana-ipv6-special-registry/
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

Address = IPv4Address | IPv6Address

_REFUSED_4: Final = tuple((IPv4Network(network), reason) for network, reason in (
    ("0.0.0.0/8", "unspecified"), ("10.0.0.0/8", "private"), ("100.64.0.0/10", "shared (CGNAT)"),
    ("127.0.0.0/8", "loopback"), ("168.63.129.16/32", "of the cloud's host"),
    ("169.254.0.0/16", "link-local"), ("172.16.0.0/12", "private"), ("192.0.0.0/24", "reserved"),
    ("192.0.2.0/24", "for documentation"), ("192.88.99.0/24", "reserved"),
    ("192.168.0.0/16", "private"), ("198.18.0.0/15", "for benchmarks"),
    ("198.51.100.0/24", "for documentation"), ("203.0.113.0/24", "for documentation"),
    ("224.0.0.0/4", "multicast"), ("240.0.0.0/4", "reserved"),
))  # fmt: skip
_REFUSED_6: Final = tuple((IPv6Network(network), reason) for network, reason in (
    ("::/128", "unspecified"), ("::1/128", "loopback"), ("::ffff:0:0/96", "mapped"),
    ("fc00::/7", "private"), ("fe80::/10", "link-local"), ("fec0::/10", "private"),
    ("ff00::/8", "multicast"), ("2001::/23", "reserved"), ("2001:db8::/32", "for documentation"),
    ("3fff::/20", "for documentation"),
))  # fmt: skip
_GLOBAL_6: Final = IPv6Network("2000::/3")
# Networks whose addresses hold an IPv4 address, and the bits after it.
_EMBEDDED: Final = (
    (IPv6Network("64:ff9b::/96"), 0, "NAT64"),
    (IPv6Network("2002::/16"), 80, "6to4"),
)
_MASK_4: Final = (1 << 32) - 1


def parse_address(text: str) -> Address:
    """The address in a text. ValueError if the text is not an address, or has a scope."""
    if "%" in text:
        raise ValueError(f"{text[:80]!a} has a scope")
    return ip_address(text)


def address_fault(address: Address) -> str | None:
    """Why no agent may connect to the address, or None."""
    if isinstance(address, IPv4Address):
        return _fault_in(address, _REFUSED_4)
    for network, bits, form in _EMBEDDED:
        if address in network:
            fault = address_fault(IPv4Address(int(address) >> bits & _MASK_4))
            return f"{fault}, as {form}" if fault else None
    fault = _fault_in(address, _REFUSED_6)
    if fault is None and address not in _GLOBAL_6:
        return "reserved"
    return fault


def _fault_in(
    address: Address, networks: tuple[tuple[IPv4Network | IPv6Network, str], ...]
) -> str | None:
    return next((reason for network, reason in networks if address in network), None)
