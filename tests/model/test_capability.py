"""The closed list of capabilities."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from each import for_each

import hive_core
from hive_core.errors import InvalidArgument
from hive_core.model.agents.capability import (
    PLAIN,
    WITH_ARGUMENT,
    check_capabilities,
    check_grantable,
    covers,
    missing_capabilities,
    no_effect_reason,
)


@for_each(
    "capability",
    [*PLAIN, "meta.update:nixpkgs", "model:gpt-4.1", "network:veth", "secret:api-key"],
)
def test_what_is_on_the_list_is_accepted(capability: str) -> None:
    assert check_capabilities([capability, capability]) == (capability,)


@for_each(
    "capability",
    [
        "", "root", "Spawn", "spawn ", "spawn:", "spawn:x", "kill:b", "network", "network:",
        "secret:a b", "secret:../x", "secret:-x", "meta.update:", "meta.update:a:b", "secret:é",
        "secret:x\n", "*",
    ],
)  # fmt: skip
def test_everything_else_is_refused(capability: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        check_capabilities([capability])
    assert refusal.value.field == "capabilities"


def test_meta_update_covers_every_input_and_nothing_else_covers_more_than_itself() -> None:
    assert covers(("meta.update",), "meta.update:nixpkgs")
    assert not covers(("meta.update:nixpkgs",), "meta.update")
    assert not covers(("meta.update:nixpkgs",), "meta.update:home-manager")
    assert not covers(("network:egress-allowlist",), "network:host")
    assert covers(("network:host",), "network:egress-allowlist")
    assert not covers(("meta.read",), "meta.update:nixpkgs")
    assert not covers((), "spawn")


def test_missing_lists_what_is_not_covered() -> None:
    assert missing_capabilities(("meta.update", "spawn"), ("meta.update:x", "spawn", "kill")) == (
        "kill",
    )
    assert missing_capabilities((), ()) == ()


ELSEWHERE = Path(hive_core.__file__).parent
# Of the table of roles alone (row K26): who may end an agent follows from the place.
BY_PLACE = {"kill"}


@cache
def _source_files() -> list[tuple[str, str]]:
    """Name and text of each module."""
    return [(path.name, path.read_text()) for path in ELSEWHERE.rglob("*.py")]


@for_each("word", sorted({*PLAIN, *WITH_ARGUMENT}))
def test_what_can_be_granted_is_read_by_something(word: str) -> None:
    """Each capability that can be granted is checked somewhere; a new one must be listed here."""
    own = {"capability.py", "roles.py"}
    named = any(
        re.search(rf'"{re.escape(word)}[":]', text)
        for name, text in _source_files()
        if name not in own
    )
    assert named or word in BY_PLACE or no_effect_reason(word), word


def test_what_has_no_effect_is_loaded_and_not_given() -> None:
    for entry in ("network:none", "network:lan"):
        assert check_capabilities([entry]) == (entry,)
        with pytest.raises(InvalidArgument, match=f"'{entry}' has no effect: .+") as refusal:
            check_grantable(["spawn", entry], field="capability")
        assert refusal.value.field == "capability"
        with pytest.raises(InvalidArgument) as refusal:
            check_grantable(["fly"], field="capability")
        assert refusal.value.field == "capability"
        assert check_grantable(["spawn", entry], held=[entry]) == check_capabilities(
            ["spawn", entry]
        )
    assert check_grantable(["secret:x", "spawn"]) == ("secret:x", "spawn")
