"""Output of a job is read within bounds, and removed whatever its file type is."""

import os
from pathlib import Path

import pytest

from hive_core.errors import Internal
from hive_core.host.systemd.job_exchange import Exchange, exchange, sweep

JOB = "00000001-0000-4000-9000-000000000001"


@pytest.fixture
def box(tmp_path: Path) -> Exchange:
    for leaf in ("in", "out"):
        (tmp_path / leaf).mkdir()
    return Exchange(tmp_path)


def test_a_job_finds_what_was_put_and_leaves_what_is_read(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"from a file")
    work = tmp_path / "work"
    with exchange(work, JOB) as box:
        box.put("pack", b"bytes")
        box.put("deep/tree.nar", tmp_path / "source")
        assert (work / JOB / "in/pack").read_bytes() == b"bytes"
        assert (work / JOB / "in/deep/tree.nar").read_bytes() == b"from a file"
        (work / JOB / "out/said.json").write_bytes(b"{}")
        assert box.names() == ["said.json"]
        assert box.read("said.json", 2) == b"{}"
    assert list(work.iterdir()) == []


def test_no_other_agent_sees_what_is_handed_over(tmp_path: Path) -> None:
    with exchange(tmp_path / "work", JOB) as box:
        for path in (tmp_path / "work", box.folder / "in", box.folder / "out"):
            assert path.stat().st_mode & 0o777 == 0o700


def test_what_went_wrong_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(Internal), exchange(tmp_path, JOB) as box:
        box.read("pack", 1)
    assert list(tmp_path.iterdir()) == []


def test_a_job_before_leaves_nothing_to_the_next(tmp_path: Path) -> None:
    for name in ("in/old", "out/old"):
        (tmp_path / JOB / name).mkdir(parents=True)
    with exchange(tmp_path, JOB) as box:
        assert box.names() == []
        assert list((box.folder / "in").iterdir()) == []


@pytest.mark.parametrize("name", ["link", "dangling", "fifo", "folder", "nothing", "closed-link"])
def test_only_a_file_is_read(box: Exchange, name: str) -> None:
    """Nothing that a job leaves leads anywhere else, or keeps us waiting."""
    out = box.folder / "out"
    (box.folder / "secret").write_text("secret")
    (out / "link").symlink_to("../secret")
    (out / "dangling").symlink_to("/nowhere")
    (out / "closed-link").symlink_to("/proc/self/mem")
    (out / "folder").mkdir()
    os.mkfifo(out / "fifo")
    with pytest.raises(Internal, match=name):
        box.read(name, 100)


def test_a_name_is_no_path(box: Exchange) -> None:
    (box.folder / "in/x").write_text("x")
    with pytest.raises(ValueError, match="in/x"):
        box.read("../in/x", 100)


def test_an_out_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/pack").write_text("x")
    (tmp_path / "out").symlink_to("elsewhere")
    with pytest.raises(OSError, match="out"):
        Exchange(tmp_path).read("pack", 100)


def test_what_is_too_large_is_not_read(box: Exchange) -> None:
    (box.folder / "out/pack").write_bytes(b"123")
    assert box.read("pack", 3) == b"123"
    with pytest.raises(Internal, match="larger than 2 bytes"):
        box.read("pack", 2)
    with pytest.raises(Internal, match="larger than 2 bytes"), box.open("pack", 2):
        pass


def test_what_is_larger_than_it_says_is_not_read(box: Exchange) -> None:
    """A job that goes on makes files grow."""
    path = box.folder / "out/pack"
    path.write_bytes(b"12")
    with box.open("pack", 2) as file:
        path.write_bytes(b"1234")
        assert file.read(2) == b"12"


def test_a_closed_folder_is_opened(box: Exchange) -> None:
    (box.folder / "out/pack").write_bytes(b"1")
    (box.folder / "out").chmod(0)
    assert box.read("pack", 1) == b"1"


def test_no_depth_and_no_mode_keeps_a_folder(tmp_path: Path) -> None:
    """As deep as no path may be, closed at every level, with files and links on the way."""
    folder = tmp_path / JOB / "out"
    folder.mkdir(parents=True)
    place = os.open(folder, os.O_RDONLY)
    for level in range(1500):
        os.mkdir("deep", dir_fd=place)
        os.symlink("/", "link", dir_fd=place)
        below = os.open("deep", os.O_RDONLY, dir_fd=place)
        if level % 50 == 0:
            os.close(os.open("file", os.O_CREAT | os.O_WRONLY, 0, dir_fd=below))
            os.fchmod(place, 0)
        os.close(place)
        place = below
    os.close(place)
    with exchange(tmp_path, JOB):
        pass
    assert list(tmp_path.iterdir()) == []


def test_names_that_are_taken_keep_nothing(tmp_path: Path) -> None:
    for parent in ("a", "b", ".0", ".1"):
        (tmp_path / JOB / "out" / parent / "a/b").mkdir(parents=True)
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_daemon_begins_with_an_empty_folder(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    work = tmp_path / "work"
    (work / JOB / "out").mkdir(parents=True)
    (work / "file").write_text("x")
    (work / "link").symlink_to(outside)
    (work / JOB / "out/link").symlink_to(outside)
    sweep(work)
    sweep(tmp_path / "missing")
    assert list(work.iterdir()) == []
    assert (outside / "kept").read_text() == "x"


def test_what_cannot_be_removed_is_reported_and_stops_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Somebody else's, say, as the files of a process in /proc are."""
    sweep(Path("/proc/self/task"))
    assert "Cannot remove" in caplog.text
