"""Fetching from repositories that their owners made to hurt: attacks 15, 17 and 18."""

from __future__ import annotations

import os
import struct
import subprocess
import zlib
from hashlib import sha1
from pathlib import Path

import pytest
from each import for_each
from fixtures.git_traps import traps
from fixtures.jobs import ENVIRONMENT, Bench, Repo, assert_refused
from long import at_most

FILES = {"agent.toml": b"[harness]\n", "prompts/a.md": b"be kind\n"}


def test_attack_15_settings_and_hooks_of_a_repository_run_nothing(
    bench: Bench, tmp_path: Path
) -> None:
    """R8 of proposals: the traps are real, as a git that works in the folder shows."""
    mark = tmp_path / "mark"
    commit = bench.repo.write(FILES)
    traps(bench.repo, mark)
    assert bench.check(commit).files.keys() == FILES.keys()
    assert not mark.exists()
    subprocess.run(["git", "-C", bench.repo.folder, "status"], check=False, capture_output=True)
    assert mark.exists()


@pytest.mark.parametrize(
    "lines",
    [
        "[include]\n\tpath = /nonexistent/../../etc/shadow\n",
        "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = sha256\n",
        "[core]\n\tworktree = /\n\tbare = false\n",
        "[core\n",
        "\0" * 100,
        "[extensions]\n\tnoSuchThing = true\n[core]\n\trepositoryformatversion = 1\n",
    ],
)
def test_attack_15_settings_that_make_no_sense_end_in_an_answer(bench: Bench, lines: str) -> None:
    commit = bench.repo.write(FILES)
    with (bench.repo.own / "config").open("a") as file:
        file.write(lines)
    said = bench.fetch(commit)
    assert said.ok or said.rule == "git", said


def test_attack_15_a_git_folder_that_leads_elsewhere_is_not_followed(
    bench: Bench, tmp_path: Path
) -> None:
    other = Repo(tmp_path / "other")
    commit = other.write(FILES)
    own = bench.repo.own
    own.rename(tmp_path / "away")
    own.symlink_to(other.own)
    assert_refused(bench.fetch(commit), "repository")
    own.unlink()
    own.write_text(f"gitdir: {other.own}\n")
    assert_refused(bench.fetch(commit), "repository")


@for_each(
    "name",
    ["--upload-pack=touch /tmp/x", "-q", "HEAD", "main", "a" * 39, "a" * 41, "A" * 40, "a" * 64,
     "refs/heads/main", "+" + "a" * 40, "a" * 39 + "\n", "", "a" * 40 + ":x", "../" + "a" * 37],
)  # fmt: skip
def test_attack_17_only_a_full_name_of_a_commit_reaches_git(bench: Bench, name: str) -> None:
    bench.repo.write(FILES)
    assert_refused(bench.fetch(name), "commit", "40 hexadecimal digits")


@pytest.mark.parametrize("repo", ["..", "/etc", "configs/../x", "--upload-pack=x", "configs/A", ""])
def test_attack_17_only_the_places_of_configurations_are_read(bench: Bench, repo: str) -> None:
    commit = bench.repo.write(FILES)
    assert_refused(bench.fetch(commit, repo), "repository")


def test_a_clone_that_an_ancestor_made_is_read_at_its_own_place(bench: Bench) -> None:
    """H9: `source` names the caller's own clone."""
    clone = Repo(bench.root / "agent/configs/alice")
    commit = clone.write(FILES)
    assert bench.fetch(commit, "configs/alice").ok
    assert_refused(bench.fetch(commit, "configs/bob"), "repository", "not a git repository")


def test_attack_17_what_an_alternate_lends_is_copied_and_not_referred_to(
    bench: Bench, tmp_path: Path
) -> None:
    lender = Repo(tmp_path / "lender")
    commit = lender.write(FILES)
    (bench.repo.own / "objects/info/alternates").write_text(f"{lender.own}/objects\n")
    assert bench.fetch(commit).ok
    lender.own.rename(tmp_path / "gone")
    assert bench.review(commit).ok
    assert_refused(bench.fetch(commit), "commit", "does not have this commit")


def test_attack_17_a_promise_to_fetch_what_is_missing_is_not_kept(
    bench: Bench, tmp_path: Path
) -> None:
    """A lazy fetch would start the program that the URL names."""
    mark = tmp_path / "mark"
    commit = bench.repo.write(FILES)
    blob = bench.repo.git("rev-parse", "HEAD:prompts/a.md")
    (bench.repo.own / "objects" / blob[:2] / blob[2:]).unlink()
    for key, value in (
        ("core.repositoryFormatVersion", "1"), ("extensions.partialClone", "origin"),
        ("remote.origin.url", f"ext::touch {mark}"), ("remote.origin.promisor", "true"),
        ("remote.origin.partialCloneFilter", "blob:none"), ("protocol.ext.allow", "always"),
        ("uploadpack.allowFilter", "true"),
    ):  # fmt: skip
        bench.repo.git("config", key, value)
    assert_refused(bench.fetch(commit), "git")
    assert not mark.exists()
    subprocess.run(
        ["git", "-C", bench.repo.folder, "cat-file", "-p", blob], check=False, capture_output=True
    )
    assert mark.exists()


def test_attack_17_a_replacement_shows_no_other_commit(bench: Bench) -> None:
    asked = bench.repo.write({"a": b"what is approved\n"})
    other = bench.repo.write({"a": b"what is meant\n"})
    bench.repo.git("update-ref", f"refs/replace/{asked}", other)
    assert bench.repo.git("show", f"{asked}:a") == "what is meant"
    assert bench.check(asked).files["a"] == (False, b"what is approved\n")


def test_attack_17_a_graft_cannot_cut_history_off(bench: Bench) -> None:
    bench.repo.write({"a": b"1\n"})
    commit = bench.repo.write({"a": b"2\n"})
    (bench.repo.own / "info").mkdir(exist_ok=True)
    (bench.repo.own / "info/grafts").write_text(f"{commit}\n")
    said = bench.fetch(commit)
    assert_refused(said if not said.ok else bench.review(commit), "git")


def test_attack_17_a_shallow_clone_has_no_history_to_judge(bench: Bench) -> None:
    bench.repo.write({"a": b"1\n"})
    commit = bench.repo.write({"a": b"2\n"})
    (bench.repo.own / "shallow").write_text(f"{commit}\n")
    assert_refused(bench.fetch(commit), "whole")


def test_a_tag_a_tree_and_a_file_are_no_commit(bench: Bench) -> None:
    commit = bench.repo.write(FILES)
    bench.repo.git("tag", "-a", "-m", "t", "t")
    for name in ("refs/tags/t", f"{commit}^{{tree}}", f"{commit}:agent.toml"):
        said = bench.fetch(bench.repo.git("rev-parse", name))
        assert_refused(said, "commit")


def test_a_commit_without_a_ref_can_be_requested(bench: Bench) -> None:
    bench.repo.write({"a": b"1\n"})
    commit = bench.repo.write({"a": b"2\n"})
    bench.repo.git("reset", "-q", "--hard", "HEAD~1")
    assert bench.check(commit).files["a"] == (False, b"2\n")


def test_an_object_that_is_missing_cut_or_not_what_its_name_says_is_refused(bench: Bench) -> None:
    """Attack 19: no program trusts the names of objects."""
    for number, content in enumerate((None, b"", zlib.compress(b"blob 3\0no\n"))):
        commit = bench.repo.write({"a": f"{number}\n".encode()})
        blob = bench.repo.git("rev-parse", "HEAD:a")
        path = bench.repo.own / "objects" / blob[:2] / blob[2:]
        path.chmod(0o644)
        path.unlink() if content is None else path.write_bytes(content)
        assert_refused(bench.fetch(commit), "git")
        assert not (bench.out / "pack").exists()


def test_attack_18_a_pack_that_is_too_large_is_cut_off_on_its_way(bench: Bench) -> None:
    bench.set_limits(pack=1 << 20)
    commit = bench.repo.write({f"{n}": os.urandom(1 << 20) for n in range(4)})
    assert_refused(bench.fetch(commit), "pack", "larger than 1048576 bytes")
    assert not (bench.out / "pack").exists()


def test_attack_18_too_many_objects_are_refused_by_their_number(bench: Bench) -> None:
    bench.set_limits(objects=100)
    commit = bench.repo.write({f"{number}": b"%d" % number for number in range(120)})
    assert_refused(bench.fetch(commit), "objects", "122 objects exceed the limit of 100")


def test_attack_18_a_blob_that_unpacks_to_very_much_is_refused_by_name(bench: Bench) -> None:
    commit = bench.repo.write({"big/zeros": bytes(24 << 20), **FILES})
    assert_refused(bench.fetch(commit), "blob", "larger than 5242880 bytes", "big/zeros")
    bench.whole(commit)
    assert_refused(bench.review(commit), "blob")


def test_attack_18_a_delta_that_asks_for_all_memory_is_refused(bench: Bench) -> None:
    """Some bytes that say: copy the same 16 MiB five hundred times."""
    base = bench.repo.blob(bytes(1 << 24))
    size = 500 << 24
    copy = b"\xf0\xff\xff\xff"  # 0xffffff bytes from the start
    delta = number(1 << 24) + number(size) + copy * 500
    kind = struct.pack(">4sII", b"PACK", 2, 2)
    pack = kind + entry(3, bytes(1 << 24)) + entry(7, delta, bytes.fromhex(base))
    (bench.root / "in/pack").write_bytes(pack + sha1(pack, usedforsecurity=False).digest())
    assert_refused(bench.review("a" * 40), "git")


def number(value: int) -> bytes:
    """As deltas write a size."""
    encoded = b""
    while value > 127:
        encoded += bytes([value & 127 | 128])
        value >>= 7
    return encoded + bytes([value])


def entry(kind: int, data: bytes, base: bytes = b"") -> bytes:
    """As packs write an object."""
    size, first = len(data) >> 4, kind << 4 | len(data) & 15
    head = bytes([first | 128 * (size > 0)]) + (number(size) if size else b"")
    return head + base + zlib.compress(data)


def test_attack_18_refs_without_number_are_not_even_looked_at(bench: Bench) -> None:
    commit = bench.repo.write(FILES)
    lines = (f"{commit} refs/heads/b{number}\n" for number in range(300_000))
    (bench.repo.own / "packed-refs").write_text("# pack-refs with: peeled\n" + "".join(lines))
    bench.set_limits(seconds=at_most(5))
    assert bench.check(commit).review.commit == commit


def test_attack_18_what_hangs_is_ended_in_time(bench: Bench) -> None:
    """Attack 13: a FIFO where git expects a file."""
    bench.set_limits(seconds=1)
    commit = bench.repo.write(FILES)
    path = bench.repo.own / "objects" / commit[:2] / commit[2:]
    path.unlink()
    os.mkfifo(path)
    assert_refused(bench.fetch(commit), "seconds")


def test_attack_18_a_file_of_a_tebibyte_is_not_read(bench: Bench) -> None:
    """Attack 13: a sparse file takes no room, until somebody reads it."""
    bench.set_limits(seconds=at_most(20))
    commit = bench.repo.write(FILES)
    for place in ("packed-refs", "objects/pack/pack-a.pack", "objects/pack/pack-a.idx", "shallow"):
        with (bench.repo.own / place).open("wb") as file:
            file.truncate(1 << 40)
    said = bench.fetch(commit)
    assert said.ok or said.rule in ("git", "whole"), said


def test_a_repository_of_another_user_is_read_all_the_same(bench: Bench) -> None:
    """What an agent's own users wrote belongs to none of the job's ids."""
    commit = bench.repo.write(FILES)
    for path in (bench.repo.folder, *bench.repo.folder.rglob("*")):
        os.chown(path, 12345, 12345)
    assert bench.fetch(commit).ok


def test_words_that_are_no_job_say_so_and_end_with_an_error(bench: Bench) -> None:
    assert bench.run("fetch", "a" * 40, ".", "pack=1").fault
    assert bench.run("fetch").fault
    assert bench.run("no-such-kind").fault


def test_git_is_told_nothing_by_the_environment(bench: Bench, tmp_path: Path) -> None:
    commit = bench.repo.write(FILES)
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[core\n")
    assert "HOME" in ENVIRONMENT
    assert bench.fetch(commit).ok
