"""The applied repository of an agent, read by a real git: made, promoted, tagged, pruned, hurt."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from fixtures.meta_repo import git
from fixtures.proposals import Author

from hive_core.errors import Conflict, HiveError, Internal
from hive_core.host.git.applied_repositories import AppliedRepo, ProposalTag
from hive_core.host.git.file_writer import put
from hive_core.host.git.gitfolder import read_refs
from hive_core.host.git.seed import seed
from hive_core.plan import nar

ID, OTHER = "0123456789ab", "ba9876543210"


@pytest.fixture
def repo(tmp_path: Path) -> AppliedRepo:
    made = AppliedRepo(tmp_path / "bob.git")
    made.create("host")
    return made


@pytest.fixture
def author(tmp_path: Path) -> Author:
    return Author(tmp_path / "clone", {"agent.toml": "", "prompts/first.md": "hello\n"})


def whole(repo: AppliedRepo) -> None:
    git(repo.path, "fsck", "--strict", "--no-dangling")


def test_a_new_one_holds_the_seed_and_git_takes_it(repo: AppliedRepo, tmp_path: Path) -> None:
    whole(repo)
    assert git(repo.path, "rev-parse", "main").strip() == seed("host").commit
    git(tmp_path, "clone", "--quiet", "--no-hardlinks", str(repo.path), "out")
    assert (tmp_path / "out/agent.toml").is_file()
    assert repo.nar(seed("host").commit, seed("host").nar) == nar.pack(seed("host").files)


def test_attack_59_no_other_user_may_enter_it_whatever_the_umask_says(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        repo = AppliedRepo(tmp_path / "bob.git")
        repo.create("host")
        repo.tag(ProposalTag("denied", ID, seed("host").commit, "no", 1.0))
    finally:
        os.umask(before)
    for path in (repo.path, *repo.path.rglob("*")):
        assert path.stat().st_mode & 0o7077 == 0, path


def test_a_promoted_proposal_is_a_ref_with_its_history(repo: AppliedRepo, author: Author) -> None:
    author.commit({"prompts/first.md": "hello, you\n"})
    proposal = author.propose()
    repo.promote(ID, proposal.binding, proposal.parts)
    assert (
        git(repo.path, "rev-parse", f"refs/hive/proposals/{ID}").strip() == proposal.binding.commit
    )
    assert len(git(repo.path, "rev-list", f"refs/hive/proposals/{ID}").split()) == 2
    assert repo.fault(proposal.binding) == ""
    assert nar.unpack(repo.nar(proposal.binding.commit, proposal.binding.nar)) == proposal.files
    repo.promote(ID, proposal.binding, proposal.parts)  # again, as after a kill
    whole(repo)


@pytest.mark.parametrize("part", ["pack", "table", "archive"])
def test_a_proposal_that_does_not_belong_together_is_not_taken(
    repo: AppliedRepo, author: Author, part: str
) -> None:
    """Attack 21: what the job hands over is believed by its hashes alone."""
    proposal, other = (
        author.propose(),
        Author(author.folder.with_name("other"), {"a": "b"}).propose(),
    )
    parts = replace(proposal.parts, **{part: getattr(other.parts, part)})
    with pytest.raises(Conflict):
        repo.promote(ID, proposal.binding, parts)
    assert f"refs/hive/proposals/{ID}" not in repo.refs()


def test_tags_have_the_decider_and_the_reason_in_plain_lines(repo: AppliedRepo) -> None:
    """What an agent wrote stands in messages as text: no header, no escape, no odd letter."""
    evil = "no\n\ntagger eve <e@x> 1 +0000\x1b[31m \u202egnp"
    repo.tag(ProposalTag("denied", ID, seed("host").commit, evil + "x" * 10_000, 1_700_000_000.0))
    repo.tag(ProposalTag("denied", ID, seed("host").commit, "another", 1.0))
    shown = git(repo.path, "cat-file", "tag", f"denied/{ID}")
    head, _, text = shown.partition("\n\n")
    assert head.splitlines()[1:] == [
        "type commit", f"tag denied/{ID}", "tagger hive <hive@localhost> 1700000000 +0000",
    ]  # fmt: skip
    assert text.startswith("no\n\ntagger eve")
    assert "<U+001B>[31m <U+202E>gnp" in text
    assert len(text) <= 4001
    whole(repo)


def test_names_that_lead_elsewhere_are_refused(repo: AppliedRepo) -> None:
    for approval in ("../../../../x", "0" * 11, "A" * 12, f"{ID}\n"):
        with pytest.raises(ValueError, match="is not a valid object name"):
            repo.tag(ProposalTag("denied", approval, seed("host").commit, "", 1.0))
    with pytest.raises(ValueError, match="unknown kind of tag"):
        repo.tag(ProposalTag("approve", ID, seed("host").commit, "", 1.0))


def test_git_and_the_tree_agree_about_names_and_order(author: Author) -> None:
    author.commit({"a.b": "1", "a/b": "2", "a0": "3", "deep/er/still/x": "4", "a-b/c": "5"})
    proposal = author.propose()
    assert git(author.folder, "rev-parse", "HEAD^{tree}").strip() == proposal.binding.tree


def test_an_archive_that_was_damaged_is_made_again(repo: AppliedRepo, author: Author) -> None:
    """R8: found before use, and mended from the objects."""
    proposal = author.propose()
    repo.promote(ID, proposal.binding, proposal.parts)
    path = repo.path / "hive" / f"{proposal.binding.commit}.nar"
    for damage in (b"", proposal.parts.archive[:-1], None):
        path.chmod(0o640)
        path.unlink() if damage is None else path.write_bytes(damage)
        assert repo.nar(proposal.binding.commit, proposal.binding.nar) == proposal.parts.archive
        assert path.read_bytes() == proposal.parts.archive


def test_damage_at_random_is_found_before_use_or_does_not_matter(
    repo: AppliedRepo, author: Author
) -> None:
    """R8: after any damage to the files, the repository serves the approved files or none."""
    proposal, drawn = author.propose(), random.Random(8)  # noqa: S311 - no secret
    repo.promote(ID, proposal.binding, proposal.parts)
    files = [path for path in repo.path.rglob("*") if path.is_file()]
    contents_before = {file: file.read_bytes() for file in files}
    refused = 0
    for _ in range(120):
        path = drawn.choice(files)
        data = bytearray(contents_before[path])
        if drawn.random() < 0.2 or not data:
            path.unlink(missing_ok=True)
        else:
            data[drawn.randrange(len(data))] ^= 1 << drawn.randrange(8)
            path.chmod(0o640)
            path.write_bytes(data[: drawn.randrange(len(data) + 1)] if drawn.random() < 0.3 else
                             data)  # fmt: skip
        hurt = AppliedRepo(repo.path)
        try:
            assert hurt.nar(proposal.binding.commit, proposal.binding.nar) == proposal.parts.archive
        except (HiveError, ValueError):
            refused += 1
        if not hurt.fault(proposal.binding):
            assert hurt.nar(proposal.binding.commit, proposal.binding.nar) == proposal.parts.archive
        for damaged_file, content in contents_before.items():
            if not damaged_file.exists() or damaged_file.read_bytes() != content:
                damaged_file.unlink(missing_ok=True)
                damaged_file.write_bytes(content)
    assert refused <= 60


def test_files_that_are_not_those_of_the_commit_are_found(
    repo: AppliedRepo, author: Author
) -> None:
    """Attack 21: archive and hash may fit each other and yet be another commit's."""
    proposal = author.propose()
    repo.promote(ID, proposal.binding, proposal.parts)
    archive = nar.pack({**proposal.files, "agent.toml": (False, b"[request]\n")})
    (repo.path / "hive" / f"{proposal.binding.commit}.nar").write_bytes(archive)
    assert "are not the files of the commit" in repo.fault(
        replace(proposal.binding, nar=nar.digest(archive))
    )
    with pytest.raises(Internal):
        repo.nar(proposal.binding.commit, nar.digest(b"x"))


def test_what_is_not_kept_goes_with_its_objects(repo: AppliedRepo, author: Author) -> None:
    """Growth is bounded: old proposals go with refs, tags, packs; what is deployed stays."""
    first = author.propose()
    author.commit({"big": os.urandom(50_000).hex()})
    second = author.propose()
    repo.promote(ID, first.binding, first.parts)
    repo.promote(OTHER, second.binding, second.parts)
    repo.tag(ProposalTag("denied", OTHER, second.binding.commit, "no", 1.0))
    git(repo.path, "pack-refs", "--all")
    before = size(repo.path)
    repo.prune({ID}, {first.binding.commit, seed("host").commit})
    assert size(repo.path) < before - 40_000
    assert [name for name in read_refs(repo.path) if OTHER in name] == []
    assert repo.fault(first.binding) == ""
    whole(AppliedRepo(repo.path))
    with pytest.raises(HiveError):
        AppliedRepo(repo.path).nar(second.binding.commit, second.binding.nar)


def test_a_commit_that_is_kept_keeps_the_pack_that_brought_it(
    repo: AppliedRepo, author: Author
) -> None:
    proposal = author.propose()
    repo.promote(ID, proposal.binding, proposal.parts)
    repo.propose(OTHER, proposal.binding.commit)
    repo.prune({OTHER}, {proposal.binding.commit, seed("host").commit})
    assert AppliedRepo(repo.path).fault(proposal.binding) == ""
    whole(repo)


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_what_is_no_file_among_the_refs_is_not_waited_for_and_not_followed(
    repo: AppliedRepo, tmp_path: Path
) -> None:
    """Of an older version: members of the operators' group could put anything there."""
    whole_ones = repo.refs()
    outside = tmp_path / "outside"
    outside.write_text("a" * 40 + " refs/tags/forged\n")
    tags = repo.path / "refs/tags"
    os.mkfifo(tags / "pipe")
    (tags / "link").symlink_to(outside)
    (tags / "endless").symlink_to("/dev/zero")
    (tags / "large").write_bytes(b"a" * 5000)
    (repo.path / "packed-refs").symlink_to(outside)
    assert repo.refs() == whole_ones


def test_a_full_disk_leaves_nothing_behind_that_is_in_the_way_later(repo: AppliedRepo) -> None:
    """R20. A file may not be larger than nothing: that is how the disk is full here."""
    tag, before = (
        ProposalTag("denied", ID, seed("host").commit, "no", 1.0),
        sorted(repo.path.rglob("*")),
    )
    script = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from hive_core.host.git.file_writer import put, put_ref\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
        "for write in (lambda at: put(at / 'x', b'x', 0o440), lambda at: put_ref(at / 'y', 'y')):\n"
        "    try: write(Path(sys.argv[1]))\n"
        "    except OSError: continue\n"
        "    sys.exit(1)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(repo.path / "hive")], check=True)
    assert sorted(repo.path.rglob("*")) == before
    data = repo.path / "hive/.z.new"
    data.touch(0o440)  # a daemon that was killed
    put(repo.path / "hive/z", b"z")
    assert not data.exists()
    repo.tag(tag)
    whole(repo)
