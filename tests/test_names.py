"""Names say what they stand for: what says nothing does not come back."""

from __future__ import annotations

from collections import Counter
from functools import cache

from each import for_each
from names import Name, empty_names, is_bare_participle

# How many there may be in tests and benchmarks: fewer are right, more are not.
AT_MOST = {
    "functions named by a bare participle": 0,
    "values named by an empty word": 0,
}


@cache
def names() -> list[Name]:
    return empty_names()


def test_every_name_in_the_package_says_what_it_stands_for() -> None:
    assert [name for name in names() if name.place.startswith("hive_core")] == []


def test_no_name_that_says_nothing_is_added_to_the_tests() -> None:
    counts = Counter(name.kind for name in names())
    assert set(counts) <= set(AT_MOST)
    assert all(counts[kind] <= most for kind, most in AT_MOST.items()), counts


@for_each("name", ["moved", "given_on", "_told", "started"])
def test_a_bare_participle_is_seen(name: str) -> None:
    assert is_bare_participle(name)


@for_each("name", ["moved_agents", "feed", "is_moved", "create_job", "children"])
def test_a_verb_or_a_thing_is_no_bare_participle(name: str) -> None:
    assert not is_bare_participle(name)
