"""Who may start now: branches share the slots, and a start that never ends holds up its own."""

from fixtures.plans import hive

from hive_core.model.config.settings import Settings
from hive_core.plan.placement import Placements
from hive_core.plan.start_slots import SLOW_AFTER, StartSlots, branch_of

PLACES = Placements.build(
    hive({
        "root": None, "lead": "root", "ann": "lead", "ben": "ann", "cid": "lead", "dan": "lead",
        "eva": "root", "fay": "eva", "other": None,
    }),
    Settings(),
)  # fmt: skip
ID = {place.name: place.uuid for place in PLACES.by_uuid.values()}


def slots(limit: int, *names: str, since: float = 0.0, now: float = 0.0) -> StartSlots:
    return StartSlots(PLACES, limit, {ID[name]: since for name in names}, now)


def test_a_branch_is_a_child_of_a_root_with_all_below() -> None:
    branches = {name: branch_of(PLACES, uuid) for name, uuid in ID.items()}
    assert branches["ann"] == branches["ben"] == branches["lead"] == ID["lead"][:8]
    assert branches["fay"] == branches["eva"] == ID["eva"][:8]
    assert branches["root"] == ID["root"][:8]
    assert branches["other"] == ID["other"][:8]
    assert branch_of(PLACES, "nobody-knows-it") == "nobody-knows-it"


def test_attack_60_a_branch_has_half_of_the_slots() -> None:
    four = slots(4)
    taken = {name: four.take(ID[name]) for name in ("ann", "ben", "cid", "dan", "eva", "root")}
    assert taken == {
        "ann": True, "ben": True, "cid": False, "dan": False, "eva": True, "root": True
    }  # fmt: skip
    assert not four.take(ID["other"])


def test_attack_60_a_slow_start_gives_its_slot_to_others_but_not_to_its_branch() -> None:
    names = ("ann", "ben", "eva", "fay")
    assert not slots(4, *names).take(ID["other"])
    late = slots(4, *names, now=SLOW_AFTER)
    assert not late.take(ID["cid"])
    assert late.take(ID["other"])
    assert late.take(ID["root"])


def test_no_more_than_twice_as_many_starts_are_under_way_as_there_are_slots() -> None:
    names = ("ann", "ben", "eva", "fay")
    late = slots(2, *names, now=SLOW_AFTER)
    assert not late.take(ID["other"])


def test_one_slot_serves_one_branch_after_another() -> None:
    assert slots(1).take(ID["ann"])
    assert not slots(1, "ann").take(ID["eva"])
    assert slots(1, "ann", now=SLOW_AFTER).take(ID["eva"])


def test_waiting_agents_are_chosen_by_branch() -> None:
    queue = [ID[name] for name in ("ann", "ben", "cid", "dan", "eva", "root", "other")]
    assert slots(4).share_out(queue) == [ID[name] for name in ("ann", "ben", "eva", "root")]
    assert slots(4, "ann", "ben").share_out(queue) == [ID["eva"], ID["root"]]


def test_the_queue_is_looked_at_again_when_a_start_becomes_slow() -> None:
    assert slots(4).next_slow is None
    assert slots(4, "ann", since=1.0, now=1.5).next_slow == 1.0 + SLOW_AFTER
    assert slots(4, "ann", since=1.0, now=1.0 + SLOW_AFTER).next_slow is None
