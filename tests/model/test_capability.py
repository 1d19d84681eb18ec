"""The closed list of capabilities."""

from __future__ import annotations

import pytest

from hive_core.errors import InvalidArgument
from hive_core.model.capability import PLAIN, checked, covers, missing


@pytest.mark.parametrize(
    "capability", [*PLAIN, "meta.update:nixpkgs", "network:veth", "secret:api-key"]
)
def test_what_is_on_the_list_is_accepted(capability: str) -> None:
    assert checked([capability, capability]) == (capability,)


@pytest.mark.parametrize(
    "capability",
    [
        "", "root", "Spawn", "spawn ", "spawn:", "spawn:x", "kill:b", "network", "network:",
        "secret:a b", "secret:../x", "secret:-x", "meta.update:", "meta.update:a:b", "secret:é",
        "secret:x\n", "*",
    ],
)  # fmt: skip
def test_everything_else_is_refused(capability: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        checked([capability])
    assert refusal.value.field == "capabilities"


def test_meta_update_covers_every_input_and_nothing_else_covers_more_than_itself() -> None:
    assert covers(("meta.update",), "meta.update:nixpkgs")
    assert not covers(("meta.update:nixpkgs",), "meta.update")
    assert not covers(("meta.update:nixpkgs",), "meta.update:home-manager")
    assert not covers(("network:veth",), "network:host")
    assert not covers(("meta.read",), "meta.update:nixpkgs")
    assert not covers((), "spawn")


def test_missing_lists_what_is_not_covered() -> None:
    assert missing(("meta.update", "spawn"), ("meta.update:x", "spawn", "kill")) == ("kill",)
    assert missing((), ()) == ()
