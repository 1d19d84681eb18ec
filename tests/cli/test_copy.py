"""`hive cp`: which members of an agent's archive are extracted, and the form of its arguments."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from cli.run import Hive
from each import for_each

from hive_core.cli.agents import copy, enter
from hive_core.cli.agents.copy import Remote, parse_place, unpack
from hive_core.cli.agents.relay import in_pipes
from hive_core.errors import Conflict


@for_each("text, place", [
    ("lead:notes.txt", Remote("lead", "notes.txt")),
    ("lead:/tree/x:y", Remote("lead", "/tree/x:y")),
    ("lead:", Remote("lead", ".")), ("./lead:x", Path("lead:x")), ("/tmp/x", Path("/tmp/x")),
    ("Lead:x", Path("Lead:x")), ("-", Path("-")),
])  # fmt: skip
def test_copy_arguments_are_parsed(text: str, place: Remote | Path) -> None:
    assert parse_place(text) == place


@pytest.mark.parametrize("words", [("a", "b"), ("lead:a", "bob:b"), ("lead:a",)])
def test_one_side_of_a_copy_is_in_a_container(hive: Hive, words: tuple[str, ...]) -> None:
    assert hive("cp", *words).status == 2


def archive(*members: tuple[str, bytes, str]) -> io.BytesIO:
    """Members of a name, a kind, and content or the target of a link."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as made:
        for name, kind, content in members:
            member = tarfile.TarInfo(name)
            member.type, member.mode = kind, 0o6755
            if kind == tarfile.REGTYPE:
                member.size = len(content)
                made.addfile(member, io.BytesIO(content.encode()))
            else:
                member.linkname = content
                made.addfile(member)
    stream.seek(0)
    return stream


FILE, FOLDER, LINK, HARD, FIFO = (
    tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE,
)  # fmt: skip


def test_only_files_and_folders_are_extracted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = archive(
        (".", FOLDER, ""), ("./a/b/c", FILE, "text"), ("./a/d", FOLDER, ""),
        ("./link", LINK, "/etc/shadow"), ("./hard\x1b", HARD, "a/b/c"), ("./pipe", FIFO, ""),
    )  # fmt: skip
    unpack(made, tmp_path / "out")
    texts = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert texts == ["out", "out/a", "out/a/b", "out/a/b/c", "out/a/d"]
    assert (tmp_path / "out/a/b/c").read_text() == "text"
    assert (tmp_path / "out/a/b/c").stat().st_mode & 0o7000 == 0
    said = capsys.readouterr().err
    assert said.count("not copied, neither a file nor a folder") == 3
    assert "\x1b" not in said


@pytest.mark.parametrize("name", ["../evil", "/evil", "a/../../evil"])
def test_no_name_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(Conflict, match="is outside the folder"):
        unpack(archive((name, FILE, "x")), tmp_path / "out")
    assert not (tmp_path / "evil").exists()


def test_no_existing_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/file").write_text("kept")
    (tmp_path / "out/folder").symlink_to(tmp_path / "precious")
    (tmp_path / "out/file").symlink_to(tmp_path / "precious/file")
    for name in ("folder/file", "file"):
        with pytest.raises(OSError, match=r"symbolic links|Not a directory"):
            unpack(archive((name, FILE, "x")), tmp_path / "out")
    assert (tmp_path / "precious/file").read_text() == "kept"


def test_an_invalid_archive_is_reported(tmp_path: Path) -> None:
    with pytest.raises(Conflict, match="cannot read the archive"):
        unpack(io.BytesIO(b"x" * 2000), tmp_path / "out")


@pytest.mark.parametrize("extra", [
    {"path": "a\0b"}, {"GNU.sparse.map": "a,b"}, {"comment": "x" * (2 << 20)},
])  # fmt: skip
def test_an_odd_header_is_an_error(tmp_path: Path, extra: dict[str, str]) -> None:
    """A header is read into memory as a whole, and its values are text of the agent."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as made:
        member = tarfile.TarInfo("a")
        member.pax_headers = extra
        made.addfile(member)
    stream.seek(0)
    with pytest.raises(Conflict, match="cannot read the archive"):
        unpack(stream, tmp_path / "out")


@pytest.mark.parametrize("name", [".", "./"])
def test_a_file_without_a_name_is_an_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(Conflict, match="is outside the folder"):
        unpack(archive((name, FILE, "x")), tmp_path / "out")


def test_no_member_is_kept_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    most = 0
    iterate = tarfile.TarFile.next

    def next_member(archive: tarfile.TarFile) -> tarfile.TarInfo | None:
        nonlocal most
        most = max(most, len(archive.members))  # type: ignore[attr-defined]
        return iterate(archive)

    monkeypatch.setattr(tarfile.TarFile, "next", next_member)
    unpack(archive(*((f"f{number}", FILE, "x") for number in range(50))), tmp_path / "out")
    assert len(list((tmp_path / "out").iterdir())) == 50
    assert most <= 2


@pytest.fixture
def container(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder that stands for /tree/state; scripts run there as they would in the container."""
    home = tmp_path / "state"
    home.mkdir()

    def run(
        _place: enter.Place, command: Sequence[str], source: int, target: int, errors: int
    ) -> int:
        words = [word.replace(enter.STATE, str(home)) for word in command]
        return in_pipes(words, source, target, errors)

    place = enter.Place("lead", os.getpid(), 0)
    monkeypatch.setattr(enter, "run_in_pipes", run)
    monkeypatch.setattr(enter, "locate", lambda *_: place)
    return home


def test_a_file_is_copied_in_and_out(hive: Hive, container: Path, tmp_path: Path) -> None:
    mine = tmp_path / "tool"
    mine.write_bytes(b"a\0b" * 100_000)
    mine.chmod(0o700)
    (container / "folder").mkdir()
    assert hive("cp", str(mine), "lead:folder").status == 0
    assert (container / "folder/tool").read_bytes() == mine.read_bytes()
    assert (container / "folder/tool").stat().st_mode & 0o777 == 0o755
    back = tmp_path / "back"
    assert hive("cp", "lead:folder/tool", str(back)).status == 0
    assert back.read_bytes() == mine.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "back",
        "operator.sock",
        "state",
        "tool",
    ]


def test_a_folder_is_copied_in_and_out(hive: Hive, container: Path, tmp_path: Path) -> None:
    (tmp_path / "mine/deep").mkdir(parents=True)
    (tmp_path / "mine/deep/file").write_text("x" * 200_000)
    assert hive("cp", str(tmp_path / "mine"), "lead:there").status == 0
    assert (container / "there/deep/file").read_text() == "x" * 200_000
    (container / "there/link").symlink_to("/etc/passwd")
    done = hive("cp", "lead:there", str(tmp_path / "back"))
    assert done.status == 0
    assert "not copied" in done.err
    assert (tmp_path / "back/deep/file").read_text() == "x" * 200_000
    assert not (tmp_path / "back/link").exists()


def test_any_failure_of_the_unpacking_fails_the_copy(
    hive: Hive, container: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The archive is read in another thread, whose errors reach the caller."""

    def fail(*_: object) -> None:
        raise LookupError("odd")

    (container / "there").mkdir()
    monkeypatch.setattr(copy, "unpack", fail)
    assert hive("cp", "lead:there", str(tmp_path / "back")).status == 1


def test_a_copy_that_fails_leaves_no_file_and_shows_no_text_of_the_container_as_it_is(
    hive: Hive, container: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (container / "file").touch()
    monkeypatch.setattr(copy, "_READ_FILE", "echo half; printf '\\033[2Jno\\nmore' >&2; exit 3")
    (tmp_path / "back").mkdir()
    failed = hive("cp", "lead:file", str(tmp_path / "back/file"))
    assert (failed.status, list((tmp_path / "back").iterdir())) == (1, [])
    assert "cannot copy lead:file: " in failed.err
    assert "no more" in failed.err
    assert "\x1b" not in failed.err


def test_a_missing_file_exits_with_4_and_a_failure_has_its_reason(
    hive: Hive, container: Path, tmp_path: Path
) -> None:
    missing = hive("cp", "lead:none", str(tmp_path / "x"))
    assert (missing.status, missing.err) == (4, "hive: cannot copy lead:none: no such file\n")
    (container / "file").touch()
    (tmp_path / "mine").touch()
    wrong = hive("cp", str(tmp_path / "mine"), "lead:file/below")
    assert wrong.status == 1
    assert "cannot copy lead:file/below: " in wrong.err
    assert hive("cp", str(tmp_path / "nothing"), "lead:x").status == 1
    assert not (tmp_path / "x").exists()
