"""Which addresses are of the internet."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from each import for_each
from hypothesis import example, given
from hypothesis import strategies as st

from hive_core.egress.addresses import address_fault, parse_address

SPECIAL = st.sampled_from([
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
    "192.0.0.0/24", "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4",
]).flatmap(lambda text: st.ip_addresses(network=text))  # fmt: skip
SPECIAL_6 = st.sampled_from([
    "::/128", "::1/128", "::ffff:0:0/96", "fc00::/7", "fe80::/10", "ff00::/8", "2001:db8::/32",
    "64:ff9b:1::/48", "2001::/32", "100::/64", "5f00::/16",
]).flatmap(lambda text: st.ip_addresses(network=text))  # fmt: skip


@given(st.ip_addresses(v=4) | SPECIAL)
def test_what_is_allowed_is_global_and_of_one_host(address: IPv4Address) -> None:
    if address_fault(address) is None:
        assert address.is_global
        assert not any((address.is_multicast, address.is_reserved, address.is_private))


@given(SPECIAL)
def test_no_special_address_is_allowed_in_any_form(address: IPv4Address) -> None:
    number = int(address)
    forms = (
        IPv6Address((0x64FF9B << 96) | number), IPv6Address((0x2002 << 112) | number << 80 | 1),
        IPv6Address(0xFFFF << 32 | number), IPv6Address(number),
    )  # fmt: skip
    assert address_fault(address)
    assert all(address_fault(form) for form in forms)


@given(st.ip_addresses(v=6) | SPECIAL_6)
@example(IPv6Address("2606:4700::1"))
def test_what_is_allowed_of_ipv6_is_global_and_of_one_host(address: IPv6Address) -> None:
    if address_fault(address) is None:
        assert address in ip_network("2000::/3") or address in ip_network("64:ff9b::/96")
        assert not any((address.is_multicast, address.is_site_local, address.is_link_local))
        # Python takes all of 6to4 for private.
        assert not address.is_private or address.sixtofour is not None


@given(SPECIAL_6)
def test_no_special_address_of_ipv6_is_allowed(address: IPv6Address) -> None:
    assert address_fault(address)


@for_each("text", [
    "93.184.216.34", "8.8.8.8", "2606:4700::6810:1", "64:ff9b::808:808", "2002:808:808::1",
])  # fmt: skip
def test_addresses_of_the_internet_are_allowed(text: str) -> None:
    assert address_fault(parse_address(text)) is None


def test_an_address_with_a_scope_is_none() -> None:
    with pytest.raises(ValueError, match="scope"):
        parse_address("fe80::1%eth0")
