"""Attack 59: people use git in clones of their own, over `git-remote-hive` and the daemon's socket.

The daemon's repositories are nobody else's to enter; what is pushed is checked in a quarantine.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from host.githost import Served, served

ZERO = "0" * 40


@pytest.fixture
def people(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as found:
        yield found


def clone(people: Served, repo: str = "meta") -> Path:
    people.git("clone", "--quiet", f"hive::{repo}", repo)
    return people.folder / repo


def by_hand(people: Served, place: Path, change: Callable[[dict[str, Any]], None]) -> str:
    file = place / "topology.json"
    tree = json.loads(file.read_text())
    change(tree)
    file.write_text(json.dumps(tree))
    people.git("commit", "-q", "-a", "-m", "by hand", cwd=place)
    return people.git("rev-parse", "HEAD", cwd=place)


def move_bob(tree: dict[str, Any]) -> None:
    tree["bob"] = "ann"


def parents(people: Served) -> dict[str, str | None]:
    return {row["name"]: row["parent"] for row in people.call("ListAgents")["agents"]}


def test_attack_59_a_clone_of_the_meta_repository_is_whole_and_has_no_settings_of_hived(
    people: Served,
) -> None:
    place = clone(people)
    assert json.loads((place / "topology.json").read_text()) == {
        "ann": "root", "bob": "root", "root": None
    }  # fmt: skip
    people.git("fsck", "--strict", "--full", cwd=place)
    assert people.git("status", "--porcelain", cwd=place) == ""
    assert not (place / ".git/objects/info/alternates").exists()


def test_attack_59_a_commit_by_hand_is_pushed_adopted_and_pulled_by_others(people: Served) -> None:
    mine, other = clone(people), people.folder / "other"
    people.git("clone", "--quiet", "hive::meta", str(other))
    oid = by_hand(people, mine, move_bob)
    people.git("push", "hive::meta", "main", cwd=mine)
    assert parents(people)["bob"] == "ann"
    people.git("pull", "--quiet", cwd=other)
    assert people.git("rev-parse", "HEAD", cwd=other) == oid
    people.git("fetch", "--quiet", cwd=mine)
    assert people.git("status", "--porcelain", "--branch", cwd=mine) == "## main...origin/main"
    (told,) = [
        each for each in people.call("ListEvents", limit=100)["events"]
        if each["operation"] == "push_pack"
    ]  # fmt: skip
    assert told["fields"]["by"] == f"uid:{os.geteuid()}"


def test_attack_59_a_commit_that_is_not_valid_is_refused_kept_and_can_be_fetched(
    people: Served,
) -> None:
    mine = clone(people)
    head = people.git("rev-parse", "HEAD", cwd=mine)

    def cycle(tree: dict[str, Any]) -> None:
        tree["root"] = "ann"

    bad = by_hand(people, mine, cycle)
    said = people.git("push", "origin", "main", cwd=mine, check=False)
    assert "cycle" in said
    assert "remote rejected" in said
    assert parents(people)["root"] is None
    other = people.folder / "other"
    people.git("clone", "--quiet", "hive::meta", str(other))
    assert people.git("rev-parse", "HEAD", cwd=other) == head
    assert people.git("rev-parse", f"origin/refused/{bad[:12]}", cwd=other) == bad


def test_attack_59_a_push_that_rewrites_or_deletes_or_comes_too_late_loses_nothing(
    people: Served,
) -> None:
    mine, late = clone(people), people.folder / "late"
    people.git("clone", "--quiet", "hive::meta", str(late))
    by_hand(people, mine, move_bob)
    people.git("push", "--quiet", "origin", "main", cwd=mine)
    head = people.git("rev-parse", "HEAD", cwd=mine)
    by_hand(people, late, lambda tree: tree.update(ann="bob"))
    assert "rejected" in people.git("push", "origin", "main", cwd=late, check=False)
    people.git("commit", "-q", "--amend", "-m", "never happened", cwd=mine)
    assert "rewrites history" in people.git("push", "-f", "origin", "main", cwd=mine, check=False)
    for words in ((":main",), ("main:other",), ("main:refs/tags/x",)):
        assert "rejected" in people.git("push", "origin", *words, cwd=mine, check=False)
    (main,) = [row for row in people.call("ListRefs", repo="meta")["refs"]
               if row["name"] == "refs/heads/main"]  # fmt: skip
    assert main["oid"] == head
    assert parents(people)["bob"] == "ann"


def sign(people: Served, place: Path, *words: str, name: str = "", at: str = "") -> str:
    """Push a tag that approves, or not; what git says."""
    settings = ("-c", "gpg.format=ssh", "-c", f"user.signingkey={people.folder / 'key'}")
    at = at or f"origin/proposals/{people.approval}"
    people.git(*settings, "tag", *words, name or f"approve/{people.approval}", at, cwd=place)
    ref = f"{name or f'approve/{people.approval}'}:refs/tags/approve/{people.approval}"
    return people.git("push", "origin", f"refs/tags/{ref}", cwd=place, check="-s" in words)


def state(people: Served) -> str:
    return str(people.call("GetApproval", id=people.approval)["approval"]["state"])


def test_attack_59_what_was_proposed_is_cloned_and_a_signed_tag_approves_it(people: Served) -> None:
    place = clone(people, "ann")
    assert "# new" in people.git("show", f"origin/proposals/{people.approval}", cwd=place)
    sign(people, place, "-s", "-m", "yes")
    assert state(people) == "approved"
    fresh = people.folder / "fresh"
    people.git("clone", "--quiet", "hive::ann", str(fresh))
    assert people.git("tag", cwd=fresh) == f"approve/{people.approval}"


def test_attack_59_a_tag_that_is_not_signed_is_refused_with_the_reason(people: Served) -> None:
    place = clone(people, "ann")
    assert "not a signed tag" in sign(people, place)
    people.git("tag", "-d", f"approve/{people.approval}", cwd=place)
    assert "not signed" in sign(people, place, "-a", "-m", "yes")
    assert "refused before" in people.git(
        "push", "origin", f"approve/{people.approval}", cwd=place, check=False
    )
    assert state(people) == "pending"
    people.git("tag", "-d", f"approve/{people.approval}", cwd=place)
    sign(people, place, "-s", "-m", "yes")
    assert state(people) == "approved"


def test_attack_59_a_signed_tag_on_another_commit_approves_nothing(people: Served) -> None:
    place = clone(people, "ann")
    people.git("commit", "-q", "--allow-empty", "-m", "mine", cwd=place)
    settings = ("-c", "gpg.format=ssh", "-c", f"user.signingkey={people.folder / 'key'}")
    name = f"approve/{people.approval}"
    people.git(*settings, "tag", "-s", "-m", "yes", name, "HEAD", cwd=place)
    said = people.git("push", "origin", name, cwd=place, check=False)
    assert "another commit than was proposed" in said
    assert state(people) == "pending"


def test_attack_59_a_replaced_object_is_pushed_as_what_it_is(people: Served) -> None:
    """refs/replace shows a person something else than the object: what is judged is the object."""
    place = clone(people)
    good = by_hand(people, place, move_bob)
    people.git("reset", "-q", "--hard", "HEAD~1", cwd=place)
    evil = by_hand(people, place, lambda tree: tree.update(ann="bob"))
    people.git("reset", "-q", "--hard", good, cwd=place)
    people.git("replace", good, evil, cwd=place)
    people.git("push", "--quiet", "origin", "main", cwd=place)
    assert parents(people) == {"root": None, "ann": "root", "bob": "ann"}
