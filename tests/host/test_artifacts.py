"""The contents of artifacts: whole or not there, whatever ends the daemon in between (K21)."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from hive_core.errors import Internal, StorageFull
from hive_core.host.artifacts import Contents, DamagedContent, Sum
from hive_core.model.artifact import BLOCK

DATA = b"x" * (BLOCK + 5)
DIGEST = sha256(DATA).hexdigest()
STEPS = ("written", "synced", "renamed", "kept")


def killed(at: str) -> Callable[[str], None]:
    """The process ends at this step."""

    def step(name: str) -> None:
        if name == at:
            os.kill(os.getpid(), signal.SIGKILL)

    return step


def store(contents: Contents, how: str) -> None:
    if how == "keep":
        contents.keep(DATA)
        return
    id_ = contents.begin("p", 1)
    contents.append("p", id_, 0, DATA)
    contents.take("p", id_)


def whole(contents: Contents) -> dict[str, bytes]:
    """Every file that has a name, with what is in it."""
    return {each: contents.place(each).read_bytes() for each in contents.left()}


@pytest.mark.parametrize("at", STEPS)
@pytest.mark.parametrize("how", ["keep", "upload"])
def test_a_kill_at_any_step_leaves_the_whole_content_or_none(
    tmp_path: Path, at: str, how: str
) -> None:
    child = os.fork()
    if not child:
        store(Contents(tmp_path / "a", step=killed(at)), how)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    again = Contents(tmp_path / "a")
    found = whole(again)
    assert found == ({} if at in ("written", "synced") else {DIGEST: DATA})
    assert list((tmp_path / "a/.new").iterdir()) == []
    assert again.keep(DATA).digest == DIGEST
    assert whole(again) == {DIGEST: DATA}


def test_the_name_of_a_content_is_on_the_disk_when_it_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file before its name, and every folder that is new."""
    synced: list[str] = []
    fsync, rename = os.fsync, Path.rename

    def note(file: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{file}").readlink()).removeprefix(str(tmp_path)))
        fsync(file)

    def moved(self: Path, target: Path) -> Path:
        synced.append("rename")
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", note)
    monkeypatch.setattr(Path, "rename", moved)
    Contents(tmp_path / "a").keep(DATA)
    first, second = DIGEST[:2], DIGEST[2:4]
    at = synced.index("rename")
    assert synced[at - 1].startswith("/a/.new/")
    assert synced[at + 1] == f"/a/{first}/{second}"
    assert {"", "/a", f"/a/{first}"} <= set(synced[:at])


def test_files_are_nobody_else_s(tmp_path: Path) -> None:
    contents = Contents(tmp_path / "a")
    contents.keep(DATA)
    modes = {each.stat().st_mode & 0o777 for each in (tmp_path / "a").rglob("*") if each.is_file()}
    folders = {each.stat().st_mode & 0o777 for each in (tmp_path / "a").rglob("*") if each.is_dir()}
    assert (modes, folders) == ({0o600}, {0o700})


@pytest.mark.parametrize("digest", ["", "..", "../../../etc/passwd", "A" * 64, "a" * 63, "g" * 64])
def test_nothing_but_a_digest_names_a_file(tmp_path: Path, digest: str) -> None:
    with pytest.raises(Internal):
        Contents(tmp_path).place(digest)


def test_a_part_is_judged_by_itself(tmp_path: Path) -> None:
    contents = Contents(tmp_path / "a")
    data = os.urandom(3 * BLOCK + 7)
    content = contents.keep(data)
    place = contents.place(content.digest)
    changed = bytearray(data)
    changed[BLOCK + 1] ^= 1
    place.write_bytes(changed)
    assert contents.read(content, 0) == data[:BLOCK]
    assert contents.read(content, 2 * BLOCK + 5) == data[2 * BLOCK + 5 : 3 * BLOCK]
    with pytest.raises(DamagedContent):
        contents.read(content, BLOCK)
    assert contents.read(content, 3 * BLOCK) == data[3 * BLOCK :]


def test_sums_do_not_depend_on_how_the_bytes_come() -> None:
    data = os.urandom(2 * BLOCK + 3)
    sums = []
    for step in (1000, BLOCK, BLOCK + 1, len(data)):
        found = Sum()
        for at in range(0, len(data), step):
            found.add(data[at : at + step])
        sums.append(found.content)
    assert len({(each.digest, each.blocks) for each in sums}) == 1
    assert sums[0].blocks[:32] == sha256(data[:BLOCK]).digest()
    assert len(sums[0].blocks) == 3 * 32


@pytest.fixture(name="tiny")
def _tiny(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for little."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    subprocess.run(words, check=True)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_said_and_leaves_nothing_half(tiny: Path) -> None:
    contents = Contents(tiny / "a")
    contents.keep(b"small")
    id_ = contents.begin("p", 4)
    contents.append("p", id_, 0, b"x" * 600_000)
    with pytest.raises(StorageFull):
        contents.append("p", id_, 600_000, b"x" * 600_000)
    with pytest.raises(StorageFull):
        contents.keep(b"y" * 700_000)
    assert list(whole(contents)) == [sha256(b"small").hexdigest()]
    contents.append("p", id_, 600_000, b"x" * 100_000)
    assert contents.take("p", id_).size == 700_000
