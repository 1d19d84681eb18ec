"""Attack 59: operators use git in clones of their own, over the daemon's socket.

`git-remote-hive` talks to the daemon, which alone enters its repositories and checks each push in a
quarantine.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from fixtures.git_host import CAPS, GitHostProcess, serve_people

from hive_core.cli.main import run
from hive_core.host.git import recovery
from hive_core.host.git.pushed_packs import PushedPacks

pytestmark = pytest.mark.slow

ZERO = "0" * 40


@pytest.fixture
def people(tmp_path: Path) -> Iterator[GitHostProcess]:
    with serve_people(tmp_path) as host:
        yield host


def clone(people: GitHostProcess, repo: str = "meta") -> Path:
    people.git("clone", "--quiet", f"hive::{repo}", repo)
    return people.folder / repo


def by_hand(people: GitHostProcess, place: Path, change: Callable[[dict[str, Any]], None]) -> str:
    file = place / "topology.json"
    tree = json.loads(file.read_text())
    change(tree)
    file.write_text(json.dumps(tree))
    people.git("commit", "-q", "-a", "-m", "by hand", cwd=place)
    return people.git("rev-parse", "HEAD", cwd=place)


def move_bob(tree: dict[str, Any]) -> None:
    tree["bob"] = "ann"


def parents(people: GitHostProcess) -> dict[str, str | None]:
    return {row["name"]: row["parent"] for row in people.call("ListAgents")["agents"]}


def test_attack_59_a_clone_of_the_meta_repository_is_whole_and_has_no_settings_of_hived(
    people: GitHostProcess,
) -> None:
    place = clone(people)
    assert json.loads((place / "topology.json").read_text()) == {
        "ann": "root", "bob": "root", "root": None
    }  # fmt: skip
    people.git("fsck", "--strict", "--full", cwd=place)
    assert people.git("status", "--porcelain", cwd=place) == ""
    assert not (place / ".git/objects/info/alternates").exists()


def test_attack_59_a_commit_by_hand_is_pushed_adopted_and_pulled_by_others(
    people: GitHostProcess,
) -> None:
    mine, other = clone(people), people.folder / "other"
    people.git("clone", "--quiet", "hive::meta", str(other))
    oid = by_hand(people, mine, move_bob)
    people.git("push", "hive::meta", "main", cwd=mine)
    assert parents(people)["bob"] == "ann"
    people.git("pull", "--quiet", cwd=other)
    assert people.git("rev-parse", "HEAD", cwd=other) == oid
    people.git("fetch", "--quiet", cwd=mine)
    assert people.git("status", "--porcelain", "--branch", cwd=mine) == "## main...origin/main"
    (recorded,) = [
        event for event in people.call("ListEvents", limit=100)["events"]
        if event["operation"] == "push_pack"
    ]  # fmt: skip
    assert recorded["fields"]["by"] == f"uid:{os.geteuid()}"


def test_attack_59_a_commit_that_is_not_valid_is_refused_kept_and_can_be_fetched(
    people: GitHostProcess,
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


def packs(people: GitHostProcess) -> set[str]:
    return {path.name for path in (people.folder / "state/meta/.git/objects/pack").iterdir()}


def refused_commit(people: GitHostProcess, place: Path, text: str) -> str:
    """Push a topology that is none; the clone is at the head in force again."""
    (place / "topology.json").write_text(text)
    people.git("commit", "-q", "-a", "-m", text, cwd=place)
    oid = people.git("rev-parse", "HEAD", cwd=place)
    assert "rejected" in people.git("push", "origin", "main", cwd=place, check=False)
    people.git("fetch", "--quiet", "--prune", cwd=place)
    people.git("reset", "-q", "--hard", "origin/main", cwd=place)
    return oid


def test_attack_59_only_the_newest_refused_pushes_are_kept_and_what_others_need_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each refused push left a pack for ever. A later push may need what an old one brought."""
    monkeypatch.setattr(recovery, "KEPT_MOST", 2)
    with serve_people(tmp_path) as people:
        mine = clone(people)
        notes = people.folder / "state/meta/.git/hive-pushed"
        before = packs(people)
        cut_off = PushedPacks(people.folder / "state/meta/.git")
        (notes).mkdir()
        (notes / "pack-cut-off").write_text("1" * 40)  # a daemon that was killed left these
        (people.folder / "state/meta/.git/objects/pack/pack-cut-off.pack").write_bytes(b"half")
        assert cut_off.abandoned_packs([]) == ["pack-cut-off"]
        needed = refused_commit(people, mine, "nonsense 0")
        assert packs(people) - before == {
            f"{name.name}.{suffix}" for name in notes.iterdir() for suffix in ("idx", "pack")
        }
        # On top of the head, with a file from the refused commit, which git does not send again.
        people.git("checkout", "-q", needed, "--", "topology.json", cwd=mine)
        people.git("mv", "topology.json", "notes.txt", cwd=mine)
        people.git("checkout", "-q", "HEAD", "--", "topology.json", cwd=mine)
        people.git("commit", "-q", "-m", "notes", cwd=mine)
        people.git("push", "--quiet", "origin", "main", cwd=mine)
        with_notes = packs(people)
        commits = [refused_commit(people, mine, f"nonsense {number}") for number in range(1, 5)]
        assert {f"origin/refused/{oid[:12]}" for oid in commits[-2:]} == set(
            people.git("for-each-ref", "--format=%(refname:short)", "refs/remotes/origin/refused",
                       cwd=mine).split()
        )  # fmt: skip
        assert with_notes <= packs(people)
        assert len(packs(people)) == len(with_notes) + 2 * 2
        assert len(list(notes.iterdir())) == 2
        fresh = people.folder / "fresh"
        people.git("clone", "--quiet", "hive::meta", str(fresh))
        people.git("fsck", "--strict", "--full", cwd=fresh)
        assert (fresh / "notes.txt").read_text() == "nonsense 0"


def test_attack_59_a_push_that_rewrites_or_deletes_or_comes_too_late_loses_nothing(
    people: GitHostProcess,
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


def sign(people: GitHostProcess, place: Path, *words: str, name: str = "", at: str = "") -> str:
    """Push a tag that approves, or not; what git says."""
    settings = ("-c", "gpg.format=ssh", "-c", f"user.signingkey={people.folder / 'key'}")
    at = at or f"origin/proposals/{people.approval}"
    people.git(*settings, "tag", *words, name or f"approve/{people.approval}", at, cwd=place)
    ref = f"{name or f'approve/{people.approval}'}:refs/tags/approve/{people.approval}"
    return people.git("push", "origin", f"refs/tags/{ref}", cwd=place, check="-s" in words)


def state(people: GitHostProcess) -> str:
    return str(people.call("GetApproval", id=people.approval)["approval"]["state"])


def test_attack_59_what_was_proposed_is_cloned_and_a_signed_tag_approves_it(
    people: GitHostProcess,
) -> None:
    place = clone(people, "ann")
    assert "# new" in people.git("show", f"origin/proposals/{people.approval}", cwd=place)
    sign(people, place, "-s", "-m", "yes")
    assert state(people) == "approved"
    fresh = people.folder / "fresh"
    people.git("clone", "--quiet", "hive::ann", str(fresh))
    assert people.git("tag", cwd=fresh) == f"approve/{people.approval}"


def test_attack_59_a_tag_that_is_not_signed_is_refused_with_the_reason(
    people: GitHostProcess,
) -> None:
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


def test_attack_59_a_signed_tag_on_another_commit_approves_nothing(people: GitHostProcess) -> None:
    place = clone(people, "ann")
    people.git("commit", "-q", "--allow-empty", "-m", "mine", cwd=place)
    settings = ("-c", "gpg.format=ssh", "-c", f"user.signingkey={people.folder / 'key'}")
    name = f"approve/{people.approval}"
    people.git(*settings, "tag", "-s", "-m", "yes", name, "HEAD", cwd=place)
    said = people.git("push", "origin", name, cwd=place, check=False)
    assert "another commit than the proposed one" in said
    assert state(people) == "pending"


def test_attack_59_a_replaced_object_is_pushed_as_what_it_is(people: GitHostProcess) -> None:
    """refs/replace shows a person something else than the object: what is judged is the object."""
    place = clone(people)
    good = by_hand(people, place, move_bob)
    people.git("reset", "-q", "--hard", "HEAD~1", cwd=place)
    evil = by_hand(people, place, lambda tree: tree.update(ann="bob"))
    people.git("reset", "-q", "--hard", good, cwd=place)
    people.git("replace", good, evil, cwd=place)
    people.git("push", "--quiet", "origin", "main", cwd=place)
    assert parents(people) == {"root": None, "ann": "root", "bob": "ann"}


Hive = Callable[..., str]


@pytest.fixture(name="hive")
def _hive(people: GitHostProcess, capsys: pytest.CaptureFixture[str]) -> Hive:
    """What the operator's command prints."""

    def hive(*words: str) -> str:
        run(["--socket", people.socket, *words])
        said = capsys.readouterr()
        return said.out + said.err

    return hive


def test_attack_59_hive_meta_prints_what_the_daemon_reads_escaped(
    people: GitHostProcess, hive: Hive
) -> None:
    """Nobody becomes another user on the operator's terminal, and no pager of hived's runs."""
    mine = clone(people)
    first = people.git("rev-parse", "HEAD", cwd=mine)
    people.git("config", "i18n.commitEncoding", "utf-8", cwd=mine)
    (mine / "notes.txt").write_text("a\x1b]0;evil\x07b\nlast\n")
    people.git("add", "notes.txt", cwd=mine)
    people.git("commit", "-q", "-m", "evil \x1b[2Jsubject\n\nbody\x1b[1m", cwd=mine)
    people.git("push", "--quiet", "origin", "main", cwd=mine)
    head = people.git("rev-parse", "HEAD", cwd=mine)
    said = {
        words: hive("meta", *words.split())
        for words in (
            "log",
            "show",
            f"show {head[:8]}",
            "diff",
            f"diff {first[:10]} {head}",
            "log -o json",
        )
    }
    for text in said.values():
        assert "\x1b" not in text.replace("\\u001b", "")
    assert said["log"].splitlines()[1].startswith(head[:12])
    assert "evil ⟨U+001B⟩[2Jsubject" in said["log"]
    assert first[:12] in said["log"]
    assert "body⟨U+001B⟩[1m" in said["show"]
    assert "+ a⟨U+001B⟩]0;evil⟨U+0007⟩b" in said["show"] == said[f"show {head[:8]}"]
    assert "=== notes.txt" in said["diff"] == said[f"diff {first[:10]} {head}"]
    assert json.loads(said["log -o json"])[0]["commit"] == head
    assert hive("meta", "show", "HEAD") == said["show"]
    for odd in ("0123abcd", "0" * 40):
        assert "hive: " in hive("meta", "show", odd)
    assert "see `hive meta log`" in hive("meta", "show", "main")


def test_a_clone_of_a_damaged_repository_says_so_and_the_daemon_goes_on(
    people: GitHostProcess,
) -> None:
    """libgit2 may crash over it or never return, so it runs in a separate process."""
    head = people.call("ListRefs", repo="meta")["refs"][0]["oid"]
    tree = people.call("MetaLog", limit=1)["commits"][0]["commit"]
    assert tree == head
    objects = people.folder / "state/meta/.git/objects"
    for path in objects.glob("??/*"):
        if path.parent.name + path.name != head:
            data = path.read_bytes()
            path.chmod(0o600)
            path.write_bytes(data[: len(data) // 2])
    said = people.git("clone", "hive::meta", "lost", check=False)
    assert "hive: cannot read .git" in said
    assert people.call("ListRefs", repo="meta")["refs"]
    assert list((people.folder / "state/served").iterdir()) == []


def test_a_clone_comes_in_parts_that_fit_into_a_frame(people: GitHostProcess) -> None:
    mine = clone(people)
    (mine / "large.bin").write_bytes(os.urandom(CAPS.blob - 100))
    people.git("add", "large.bin", cwd=mine)
    people.git("commit", "-q", "-m", "large", cwd=mine)
    people.git("push", "--quiet", "origin", "main", cwd=mine)
    head = people.git("rev-parse", "HEAD", cwd=mine)
    exported = people.call("ExportPack", repo="meta", wants=[head])
    assert exported["next"]
    fresh = people.folder / "fresh"
    people.git("clone", "--quiet", "hive::meta", str(fresh))
    assert (fresh / "large.bin").read_bytes() == (mine / "large.bin").read_bytes()
    people.git("fsck", "--strict", "--full", cwd=fresh)


def test_a_commit_on_which_the_daemon_builds_at_once_is_taken(people: GitHostProcess) -> None:
    """A new agent without a place is put below the root agent by a commit of the daemon's own."""
    mine = clone(people)
    spec = json.loads((mine / "agents/ann.json").read_text())
    spec["uuid"] = str(uuid4())
    (mine / "agents/dora.json").write_text(json.dumps(spec))
    people.git("add", "agents/dora.json", cwd=mine)
    people.git("commit", "-q", "-m", "a new one", cwd=mine)
    people.git("push", "--quiet", "origin", "main", cwd=mine)
    assert parents(people)["dora"] == "root"
    people.git("pull", "--quiet", "--ff-only", cwd=mine)
    assert json.loads((mine / "topology.json").read_text())["dora"] == "root"
