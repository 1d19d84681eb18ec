"""Q32: the secret of a webhook comes to the disk while others are served, and before it holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
from fixtures.world import Exchange, World, world
from operations.test_artifact_bytes import Held
from operations.test_triggers import SAY, listed_triggers, put

from hive_core.errors import LimitReached, NotAllowed
from hive_core.model.config.limits import TriggerSettings
from hive_core.model.config.settings import Settings

T = TypeVar("T")
HOOK = {"webhook": {"secret": "a secret of the sender's"}}


@pytest.fixture(name="hive")
def _hive() -> Iterator[World]:
    with world(None, "root/a", "a/a1:worker", "root/b") as made:
        yield made


def hold(hive: World) -> Held:
    hive.vault.beside = held = Held()
    return held


def start_call(hive: World, name: str = "nightly") -> Exchange:
    return hive.ask("a", "set_trigger", name=name, when=HOOK, action=SAY)


def test_others_are_served_while_a_secret_is_written(hive: World) -> None:
    held, set_ = hold(hive), start_call(hive)
    served = [hive.call("b", "list_triggers") for _ in range(100)]
    assert (len(served), held.begun, set_.pending) == (100, 1, True)
    assert listed_triggers(hive, "a") == []
    held.let_go(hive)
    (row,) = listed_triggers(hive, "a")
    assert set_.result()["id"] == row["id"]
    assert len(hive.vault.holders()) == 1


def test_two_at_once_have_a_secret_each(hive: World) -> None:
    held, both = hold(hive), [start_call(hive, name) for name in ("x", "y")]
    held.let_go(hive)
    assert len({item.result()["path"] for item in both}) == 2
    hooks = hive.ledger.triggers.hooks()
    assert all(len(hive.vault.keys(hook)) == 1 for hook in hooks)


def test_a_caller_that_loses_the_right_meanwhile_has_set_nothing(hive: World) -> None:
    held, set_ = hold(hive), start_call(hive)
    hive.call("operator", "revoke_capability", agent="a", capability="trigger")
    held.let_go(hive)
    with pytest.raises(NotAllowed):
        set_.result()
    assert (listed_triggers(hive, "a"), hive.vault.holders()) == ([], [])


def test_two_at_once_of_one_name_are_told_the_address_that_holds(hive: World) -> None:
    hive.vault.beside = held = Held()
    made: dict[str, object] = {"webhook": {}}
    first, second = (
        hive.ask("a", "set_trigger", name="nightly", when=made, action=SAY) for _ in range(2)
    )
    held.let_go(hive)
    (hook,) = hive.ledger.triggers.hooks()
    assert first.result()["path"] == second.result()["path"] == f"/hook/{hook}"
    assert (bool(first.result()["secret"]), second.result()["secret"]) == (True, "")
    assert stored_secrets(hive) == hive.ledger.triggers.hook_secrets()


def test_the_later_of_two_secrets_that_were_given_holds_at_the_address_of_the_first(
    hive: World,
) -> None:
    held, first = hold(hive), start_call(hive)
    other = {"webhook": {"secret": "another secret of it"}}
    second = hive.ask("a", "set_trigger", name="nightly", when=other, action=SAY)
    held.let_go(hive)
    hive.advance(1)
    assert first.result()["path"] == second.result()["path"]
    ((hook, key),) = stored_secrets(hive)
    assert {(hook, key)} == hive.ledger.triggers.hook_secrets()
    assert hive.vault.read(hook, key) == b"another secret of it"


def stored_secrets(hive: World) -> set[tuple[str, str]]:
    return {(holder, key) for holder in hive.vault.holders() for key in hive.vault.keys(holder)}


def test_of_a_caller_that_is_destroyed_meanwhile_no_secret_stays(hive: World) -> None:
    held, set_ = hold(hive), start_call(hive)
    set_.close()
    held.let_go(hive)
    assert (listed_triggers(hive, "a"), hive.vault.holders()) == ([], [])


def test_a_caller_that_replaces_a_secret_and_is_destroyed_leaves_the_valid_one(hive: World) -> None:
    start_call(hive).result()
    before, held = stored_secrets(hive), hold(hive)
    start_call(hive).close()
    held.let_go(hive)
    assert stored_secrets(hive) == before == hive.ledger.triggers.hook_secrets()


class Cleared:
    """A clean-up runs right after the first secret was written to disk."""

    def __init__(self, hive: World) -> None:
        self.vault, self.begun = hive.vault, 0

    async def __call__(self, work: Callable[[], T], /) -> T:
        done, self.begun = work(), self.begun + 1
        for holder in self.vault.holders() if self.begun == 1 else ():
            self.vault.drop(holder)
        return done


def test_a_secret_that_was_cleared_away_meanwhile_is_written_again(hive: World) -> None:
    hive.vault.beside = cleared = Cleared(hive)
    set_ = start_call(hive)
    assert (set_.result()["id"], cleared.begun) == (listed_triggers(hive, "a")[0]["id"], 2)
    (hook,) = hive.ledger.triggers.hooks()
    assert len(hive.vault.keys(hook)) == 1


def test_no_secret_is_written_for_an_agent_without_room() -> None:
    with world(Settings(triggers=TriggerSettings(each=1)), "root/a") as hive:
        put(hive)
        with pytest.raises(LimitReached):
            start_call(hive, "another").result()
        assert hive.vault.holders() == []
