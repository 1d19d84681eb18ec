"""Reading objects: what is cut, flipped or made up is damage, and nothing takes for ever."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha1
from pathlib import Path

import pytest
from fixtures.meta_repo import Meta, family, spec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hive_core.errors import InvalidArgument
from hive_core.host.git.faults import DamagedRepo
from hive_core.host.git.pack_format import LIMIT
from hive_core.host.git.store import ObjectStore


def put(meta: Meta, raw: bytes, packed: bytes | None = None) -> str:
    """A loose object with these bytes, under the name that `raw` deserves."""
    oid = sha1(raw, usedforsecurity=False).hexdigest()
    path = meta.path / ".git/objects" / oid[:2] / oid[2:]
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_bytes(zlib.compress(raw) if packed is None else packed)
    return oid


def store(meta: Meta) -> ObjectStore:
    return meta.repo._objects.store


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.binary(max_size=2000), st.data())
def test_any_cut_and_any_flipped_bit_is_damage(
    meta: Meta, data: bytes, more: st.DataObject
) -> None:
    raw = b"blob %d\0" % len(data) + data
    packed = zlib.compress(raw)
    assert store(meta).blob(put(meta, raw), "a test") == data
    at = more.draw(st.integers(0, len(packed) - 1))
    flipped = packed[:at] + bytes([packed[at] ^ 1 << more.draw(st.integers(0, 7))])
    for spoiled in (packed[:at], flipped + packed[at + 1 :]):
        oid = put(meta, raw, spoiled)
        # A bit may be flipped that zlib does not use; then the content is what it was.
        with suppress(DamagedRepo):
            assert store(meta).blob(oid, "a test") == data


@pytest.mark.parametrize("raw", [b"", b"blob", b"blob 3\0abcd", b"tree 3\0abc", b"x 1\0a"])
def test_made_up_objects_are_damage(meta: Meta, raw: bytes) -> None:
    oid = put(meta, raw)
    with pytest.raises(DamagedRepo):
        store(meta).tree(oid, "a test")
    with pytest.raises(DamagedRepo):
        store(meta).commit(oid)


def test_a_small_file_that_inflates_to_a_huge_one_is_refused(meta: Meta) -> None:
    """attack 18."""
    oid = put(meta, b"blob %d\0" % (2 * LIMIT) + bytes(2 * LIMIT))
    with pytest.raises(InvalidArgument, match="larger than"):
        store(meta).blob(oid, "a test")


def test_packed_objects_are_read_and_their_damage_is_found(meta: Meta) -> None:
    hive = meta.change(family("anna", "bob"))
    meta.change(hive.with_agent("carl", "anna", spec(9)))
    meta.repo.pack(at_least=1)
    assert meta.hive.topology.parent("carl") == "anna"
    (pack,) = Path(meta.repo.folder, "objects/pack").glob("*.pack")
    pack.chmod(0o644)
    data = bytearray(pack.read_bytes())
    for at in range(40, len(data) - 20, 7):
        data[at] ^= 0xFF
    pack.write_bytes(data)
    assert meta.repo.verify()


def test_folders_that_were_removed_by_hand_are_made_again(meta: Meta) -> None:
    hive = meta.change(family("anna"))
    for folder in Path(meta.repo.folder, "objects").iterdir():
        with suppress(OSError):
            folder.rmdir()  # those without an object
    Path(meta.repo.folder, "hive-lock").unlink()
    meta.change(hive.with_agent("bob", "root", spec(9)))
    assert meta.hive.topology.parent("bob") == "root"
    assert meta.git("status", "--porcelain") == ""


def test_names_that_git_never_writes_are_refused(meta: Meta) -> None:
    for name in (b".", b"..", b".git", b".GIT", b"a/b", b"\xff", b"\xc3"):
        line = b"100644 " + name + b"\0" + bytes(20)
        for raw in (line, line + b"100644 \xa9\0" + bytes(20)):
            oid = put(meta, b"tree %d\0" % len(raw) + raw)
            with pytest.raises(InvalidArgument, match="holds the name"):
                store(meta).tree(oid, "a test")
    twice = (b"100644 a\0" + bytes(20)) * 2
    with pytest.raises(InvalidArgument, match="one name twice"):
        store(meta).tree(put(meta, b"tree %d\0" % len(twice) + twice), "a test")


def test_the_work_tree_is_updated_without_reading_what_was_just_written(
    meta: Meta, monkeypatch: pytest.MonkeyPatch
) -> None:
    hive = meta.change(family("anna", "bob"))
    reads: list[str] = []
    read = ObjectStore._read

    def count(self: ObjectStore, oid: str, kind: str = "") -> tuple[str, bytes]:
        reads.append(oid)
        return read(self, oid, kind)

    monkeypatch.setattr(ObjectStore, "_read", count)
    oid = meta.repo.write(hive.with_parent("bob", "anna"), hive, "move", {})
    with meta.repo.hold(hive.commit) as move:
        move(oid)
    assert len(reads) == len(set(reads)) == 2  # the commit before, and its tree
    monkeypatch.undo()
    assert meta.git("status", "--porcelain") == ""


def test_the_work_tree_shows_several_changes_of_one_batch(meta: Meta) -> None:
    """Also where a file is there in between only, and where more was written than is kept."""
    hive = meta.change(family("anna"))
    waiting: list[Callable[[], None]] = []
    meta.repo.schedule = waiting.append
    for round_ in range(3):
        for number in range(2 * round_ + 1):
            hive = meta.change(hive.with_agent(f"b{round_}{number}", "anna", spec(10 + number)))
        hive = meta.change(hive.without(f"b{round_}0"))
        hive = meta.change(hive.with_spec("anna", spec(2, title=f"Round {round_}")))
        waiting[-1]()
        assert meta.git("status", "--porcelain") == ""
        assert not meta.repo._objects._recent
        hive = meta.change(hive.without(*(name for name in hive.specs if name[0] == "b")))
    waiting[-1]()
    assert meta.git("status", "--porcelain") == ""
