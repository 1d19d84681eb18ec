"""list_refs, meta_log and meta_diff: pages of bounded size, also of a hive without commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from fixtures.world import World, rows

from hive_core.host.git.server import MetaGitServer
from hive_core.model.config.push import MetaCommit


def test_a_hive_without_commits_has_no_differences(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`meta_diff` ended with an IndexError."""

    async def no_commits(_: MetaGitServer, __: str, ___: int) -> Sequence[MetaCommit]:
        return []

    monkeypatch.setattr(MetaGitServer, "log", no_commits)
    assert world.call("operator", "meta_diff") == {"old": "", "new": "", "lines": [], "next": None}
    assert world.call("operator", "meta_log") == {"commits": [], "next": None}


def test_a_page_of_refs_has_at_most_100(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def many_refs(_: MetaGitServer, __: str) -> Mapping[str, str]:
        return {f"refs/tags/t{number:03}": "1" * 40 for number in range(250)}

    monkeypatch.setattr(MetaGitServer, "refs", many_refs)
    names, after = list[object](), None
    for size in (100, 100, 50):
        page = world.call("operator", "list_refs", repo="meta", limit=1000, after=after)
        assert len(rows(page["refs"])) == size
        names += [row["name"] for row in rows(page["refs"])]
        after = page["next"]
    assert after is None
    assert names == [f"refs/tags/t{number:03}" for number in range(250)]


def test_a_page_of_commits_has_at_most_100(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def many_commits(_: MetaGitServer, start: str, limit: int) -> Sequence[MetaCommit]:
        first = int(start, 16) if len(start) < 40 else 0
        numbers = range(first, min(first + limit, 250))
        return [MetaCommit(f"{number:04x}", (), "a", 0, "m") for number in numbers]

    monkeypatch.setattr(MetaGitServer, "log", many_commits)
    sizes, after = [], None
    for _ in range(3):
        page = world.call("operator", "meta_log", limit=200, after=after)
        sizes.append(len(rows(page["commits"])))
        after = page["next"]
    assert (sizes, after) == ([100, 100, 50], None)
