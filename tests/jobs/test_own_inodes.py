"""The job that gives files with a hard link elsewhere an inode of their own (attack 58)."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest
from long import figure, seed, times

from hive_core.jobs import own_inodes

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """What the job sees: a node at `node`. `elsewhere` lies on the same file system."""
    folder = tmp_path / "root"
    (folder / "node/state").mkdir(parents=True)
    (folder / "node/kids/0a1b2c3d/state").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    return folder


def make_links(
    root: Path, name: str, text: str = "secret", elsewhere: str = ""
) -> tuple[Path, Path]:
    """A file elsewhere and its name in the node."""
    outside = root.parent / "elsewhere" / (elsewhere or Path(name).name)
    if not outside.exists():
        outside.write_text(text)
    inside = root / "node" / name
    inside.hardlink_to(outside)
    return inside, outside


def test_attack_58_a_file_with_a_link_elsewhere_gets_an_inode_of_its_own(root: Path) -> None:
    inside, outside = make_links(root, "state/kept")
    outside.chmod(0o4751)
    os.setxattr(outside, "user.note", b"mine")
    os.utime(outside, ns=(10**18, 10**18 + 7))
    figures = own_inodes.run((), root)
    old, new = outside.stat(), inside.stat()
    assert old.st_ino != new.st_ino
    assert (old.st_nlink, new.st_nlink) == (1, 1)
    for fact in ("st_mode", "st_uid", "st_gid", "st_mtime_ns", "st_size"):
        assert getattr(old, fact) == getattr(new, fact), fact
    assert os.getxattr(inside, "user.note") == b"mine"
    outside.write_text("later")
    assert inside.read_text() == "secret"
    assert figures == {"files": 1, "inodes": 1, "links": 1, "bytes": 6}


def test_links_within_the_node_stay_links(root: Path) -> None:
    first, second = root / "node/state/a", root / "node/kids/0a1b2c3d/state/b"
    first.write_text("one")
    second.hardlink_to(first)
    before = first.stat().st_ino
    assert own_inodes.run((), root)["links"] == 0
    assert first.stat().st_ino == second.stat().st_ino == before


def test_names_of_one_inode_become_names_of_one_copy(root: Path) -> None:
    first, outside = make_links(root, "state/a", elsewhere="x")
    second, _ = make_links(root, "kids/0a1b2c3d/state/b", elsewhere="x")
    assert own_inodes.run((), root)["inodes"] == 1
    assert first.stat().st_ino == second.stat().st_ino != outside.stat().st_ino
    assert (first.stat().st_nlink, outside.stat().st_nlink) == (2, 1)


def test_pipes_and_sockets_are_replaced_and_symlinks_left(root: Path) -> None:
    """A pipe or a socket with two names is a way for bytes from one agent to another."""
    place = root.parent / "elsewhere"
    os.mkfifo(place / "pipe", 0o640)
    os.mknod(place / "socket", stat.S_IFSOCK | 0o600)
    (place / "link").symlink_to("nowhere")
    for name in ("pipe", "socket", "link"):
        os.link(place / name, root / "node/state" / name, follow_symlinks=False)
    own_inodes.run((), root)
    facts = {name: (root / "node/state" / name).lstat() for name in ("pipe", "socket", "link")}
    assert stat.S_ISFIFO(facts["pipe"].st_mode)
    assert stat.S_IMODE(facts["pipe"].st_mode) == 0o640
    assert stat.S_ISSOCK(facts["socket"].st_mode)
    assert [facts[name].st_nlink for name in facts] == [1, 1, 2]


def test_attack_58_no_name_that_an_agent_chose_keeps_the_job_from_its_end(root: Path) -> None:
    """A directory of the name that a copy had at first kept losers down for ever."""
    inside, outside = make_links(root, "state/kept")
    named, other = make_links(root, "state/.hive-own-inode", elsewhere="y")
    (root / "node/kids/0a1b2c3d/state/.hive-own-inode").mkdir()
    make_links(root, "kids/0a1b2c3d/state/kept", elsewhere="z")
    assert own_inodes.run((), root)["links"] == 3
    assert (outside.stat().st_nlink, other.stat().st_nlink) == (1, 1)
    assert (inside.read_text(), named.read_text()) == ("secret", "secret")


def test_attack_58_names_without_number_take_no_memory(root: Path) -> None:
    """An agent makes millions in minutes; a job that ends for want of memory does so for ever."""

    def peak(names: range) -> int:
        for number in names:
            os.link(first, root / f"node/state/{number}")
        tracemalloc.start()
        try:
            assert own_inodes.run((), root)["links"] == 0
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    first = root / "node/state/first"
    first.touch()
    few, many = peak(range(100)), peak(range(100, 8_000))
    assert many < 3 * few


def test_names_are_replaced_so_many_at_a_time(root: Path) -> None:
    _, outside = make_links(root, "state/kept")
    inodes, names = 5, 7
    for inode in range(inodes):
        make_links(root, f"state/{inode}", elsewhere=f"x{inode}")
        for number in range(1, names):
            os.link(root / f"node/state/{inode}", root / f"node/state/{inode}.{number}")
    assert own_inodes.run((), root, most=9)["links"] == inodes * names + 1
    assert {path.stat().st_nlink for path in outside.parent.iterdir()} == {1}


def test_a_hole_stays_a_hole(root: Path) -> None:
    outside = root.parent / "elsewhere/sparse"
    with outside.open("wb") as file:
        file.write(b"head")
        file.seek(1 << 26)
        file.write(b"tail")
        file.truncate(1 << 27)
    (root / "node/state/sparse").hardlink_to(outside)
    own_inodes.run((), root)
    copy = root / "node/state/sparse"
    assert copy.stat().st_size == 1 << 27
    assert copy.stat().st_blocks * 512 < 1 << 22
    with copy.open("rb") as file:
        assert file.read(4) == b"head"
        file.seek(1 << 26)
        assert file.read(5) == b"tail\0"


def test_a_link_deeper_than_any_path_is_found(root: Path) -> None:
    """A directory tree of which no path can be named hides nothing."""
    _, outside = make_links(root, "state/shallow", elsewhere="x")
    here = os.open(root / "node/state", os.O_RDONLY)
    for _ in range(times(1200, 5000)):
        os.mkdir("d" * 200, dir_fd=here)
        here, above = os.open("d" * 200, os.O_RDONLY, dir_fd=here), here
        os.close(above)
    os.link(outside, "deep", dst_dir_fd=here)
    try:
        assert own_inodes.run((), root)["links"] == 2
        assert outside.stat().st_nlink == 1
        assert os.stat("deep", dir_fd=here).st_nlink == 2
    finally:
        os.close(here)
        subprocess.run(["rm", "-rf", root / "node"], check=True)


def test_nothing_is_followed_out_of_the_node(root: Path) -> None:
    _, outside = make_links(root, "state/kept")
    away = root.parent / "away"
    away.mkdir()
    (away / "two").hardlink_to(outside)
    (root / "node/state/folder").symlink_to(away)
    own_inodes.run((), root)
    assert (away / "two").samefile(outside)


@pytest.mark.sized
def test_attack_58_a_job_over_many_files_goes_on_where_it_was_killed(root: Path) -> None:
    """Killed again and again: each time it finds less to do, and no file is ever half there."""
    count = times(2500, 100_000)
    for number in range(min(count, 100)):
        (root / f"node/state/{number}").mkdir()
    for number in range(count):
        make_links(root, f"state/{number % 100}/{number}", f"text of {number}\n")
    runner = (
        "import sys; from pathlib import Path; from hive_core.jobs import own_inodes;"
        " own_inodes.run((), Path(sys.argv[1]))"
    )
    pauses, left, kills = 0.05 + seed() % 100 / 1000, count, 0
    while left:
        with subprocess.Popen([sys.executable, "-c", runner, str(root)], cwd=CHECKOUT) as job:
            before, began = left, time.monotonic()
            while job.poll() is None and left > before - count / 4:
                time.sleep(pauses)
                left = _shared_inodes(root)
            if job.poll() is None:
                job.send_signal(signal.SIGKILL)
                kills += 1
        left = _shared_inodes(root)
        assert left < before, time.monotonic() - began
    assert kills
    for number in range(0, count, 97):
        assert (root / f"node/state/{number % 100}/{number}").read_text() == f"text of {number}\n"
    assert not list((root / "node").rglob(f"{own_inodes.SPARE}*"))
    figure("own inodes", files=count, kills=kills)


def _shared_inodes(root: Path) -> int:
    with os.scandir(root.parent / "elsewhere") as files:  # Path.stat() takes four times as long
        return sum(file.stat().st_nlink > 1 for file in files)
