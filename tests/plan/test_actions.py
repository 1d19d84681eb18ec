"""The one way from the wire to an action: everything it refuses, and where it says it is wrong."""

import json
from dataclasses import fields
from typing import Any, get_args

import pytest
from each import for_each
from hypothesis import given
from hypothesis import strategies as st

from hive_core.plan import actions as a
from hive_core.plan.fields import Malformed
from hive_core.plan.results import Done, StorageFacts, UnitFacts, encode, read

UUID = "0123abcd-0000-4000-8000-000000000001"
OTHER = "89abcdef-0000-4000-8000-000000000002"
SHORT = "0123abcd"
BASE = a.AGENT_BASES[1]
ALL: list[a.Action] = [
    a.MakeNode((SHORT,)),
    a.MoveNode((SHORT,), ("89abcdef", SHORT)),
    a.ArchiveNode((SHORT,), UUID),
    a.RestoreNode(UUID, (SHORT,)),
    a.DropArchive(UUID),
    a.MakeSocketDirectory(UUID),
    a.RemoveSocketDirectory(UUID),
    a.AdoptRoot(OTHER, UUID),
    a.DropRoot(UUID),
    a.Mount(UUID, (SHORT,), BASE, "host"),
    a.Unmount(UUID),
    a.StartUnit(
        UUID, "bob", 3, "abc", BASE, (SHORT,), a.UnitLimits(memory_max=1 << 26, cpu_quota=150),
        "host", boot=True, parent="alice", command=("echo", "", "ü"), patience=1,
    ),
    a.StopUnit(UUID, "bob"),
    a.KillUnit(UUID, "bob"),
    a.SetSlice((), a.UnitLimits()),
    a.ObserveUnit(UUID, "bob", (SHORT,), BASE, 4711),
    a.ObserveStorage(),
    a.RunJob(OTHER, a.JobKind.PURGE_ARCHIVE, a.JOB_BASES[0], uuid=UUID),
    a.RunJob(OTHER, a.JobKind.COPY_TREE, a.JOB_BASES[-1], image="debian-12"),
    a.ShowStore(UUID, "meta", BASE, shown=True),
    a.KillUnit(OTHER, None),
    a.StartUnit(
        UUID, "bob", 3, "abc", BASE, (), a.UnitLimits(), "nix", boot=False, parent=None, command=(),
        patience=5,
        system="/nix/store/0123456789abcdfghijklmnpqrsvwxyz-nixos-system-bob-24.11+pre.1",
    ),
    a.RunJob(OTHER, a.JobKind.REVIEW, a.JOB_BASES[0], words=("0" * 40, "a/b.c_d:e,f+g=h-I")),
    a.RunJob(OTHER, a.JobKind.FETCH, a.JOB_BASES[0], uuid=UUID, lineage=("89abcdef", SHORT)),
    a.RunJob(OTHER, a.JobKind.OWN_INODES, a.JOB_BASES[0], uuid=UUID, lineage=(SHORT,)),
    a.RunJob(OTHER, a.JobKind.SEED, a.JOB_BASES[0], uuid=UUID, lineage=(SHORT,), words=("1",)),
    a.RunJob(
        OTHER, a.JobKind.IMPORT_STATE, a.JOB_BASES[0], uuid=UUID, image="old", lineage=(SHORT,)
    ),
]  # fmt: skip
START = encode(ALL[11])
NIXOS = "/nix/store/0123456789abcdfghijklmnpqrsvwxyz-nixos-system-bob"


def test_every_kind_is_tried_here() -> None:
    assert {type(action) for action in ALL} == set(get_args(a.Action))


@for_each("action", ALL)
def test_what_is_encoded_is_parsed(action: a.Action) -> None:
    assert a.parse(json.loads(json.dumps(encode(action)))) == action


@for_each("action", ALL)
def test_every_field_is_needed_and_none_is_added(action: a.Action) -> None:
    whole = encode(action)
    with pytest.raises(Malformed) as refused:
        a.parse({**whole, "more": 1})
    assert (refused.value.field, refused.value.reason) == ("more", "is unknown")
    for field in fields(action):
        if field.name != "words" and whole[field.name] is not None:
            with pytest.raises(Malformed) as refused:
                a.parse({key: value for key, value in whole.items() if key != field.name})
            assert refused.value.field in (field.name, "work")


@for_each(
    "change, field",
    [
        ({"kind": "Start"}, "kind"),
        ({"kind": None}, "kind"),
        ({"kind": ["StartUnit"]}, "kind"),
        ({"uuid": UUID.upper()}, "uuid"),
        ({"uuid": UUID + "\n"}, "uuid"),
        ({"uuid": "../../etc"}, "uuid"),
        ({"uuid": None}, "uuid"),
        ({"name": ".."}, "name"),
        ({"name": "a/b"}, "name"),
        ({"name": "-rf"}, "name"),
        ({"name": "a%i"}, "name"),
        ({"name": "bob\n"}, "name"),
        ({"name": "a--b"}, "name"),
        ({"name": "operator"}, "name"),
        ({"name": "b" * 33}, "name"),
        ({"parent": "Alice"}, "parent"),
        ({"nonce": -1}, "nonce"),
        ({"nonce": "1"}, "nonce"),
        ({"nonce": True}, "nonce"),
        ({"nonce": 1.0}, "nonce"),
        ({"spec": "a b"}, "spec"),
        ({"base": 0}, "base"),
        ({"base": BASE + 1}, "base"),
        ({"base": a.STORAGE_BASE}, "base"),
        ({"base": a.JOB_BASES[0]}, "base"),
        ({"slice": SHORT}, "slice"),
        ({"slice": [SHORT, SHORT]}, "slice"),
        ({"slice": ["../etcxx"]}, "slice"),
        ({"slice": [f"{number:08x}" for number in range(65)]}, "slice"),
        ({"limits": {}}, None),
        ({"limits": None}, "limits"),
        ({"limits": {"memory_max": 0}}, "limits.memory_max"),
        ({"limits": {"memory_max": "1G"}}, "limits.memory_max"),
        ({"limits": {"tasks": 5}}, "limits.tasks"),
        ({"limits": {"cpu_weight": 10001}}, "limits.cpu_weight"),
        ({"image": "/etc"}, "image"),
        ({"image": "../x"}, "image"),
        ({"image": ""}, "image"),
        ({"boot": 1}, "boot"),
        ({"command": "sh"}, "command"),
        ({"command": [""]}, "command"),
        ({"command": ["sh", 1]}, "command"),
        ({"command": ["sh", "a\0b"]}, "command"),
        ({"command": ["sh", "\udc80"]}, "command"),
        ({"command": ["x" * 65537]}, "command"),
        ({"command": []}, None),
        ({"system": NIXOS}, "system"),
        ({"image": "nix"}, "system"),
        ({"image": "nix", "system": NIXOS}, None),
        ({"image": "nix", "system": f"{NIXOS}/init"}, "system"),
        ({"image": "nix", "system": f"{NIXOS}\n"}, "system"),
        ({"image": "nix", "system": NIXOS.replace("store/", "store/../store/")}, "system"),
        ({"image": "nix", "system": f"/tmp{NIXOS}"}, "system"),
        ({"image": "nix", "system": NIXOS.replace("-", "/-", 1)}, "system"),
    ],
)
def test_a_start_is_judged_field_by_field(change: dict[str, Any], field: str | None) -> None:
    if field is None:
        a.parse({**START, **change})
        return
    with pytest.raises(Malformed) as refused:
        a.parse({**START, **change})
    assert refused.value.field == field


@for_each(
    "action",
    [
        a.MoveNode((SHORT,), ("89abcdef",)),
        a.MoveNode((SHORT,), (SHORT, "89abcdef", SHORT)),
        a.ArchiveNode(("89abcdef",), UUID),
        a.Mount(UUID, (SHORT, "89abcdef"), BASE, "host"),
        a.RunJob(OTHER, a.JobKind.PURGE_ROOT, a.JOB_BASES[0]),
        a.RunJob(OTHER, a.JobKind.COPY_TREE, a.JOB_BASES[0], uuid=UUID, image="x"),
        a.RunJob(OTHER, a.JobKind.PURGE_ROOT, BASE, uuid=UUID),
        a.MakeNode(()),
        a.RunJob(OTHER, a.JobKind.FETCH, a.JOB_BASES[0], uuid=UUID),
        a.RunJob(OTHER, a.JobKind.FETCH, a.JOB_BASES[0], lineage=(SHORT,)),
        a.RunJob(OTHER, a.JobKind.FETCH, a.JOB_BASES[0], uuid=UUID, lineage=("89abcdef",)),
        a.RunJob(OTHER, a.JobKind.FETCH, a.JOB_BASES[0], UUID, "x", (SHORT,)),
        a.RunJob(OTHER, a.JobKind.REVIEW, a.JOB_BASES[0], uuid=UUID, lineage=(SHORT,)),
        a.RunJob(OTHER, a.JobKind.BUILD, a.JOB_BASES[0], uuid=UUID),
        a.RunJob(OTHER, a.JobKind.IMPORT_STATE, a.JOB_BASES[0], uuid=UUID, lineage=(SHORT,)),
        a.RunJob(OTHER, a.JobKind.MEASURE, a.JOB_BASES[0], uuid=UUID, words=("x",)),
        a.RunJob(OTHER, a.JobKind.REVIEW, a.JOB_BASES[0], words=("",)),
        a.RunJob(OTHER, a.JobKind.REVIEW, a.JOB_BASES[0], words=("a b",)),
        a.RunJob(OTHER, a.JobKind.REVIEW, a.JOB_BASES[0], words=("$x",)),
        a.RunJob(OTHER, a.JobKind.REVIEW, a.JOB_BASES[0], words=("x" * 201,)),
        a.RunJob(OTHER, a.JobKind.REVIEW, a.JOB_BASES[0], words=("x",) * 17),
        a.ShowStore(UUID, "tree", BASE, shown=True),
        a.ShowStore(UUID, "../tree", BASE, shown=True),
        a.ShowStore(UUID, "meta", a.JOB_BASES[0], shown=True),
    ],
)
def test_fields_that_do_not_fit_together_are_refused(action: a.Action) -> None:
    with pytest.raises(Malformed):
        a.parse(encode(action))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(JSON)
def test_nothing_but_a_refusal_comes_of_nonsense(value: object) -> None:
    with pytest.raises(Malformed):
        a.parse(value)


@given(JSON, st.data())
def test_a_field_of_any_value_is_refused_or_understood(value: object, data: st.DataObject) -> None:
    good = encode(data.draw(st.sampled_from(ALL)))
    field = data.draw(st.sampled_from(sorted(good)))
    try:
        parsed = a.parse({**good, field: value})
    except Malformed:
        return
    assert a.parse(encode(parsed)) == parsed


def test_ranges_do_not_meet() -> None:
    last = a.AGENT_BASES[-1] + a.RANGE
    assert last <= a.JOB_BASES[0]
    assert a.JOB_BASES[-1] + a.RANGE <= 1879048192  # the end of systemd's range for containers
    assert len(a.JOB_BASES) == 64


def test_results_are_read_by_the_kind_of_action() -> None:
    assert read(ALL[0], {"changed": True}) == Done(changed=True)
    facts = dict.fromkeys(("ours", "mapped", "payload", "tree"), True)
    observed = read(a.ObserveUnit(UUID, "bob", (SHORT,), BASE, 5), {**facts, "leader": 6})
    assert observed == UnitFacts(**facts, leader=6)
    listed = {
        "nodes": [[SHORT]],
        "archives": [UUID],
        "roots": [],
        "mounts": [],
        "socket_directories": [],
    }
    assert read(a.ObserveStorage(), listed) == StorageFacts(((SHORT,),), (UUID,), (), (), ())
    with pytest.raises(Malformed):
        read(ALL[0], {"changed": 1})
