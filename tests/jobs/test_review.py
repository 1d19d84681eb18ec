"""Review of what an agent or a person proposed: attacks 19, 20 and 22, and malformed trees."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest
from each import for_each
from fixtures.jobs import CAPS, Bench, Line, Repo, assert_refused
from long import at_most

from hive_core.errors import InvalidArgument
from hive_core.jobs.git import Git
from hive_core.jobs.outcome import JobRefused
from hive_core.jobs.walk import files
from hive_core.model.config.review import CommitReview, Verdict

FILE, PROGRAM, FOLDER, LINK, MODULE = b"100644", b"100755", b"40000", b"120000", b"160000"
EMPTY = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
NAMES = [
    b".git", b".GIT", b".Git", b"git~1", b"GIT~1", b".git ", b".git.", b".git...", b".git::$DATA",
    b".git\\config", b".g\xe2\x80\x8cit", b".git\xe2\x80\x8e", b"..", b".", b"a\\b", b"x\n",
    b"x\x1b", b"\xff", b"caf\xc3\xa9", b"-rf", b" x", b"x ", b"x.", b"a:b",
    b"con\x7f", b"q?", b"n" * 201,
]  # fmt: skip


def bare(lines: Callable[[Repo], list[Line]], bench: Bench) -> JobRefused:
    """What our own walk says of a tree that git has not been asked about."""
    commit = bench.repo.of(lines(bench.repo))
    tree = bench.repo.git("rev-parse", f"{commit}^{{tree}}")
    git = Git(bench.repo.own)
    git.config.write_text("")
    with pytest.raises(JobRefused) as caught:
        files(git, tree, CAPS)
    return caught.value


TREES: dict[str, tuple[str, Callable[[Repo], list[Line]]]] = {
    "a symbolic link": ("mode", lambda repo: [(LINK, b"a", repo.blob(b"/etc/shadow"))]),
    "a submodule": ("mode", lambda _: [(MODULE, b"a", "1" * 40)]),
    "a mode with a zero before": ("mode", lambda repo: [(b"040000", b"a", repo.tree([]))]),
    "a file with a zero before": ("mode", lambda repo: [(b"0100644", b"a", repo.blob(b""))]),
    "a file that its group may write": ("mode", lambda repo: [(b"100664", b"a", repo.blob(b""))]),
    "a setuid file": ("mode", lambda repo: [(b"104755", b"a", repo.blob(b""))]),
    "two of one name": ("tree", lambda repo: [(FILE, b"a", repo.blob(b""))] * 2),
    "a file and a folder of one name": (
        "tree",
        lambda repo: [
            (FILE, b"a", repo.blob(b"")),
            (FILE, b"a-", repo.blob(b"")),
            (FOLDER, b"a", repo.tree([(FILE, b"b", repo.blob(b""))])),
        ],
    ),
    "names out of order": (
        "tree", lambda repo: [(FILE, b"b", repo.blob(b"")), (FILE, b"a", repo.blob(b""))],
    ),
    "an empty folder": ("tree", lambda repo: [(FOLDER, b"a", repo.tree([]))]),
    "a folder that is a file": ("tree", lambda repo: [(FOLDER, b"a", repo.blob(b""))]),
    "a file that is a folder": ("tree", lambda repo: [(FILE, b"a", repo.tree([]))]),
    "names that differ by case": (
        "path", lambda repo: [(FILE, b"A", repo.blob(b"")), (FILE, b"a", repo.blob(b""))],
    ),
    "folders that differ by case": (
        "path",
        lambda repo: [
            (FOLDER, b"Etc", repo.tree([(FILE, b"x", repo.blob(b""))])),
            (FOLDER, b"etc", repo.tree([(FILE, b"y", repo.blob(b""))])),
        ],
    ),
    "a file without content": ("whole", lambda _: [(FILE, b"a", "2" * 40)]),
}  # fmt: skip


@pytest.mark.parametrize("case", TREES)
def test_attack_19_a_tree_of_anything_but_plain_files_is_refused(bench: Bench, case: str) -> None:
    """By our own walk, and by the whole job, in which git says no to most of it first."""
    rule, lines = TREES[case]
    assert bare(lines, bench).rule == rule
    commit = bench.repo.of(lines(bench.repo))
    said = bench.fetch(commit)
    if not said.ok:
        assert said.rule in ("git", "whole"), said
        return
    assert_refused(bench.review(commit), rule)


@for_each("name", NAMES)
def test_attack_19_a_name_that_means_something_else_elsewhere_is_refused(
    bench: Bench, name: bytes
) -> None:
    assert bare(lambda repo: [(FILE, name, repo.blob(b"x"))], bench).rule == "path"
    inside = bare(lambda repo: [(FOLDER, b"d", repo.tree([(FILE, name, repo.blob(b"x"))]))], bench)
    assert inside.rule == "path"
    folder = bare(lambda repo: [(FOLDER, name, repo.tree([(FILE, b"x", repo.blob(b""))]))], bench)
    assert folder.rule == "path"


@pytest.mark.parametrize("name", [b".git", b"git~1", b"..", b".g\xe2\x80\x8cit", b"-rf", b"a\\b"])
def test_attack_19_the_job_says_no_to_such_a_name(bench: Bench, name: bytes) -> None:
    commit = bench.repo.file(name)
    said = bench.fetch(commit)
    said = said if not said.ok else bench.review(commit)
    assert not said.ok
    assert said.rule in ("git", "path")


def test_attack_19_what_fetch_let_through_is_judged_anew(bench: Bench) -> None:
    """A pack of an attacker's own making, in which fetch had no say."""
    repo = bench.repo
    tree = repo.tree([(b"040000", b"d", repo.tree([(FILE, b".git", repo.blob(b"x"))]))])
    commit = repo.commit(tree)
    bench.whole(commit)
    assert_refused(bench.review(commit), "git")


def test_attack_19_a_path_may_be_long_but_not_longer(bench: Bench) -> None:
    assert bench.check(bench.repo.write({"d/" * 10 + "f" * 180: b""})).review.files == 1
    refused_path = bench.repo.write({"e/" * 10 + "f" * 181: b""})
    assert bench.fetch(refused_path).ok
    assert_refused(bench.review(refused_path), "path", "longer than 200")


@pytest.mark.parametrize("missing", ["tree", "parent", "blob"])
def test_attack_17_a_pack_that_leaves_something_out_is_refused(bench: Bench, missing: str) -> None:
    parent = bench.repo.write({"a": b"1\n"})
    commit = bench.repo.write({"a": b"2\n"})
    names = {
        "tree": bench.repo.git("rev-parse", "HEAD^{tree}"),
        "parent": parent,
        "blob": bench.repo.git("rev-parse", "HEAD:a"),
    }
    rows = bench.repo.git("rev-list", "--objects", "--no-object-names", commit).split()
    bench.put_pack(*(row for row in rows if row != names[missing]))
    said = bench.review(commit)
    assert not said.ok
    assert said.rule in ("git", "whole"), said


def test_attack_17_a_pack_that_brings_something_more_is_refused(bench: Bench) -> None:
    commit = bench.repo.write({"a": b"1\n"})
    rows = bench.repo.git("rev-list", "--objects", "--no-object-names", commit).split()
    bench.put_pack(*rows, bench.repo.blob(b"a stowaway\n"))
    assert_refused(bench.review(commit), "whole", "exactly this commit")


def test_attack_17_a_pack_that_builds_on_what_it_does_not_bring_is_refused(bench: Bench) -> None:
    base = bytes(range(256)) * 40
    first = bench.repo.write({"a": base})
    commit = bench.repo.write({"a": base + b"more\n"})
    thin = subprocess.check_output(
        ["git", "-C", bench.repo.folder, "pack-objects", "--stdout", "-q", "--thin", "--revs"],
        input=f"{commit}\n^{first}\n".encode(),
    )
    (bench.root / "in/pack").write_bytes(thin)
    assert_refused(bench.review(commit), "git")


@pytest.mark.parametrize("change", ["cut", "flip", "none", "junk", "longer"])
def test_a_damaged_pack_is_refused(bench: Bench, change: str) -> None:
    commit = bench.repo.write({"a": b"1\n", "b": b"2\n"})
    bench.whole(commit)
    pack = bench.root / "in/pack"
    data = pack.read_bytes()
    pack.write_bytes({
        "cut": data[:-30], "flip": data[:40] + bytes([data[40] ^ 1]) + data[41:], "none": b"",
        "junk": b"PACK" + b"\xff" * 200, "longer": data + b"more",
    }[change])  # fmt: skip
    assert_refused(bench.review(commit), "git")


def test_attack_18_few_objects_that_stand_for_files_without_number_are_counted(
    bench: Bench,
) -> None:
    """https://kate.io/blog/git-bomb/: ten levels of ten names each."""
    repo = bench.repo
    tree = repo.tree([(FILE, b"f", repo.blob(b"x\n"))])
    for _ in range(10):
        tree = repo.tree([(FOLDER, b"d%d" % number, tree) for number in range(10)])
    commit = repo.commit(tree)
    bench.set_limits(seconds=at_most(10))
    assert bench.fetch(commit).ok
    assert_refused(bench.review(commit), "files", "more than 15000")


def test_attack_18_folders_in_folders_are_counted_too(bench: Bench) -> None:
    repo = bench.repo
    tree = repo.tree([(FILE, b"f", repo.blob(b"x\n"))])
    for _ in range(65):
        tree = repo.tree([(FOLDER, b"d", tree)])
    commit = repo.commit(tree)
    assert bench.fetch(commit).ok
    assert_refused(bench.review(commit), "depth", "deeper than 64")
    for _ in range(1000):
        tree = repo.tree([(FOLDER, b"d", tree)])
    bench.set_limits(seconds=at_most(20))
    commit = repo.commit(tree)
    said = bench.fetch(commit)
    assert not (said if not said.ok else bench.review(commit)).ok


@pytest.mark.parametrize(
    ("caps", "content", "rule"),
    [
        ({"tree": 1000}, {"a": bytes(600), "b": bytes(601)}, "tree"),
        ({"files": 10}, {f"{number}": b"" for number in range(11)}, "files"),
        ({"blob": 1024}, {"a": bytes(1025)}, "blob"),
        ({"diff": 2000}, {"a": b"x\n" * 300}, "diff"),
        ({"diff": 2000}, {"a": b"\xff" * 1100}, "diff"),
        ({"diff": 2000}, {"a": b"\n" * 150}, "diff"),
        ({"pack": 1024}, {"a": bytes(range(256)) * 2, "b": b"\1\2\3"}, ""),
    ],
)
def test_attack_18_each_bound_has_its_rule(
    bench: Bench, caps: dict[str, float], content: dict[str, bytes], rule: str
) -> None:
    commit = bench.repo.write(content)
    bench.whole(commit)
    bench.set_limits(**caps)
    said = bench.review(commit)
    if rule:
        assert_refused(said, rule)
    else:
        assert said.ok, said


def test_attack_20_attributes_neither_hide_nor_change_anything(bench: Bench) -> None:
    """L6: -diff, export-ignore, export-subst, a text conversion, another encoding."""
    before = {"a.sh": (True, b"echo kind\n"), "keep": (False, b"$Format:%H$\n")}
    attributes = (
        b"* -diff -text export-ignore export-subst\na.sh diff=hide binary linguist-generated\n"
    )
    commit = bench.repo.write({
        ".gitattributes": attributes, "a.sh": b"echo cruel\n", "keep": b"$Format:%H$\n",
    })  # fmt: skip
    (bench.repo.own / "info").mkdir(exist_ok=True)
    (bench.repo.own / "info/attributes").write_bytes(attributes)
    checked = bench.check(commit, before)
    assert checked.files["keep"] == (False, b"$Format:%H$\n")
    assert checked.files["a.sh"][1] == b"echo cruel\n"
    assert checked.text("a.sh") == ["echo kind", "echo cruel"]
    assert ".gitattributes: has no effect" in " ".join(checked.review.warnings)


def test_attack_20_a_pointer_to_a_large_file_elsewhere_is_flagged(bench: Bench) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize 12\n" % (b"a" * 64)
    checked = bench.check(bench.repo.write({"model": pointer}))
    assert checked.files["model"] == (False, pointer)
    assert any(
        "model: is a pointer to a large file" in warning for warning in checked.review.warnings
    )


def test_attack_22_nothing_invisible_and_no_binary_reaches_the_reader(bench: Bench) -> None:
    """L6 and Trojan Source: ESC, CR, bidi, zero width, NUL, bytes that are not text."""
    content = (
        b"\x1b[2Jclear\n" b"safe\rover\n" b"a\xe2\x80\xaeb\n" b"zero\xe2\x80\x8bwidth\n"
        b"\x00\xff\xfe\n" b"p\xd0\xb0ypal\n" b"x\xc2\x9bm\n" b"e\xcc\x81\n" b"\xe2\x9f\xa8U+202E\n"
    )  # fmt: skip
    checked = bench.check(bench.repo.write({"note.md": content}))
    assert checked.text("note.md") == [
        "⟨U+001B⟩[2Jclear", "safe⟨U+000D⟩over", "a⟨U+202E⟩b", "zero⟨U+200B⟩width",
        "⟨U+0000⟩⟨0xFFFE⟩", "p\u0430ypal", "x⟨U+009B⟩m", "e\u0301", "⟨U+27E8⟩U+202E",
    ]  # fmt: skip
    flags = "\n".join(checked.review.warnings)
    for flag in ("note.md:1: hidden characters: U+001B", "note.md:3: hidden characters: U+202E",
                 "note.md:6: ", "mixes CYRILLIC and LATIN (U+0430)"):  # fmt: skip
        assert flag in flags
    assert checked.review.changed[0].binary


def test_attack_22_author_and_message_are_spelled_out_and_flagged(bench: Bench) -> None:
    repo = bench.repo
    tree = repo.tree([(FILE, b"a", repo.blob(b"x\n"))])
    message = b"fix\x1b[8m \xe2\x80\xaeoops\n\nApproved-by: operator\r\n"
    text = b"tree %s\nauthor \xe2\x80\xaeann <a@b> 1700000000 +0000\n" % tree.encode()
    text += b"committer c <a@b> 1700000000 +0000\n\n" + message
    review = bench.check(repo.put("commit", text)).review
    assert review.subject == "fix⟨U+001B⟩[8m ⟨U+202E⟩oops"
    assert review.author.startswith("⟨U+202E⟩ann <a@b>")
    assert review.message.splitlines()[2] == "Approved-by: operator⟨U+000D⟩"
    assert "the author of the commit: hidden characters: U+202E" in review.warnings


def test_attack_22_a_difference_is_never_folded(bench: Bench) -> None:
    """Thousands of lines, one line of a megabyte, and a change at the end of blanks."""
    before = {"a": (False, b"".join(b"%d\n" % number for number in range(6000)))}
    after = before["a"][1].replace(b"\n3000\n", b"\nthree\n") + b"x" * (1 << 20) + b"\n"
    after += b"y" + b" " * 500 + b"rm -rf /\n"
    checked = bench.check(bench.repo.write({"a": after, "new": b"l\n" * 5000}), before)
    assert checked.text("a") == ["3000", "three", "x" * (1 << 20), "y" + " " * 500 + "rm -rf /"]
    assert checked.text("new") == ["l"] * 5000
    assert "a:6002: has text far to the right" in checked.review.warnings


def test_the_difference_is_to_what_is_deployed_and_says_all(bench: Bench) -> None:
    before = {
        "same": (False, b"s\n"), "gone": (False, b"g\n"), "mode": (False, b"m\n"),
        "text": (False, b"1\n2\n3\n4\n5\n6\n7\n8\n9\n"), "end": (False, b"e\n"),
    }  # fmt: skip
    repo = bench.repo
    repo.write({
        "same": b"s\n", "mode": b"m\n", "text": b"1\n2\n3\n4\nfive\n6\n7\n8\n9\n", "end": b"e",
        "empty": b"",
    })  # fmt: skip
    (repo.folder / "mode").chmod(0o755)
    checked = bench.check(repo.write({}), before)
    kinds = {file.path: file.kind for file in checked.review.changed}
    assert kinds == {"gone": "removed", "mode": "mode", "text": "changed", "end": "changed",
                     "empty": "added"}  # fmt: skip
    rows = [(row.sign, row.old, row.new, row.text) for row in checked.diff if row.path == "text"]
    assert rows[0][::3] == ("@", "changed")
    assert ("-", 5, None, "5") in rows
    assert ("+", None, 5, "five") in rows
    assert (" ", 2, 2, "2") in rows
    assert "becomes executable" in checked.text("mode", "@")
    assert checked.text("end", "@-+")[1:] == [
        "e",
        "e",
        "the line above has no line break at its end",
    ]
    assert checked.review.figures == {
        "files": 5, "bytes": sum(len(data) for _, data in checked.files.values()),
        "changed": 5, "added": 2, "removed": 3,
    }  # fmt: skip


def test_a_commit_that_does_not_build_on_what_is_deployed_is_flagged(bench: Bench) -> None:
    first = bench.repo.write({"a": b"1\n"})
    commit = bench.repo.write({"a": b"2\n"})
    flag = "the commit is not based on the deployed commit"
    for base, flagged in ((first, False), ("1" * 40, True), ("none", False)):
        assert bench.fetch(commit).ok
        assert bench.review(commit, base).ok
        review = CommitReview.read((bench.out / "review.json").read_bytes())
        assert (flag in review.warnings) is flagged


def test_agent_toml_comes_along_parsed_or_with_its_fault(bench: Bench) -> None:
    review = bench.check(bench.repo.write({"agent.toml": b"[request]\nboot = true\n"})).review
    assert review.agent_toml == {"request": {"boot": True}}
    for text in (b"a = " + b"[" * 5000, b"\xff", b"a = nan", b"x"):
        review = bench.check(bench.repo.write({"agent.toml": text})).review
        assert review.agent_toml is None
        assert review.agent_toml_fault.startswith("agent.toml: ")
    bench.repo.git("rm", "-q", "agent.toml")
    review = bench.check(bench.repo.write({"b": b""})).review
    assert (review.agent_toml, review.agent_toml_fault) == (None, "")


def test_attack_48_what_looks_like_a_secret_is_flagged(bench: Bench) -> None:
    key = b"-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl\n"
    review = bench.check(bench.repo.write({"id": key})).review
    assert any(warning.startswith("id: may contain a secret") for warning in review.warnings)


def test_a_review_is_believed_no_further_than_its_shape() -> None:
    for data in (b"", b"{}", b"[" * 10_000, b'{"commit": "x"}', b"\xff", b"null"):
        with pytest.raises(InvalidArgument):
            CommitReview.read(data)
    for data in (b"", b'{"ok": 7}', b'{"ok": true, "more": 1}', b'{"text": "%s"}' % (b"x" * 3000)):
        with pytest.raises(InvalidArgument):
            Verdict.read(data)
