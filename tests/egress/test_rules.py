"""Rules of egress: what they mean, which targets they allow, and which texts are refused."""

from __future__ import annotations

import string

import pytest
from each import for_each
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from hive_core.model.agents.agent import EgressRuleText
from hive_core.model.config.egress import EgressSettings
from hive_core.model.wire.egress import (
    EgressTarget,
    allowing_rule,
    canonical_rule,
    network_fault,
    network_profile,
    parse_rule,
    parse_target,
)

LABELS = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=12)
TOPS = st.text(string.ascii_lowercase, min_size=2, max_size=6)
NAMES = st.builds(
    lambda labels, top: ".".join([*labels, top]), st.lists(LABELS, min_size=1, max_size=4), TOPS
)
PORTS = st.integers(1, 65_535)
# Forms that some resolver reads as an address.
NO_NAME = r"address|not a name"
ODD = (
    "127.1:443", "0x7f.1:443", "2130706433:443", "0x7f000001:443", "017700000001:443", "0:443",
    "0177.0.0.1:443", "127.0.0.1.:443", "1.2.3.4.5:443", "00.0.0.0:443", "127.0.0.01:443",
    "[::ffff:127.0.0.1%lo]:443", "[::1:443", "::1:443", "[fe80::1%25eth0]:443", "[]:443",
    "[127.0.0.1]:443", "[0:0:0:0:0:0:0:1]x:443", "a.0x:443", "x.0x7f:443",
)  # fmt: skip


@st.composite
def spellings(draw: st.DrawFn, name: str) -> str:
    """The name as some client might spell it: in any case, with a dot at its end."""
    letters = (letter.upper() if draw(st.booleans()) else letter for letter in name)
    return "".join(letters) + draw(st.sampled_from(["", "."]))


@given(st.data(), NAMES, PORTS)
def test_case_and_the_last_dot_make_no_difference(
    data: st.DataObject, name: str, port: int
) -> None:
    target = parse_target(f"{data.draw(spellings(name))}:{port}")
    assert target == EgressTarget(name, port)
    assert canonical_rule(f"{data.draw(spellings(name))}:{port}") == f"{name}:{port}"
    assert allowing_rule(target, [f"{name}:{port}"]) == f"{name}:{port}"


@given(NAMES, PORTS, st.lists(LABELS, max_size=3))
def test_a_wildcard_is_for_one_or_more_labels(name: str, port: int, before: list[str]) -> None:
    rule = f"*.{name}:{port}"
    target = parse_target(f"{'.'.join([*before, name])}:{port}")
    assert (allowing_rule(target, [rule]) == rule) is bool(before)
    # The end of a label is not a label.
    assert allowing_rule(parse_target(f"x{name}:{port}"), [rule]) is None


@given(NAMES, PORTS, PORTS)
def test_a_rule_is_for_its_port_alone(name: str, port: int, other: int) -> None:
    allowed = allowing_rule(EgressTarget(name, other), [f"{name}:{port}", f"*.{name}:{port}"])
    assert (allowed is not None) is (port == other)


@given(st.ip_addresses(), PORTS)
def test_no_rule_is_or_allows_an_address(address: object, port: int) -> None:
    text = f"[{address}]" if ":" in str(address) else str(address)
    for rule in (f"{text}:{port}", f"*.{text}:{port}"):
        with pytest.raises(ValueError, match=NO_NAME):
            parse_rule(rule)
    target = parse_target(f"{text}:{port}")
    assert str(target.address) == str(address)
    assert allowing_rule(target, ["*.example.org:443", f"x.y:{port}"]) is None


@for_each("text", ODD)
def test_an_address_in_an_odd_form_is_refused_for_all(text: str) -> None:
    with pytest.raises(ValueError, match=NO_NAME):
        parse_target(text)
    with pytest.raises(ValueError, match=NO_NAME):
        parse_rule(text)


@for_each("text, reason", [
    ("example.org", "not NAME:PORT"), (":443", "not NAME:PORT"), ("", "not NAME:PORT"),
    ("example.org:", "no port"), ("example.org:0", "no port"), ("example.org:65536", "no port"),
    ("example.org:0443", "no port"), ("example.org:+443", "no port"),
    ("example.org:4 3", "no port"),
    ("example.org:*", "no port"), ("b\u00fccher.example:443", "A-label"),
    ("example.org:\u0664\u0664\u0663", "A-label"), ("a..org:443", "not a name"),
    ("example.org..:443", "not a name"), (".org:443", "not a name"), ("*:443", "not a name"),
    ("a.*.org:443", "not a name"), ("*.*.org:443", "not a name"), ("*x.org:443", "not a name"),
    ("user@example.org:443", "not a name"), ("https://example.org:443", "not a name"),
    ("a b.org:443", "not a name"), ("-a.org:443", "not a name"), ("*.org:443", "one label"),
    (f"{'a.' * 127}org:443", "not a name"), (f"{'a' * 64}.org:443", "not a name"),
    ("localhost:443", "one label"), ("example.org\n:443", "not a name"),
    ("example.org:443\n", "no port"), ("a\x00.org:443", "not a name"),
])  # fmt: skip
def test_what_is_no_rule_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_rule(text)
    with pytest.raises(ValidationError, match=reason):
        TypeAdapter(EgressRuleText).validate_python(text)


def test_a_name_outside_ascii_is_written_as_its_a_label() -> None:
    assert canonical_rule("*.XN--bcher-kva.example:443") == "*.xn--bcher-kva.example:443"
    assert parse_target("www.xn--BCHER-kva.example:443").host == "www.xn--bcher-kva.example"


def test_a_target_may_have_one_label_and_no_rule_allows_it() -> None:
    """What has one label is looked up in the search domains of the host."""
    assert allowing_rule(parse_target("localhost:443"), ["*.example.org:443"]) is None


@given(st.text(max_size=60) | st.binary(max_size=60).map(lambda data: data.decode("latin-1")))
def test_any_text_is_a_rule_or_a_fault_and_what_is_kept_reads_the_same(text: str) -> None:
    for parse in (parse_rule, parse_target):
        try:
            parsed = parse(text)
        except ValueError:
            continue
        assert parse(str(parsed)) == parsed


def test_the_table_of_the_host_keeps_rules_in_one_form() -> None:
    assert EgressSettings(allow=("*.Example.ORG.:443",)).allow == ("*.example.org:443",)
    assert EgressSettings().allow == ()


@for_each("held, profile", [
    ((), None), (("spawn",), None), (("network:egress-allowlist",), "egress-allowlist"),
    (("network:host", "network:egress-allowlist"), "host"), (("network:veth",), None),
    (("network:none",), None),
])  # fmt: skip
def test_the_profile_of_an_agent_is_one_that_there_is(
    held: tuple[str, ...], profile: str | None
) -> None:
    assert network_profile(held) == profile
    assert all(network_fault(word) for word in ("veth", "none", "", "Host", "allowlist"))
