"""Names say what they stand for: what says nothing does not come back."""

from __future__ import annotations

from collections import Counter

import pytest
from names import empty_names, is_bare_participle

# How many there may be of each kind: fewer are right, more are not.
AT_MOST = {
    "functions named by a bare participle": 821,
    "values named by an empty word": 4296,
    "class names in more than one module": 106,
}


def test_no_name_that_says_nothing_is_added() -> None:
    counts = Counter(name.kind for name in empty_names())
    assert set(counts) <= set(AT_MOST)
    assert all(counts[kind] <= most for kind, most in AT_MOST.items()), counts


@pytest.mark.parametrize("name", ["moved", "given_on", "_told", "started"])
def test_a_bare_participle_is_seen(name: str) -> None:
    assert is_bare_participle(name)


@pytest.mark.parametrize("name", ["moved_agents", "feed", "is_moved", "create_job", "children"])
def test_a_verb_or_a_thing_is_no_bare_participle(name: str) -> None:
    assert not is_bare_participle(name)
