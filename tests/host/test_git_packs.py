"""Packs as git makes them are read; whatever is wrong with one is damage, and no crash."""

from __future__ import annotations

import os
import struct
import subprocess
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha1
from pathlib import Path

import pytest
from each import for_each
from fixtures.meta_repo import Meta, family, spec
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_core.errors import InvalidArgument
from hive_core.host.git.faults import DamagedRepo
from hive_core.host.git.pack_format import LIMIT, TooLarge, apply_delta, inflate, read_header
from hive_core.host.git.packs import Packs
from hive_core.host.git.recovery import RecoveryKind
from hive_core.host.git.repo import MetaRepo
from hive_core.host.git.store import ObjectStore

LINES = [f"line {number} of a text that is long enough for deltas\n" for number in range(80)]
Spoil = Callable[[bytes], bytes]


@pytest.fixture
def many(meta: Meta) -> Meta:
    """Some history whose objects git packs as deltas, loose ones too."""
    hive = meta.change(family(*(f"agent-{number}" for number in range(20))))
    for number in range(30):
        hive = meta.change(hive.with_spec("agent-1", spec(3, title=f"{number}")))
    for number in range(20):
        meta.edit("notes.txt", "".join(LINES[number:]))
        meta.git("add", "notes.txt")
        meta.git("commit", "-q", "-m", f"notes {number}")
    meta.git("tag", "-a", "-m", "a tag", "here")
    return meta


def repack(meta: Meta, *options: str) -> Path:
    """Everything in one pack of git's; its path."""
    meta.git("-c", "pack.threads=1", *options, "repack", "-adfq", "--depth=20")
    meta.git("prune-packed")
    (pack_file,) = (meta.repo.folder / "objects/pack").glob("*.pack")
    return pack_file


def names(meta: Meta) -> list[tuple[str, str]]:
    """Name and kind of everything that git knows."""
    options = ("--batch-all-objects", "--batch-check=%(objectname) %(objecttype)")
    lines = meta.git("cat-file", *options).splitlines()
    return [(name, kind) for name, kind in (line.split() for line in lines)]


def contents(meta: Meta) -> dict[str, tuple[str, bytes]]:
    def content(name: str, kind: str) -> bytes:
        command = ["git", "cat-file", kind, name]
        return subprocess.run(command, cwd=meta.path, check=True, capture_output=True).stdout

    return {name: (kind, content(name, kind)) for name, kind in names(meta)}


def rewrite(path: Path, spoil: Spoil) -> None:
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(spoil(data))


def with_checksum(table: bytes) -> bytes:
    """A table of names with the right sum at its end."""
    return table[:-20] + sha1(table[:-20], usedforsecurity=False).digest()


@pytest.mark.parametrize("option", ["true", "false"])
def test_whatever_git_packs_is_read_as_git_reads_it(many: Meta, option: str) -> None:
    """Bases by place and by name."""
    repack(many, "-c", f"repack.useDeltaBaseOffset={option}")
    store, known = ObjectStore(many.repo.folder), contents(many)
    assert {kind for kind, _ in known.values()} == {"commit", "tree", "blob", "tag"}
    for name, content in (*known.items(), *known.items()):  # again: from the bases that are kept
        assert store.read(name, "a test") == content


def test_places_beyond_four_gigabytes_are_read(many: Meta) -> None:
    pack = repack(many)
    known = contents(many)
    pack.with_suffix(".idx").unlink()
    many.git("index-pack", "--index-version=2,0x40", str(pack))  # as if 64 bytes were so much
    store = ObjectStore(many.repo.folder)
    assert {name: store.read(name, "a test") for name in known} == known
    rewrite(pack.with_suffix(".idx"), lambda data: with_checksum(data[:-48] + data[-40:]))
    damaged = ObjectStore(many.repo.folder)
    with pytest.raises(DamagedRepo, match="is not valid"):
        deque(damaged.read(name, "a test") for name in known)


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, bytes, bytes]]:
    """A pack with its table: a folder for it, and both as bytes."""
    meta = Meta(tmp_path_factory.mktemp("packed"))
    hive = meta.change(family("anna", "bob"))
    for number in range(6):
        meta.edit("notes.txt", "".join(LINES[number:]))
        meta.git("add", "notes.txt")
        meta.git("commit", "-q", "-m", f"notes {number}")
    assert hive.commit
    pack = repack(meta)
    yield (
        tmp_path_factory.mktemp("spoiled"),
        pack.read_bytes(),
        pack.with_suffix(".idx").read_bytes(),
    )
    meta.close()


@settings(max_examples=100)
@given(st.data())
def test_a_damaged_pack_gives_what_was_packed_or_an_error(
    packed: tuple[Path, bytes, bytes], more: st.DataObject
) -> None:
    folder, pack, table = packed
    which = more.draw(st.sampled_from(["pack", "table", "table with a sum that is right"]))
    damaged = table if which == "pack" else is_spoiled(more, table)
    (folder / "pack-1.idx").write_bytes(with_checksum(damaged) if "right" in which else damaged)
    (folder / "pack-1.pack").write_bytes(is_spoiled(more, pack) if which == "pack" else pack)
    packs = Packs(folder)
    for name in in_table(table):
        with suppress(KeyError, ValueError, OSError, TooLarge):
            assert object_id(*packs.read(name.hex())) == name


def is_spoiled(more: st.DataObject, data: bytes) -> bytes:
    at = more.draw(st.integers(0, len(data) - 1))
    put = more.draw(st.binary(min_size=1, max_size=8))
    return more.draw(st.sampled_from([data[:at], data[:at] + put + data[at + len(put) :]]))


def in_table(table: bytes) -> Iterator[bytes]:
    (count,) = struct.unpack_from(">I", table, 8 + 255 * 4)
    for at in range(1032, 1032 + 20 * count, 20):
        yield table[at : at + 20]


def object_id(kind: str, data: bytes) -> bytes:
    raw = b"%s %d\0%s" % (kind.encode(), len(data), data)
    return sha1(raw, usedforsecurity=False).digest()


BEGUN = b"PACK" + struct.pack(">I", 9)
SAYS = [
    (".pack", lambda data: data[:-9], "cut short"),
    (".pack", lambda data: BEGUN + data[8:], "has no header of a pack"),
    (".idx", lambda _: b"", "empty"),
    (".idx", lambda data: data[:-9], "is damaged"),
    (".idx", lambda data: b"tOc" + data[3:], "is not an index of a pack"),
    (
        ".idx",
        lambda data: with_checksum(data[:1000] + b"\xff" + data[1001:]),
        "is not a valid index",
    ),
    (".idx", lambda data: with_checksum(data[:-60] + data[-40:]), "is not a valid index"),
]


@pytest.mark.parametrize(("suffix", "spoil", "says"), SAYS)
def test_damage_is_reported_before_a_packed_object_is_needed(
    many: Meta, suffix: str, spoil: Spoil, says: str
) -> None:
    file = repack(many).with_suffix(suffix)
    rewrite(file, spoil)
    damages = [damage for damage in many.repo.verify() if damage.where == str(file)]
    assert [says in damage.why for damage in damages] == [True]


def test_a_pack_that_is_gone_is_told_and_its_table_alone_is_nothing(many: Meta) -> None:
    pack = repack(many)
    assert many.repo.verify() == []
    pack.unlink()
    assert any(damage.where == str(pack) for damage in many.repo.verify())
    with pytest.raises(DamagedRepo, match="No such file"):
        many.repo.read(many.ledger.head)


def test_a_table_without_its_pack_is_no_damage_while_nothing_is_missing(many: Meta) -> None:
    """What a kill leaves in the middle of packing; loose objects go last."""
    table = repack(many).with_suffix(".idx")
    left = table.read_bytes()
    for name, (kind, data) in contents(many).items():
        path = many.repo.folder / "objects" / name[:2] / name[2:]
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(zlib.compress(b"%s %d\0%s" % (kind.encode(), len(data), data)))
    table.with_suffix(".pack").unlink()
    assert MetaRepo.open(many.path).verify() == []
    many.repo.write(many.hive.with_spec("agent-1", spec(3, title="later")), many.hive, "more", {})
    assert many.repo.pack(at_least=1)
    assert (table.exists(), many.repo.verify()) == (True, [])
    (other,) = table.parent.glob("*.pack")
    other.unlink()
    table.write_bytes(left)
    assert {damage.why for damage in many.repo.verify()} >= {"the pack is missing"}


def test_what_one_pack_has_lost_is_read_from_another(many: Meta) -> None:
    pack = repack(many)
    head = many.git("rev-parse", "HEAD^{tree}")
    many.edit("more.txt", "more")
    many.git("add", "more.txt")
    many.git("commit", "-q", "-m", "more")
    many.git("repack", "-aFq")  # the old one stays
    (other,) = {*pack.parent.glob("*.pack")} - {pack}
    for first in (pack, other):
        before = first.read_bytes()
        rewrite(first, lambda data: data[:12] + bytes(len(data) - 32) + data[-20:])
        assert ObjectStore(many.repo.folder).tree(head, "a test")
        rewrite(first, lambda _, before=before: before)  # type: ignore[misc]


def test_people_may_pack_anew_under_a_running_hived(many: Meta) -> None:
    repack(many)
    store, head = ObjectStore(many.repo.folder), many.ledger.head
    before = store.commit(head)
    many.edit("more.txt", "more")
    many.git("add", "more.txt")
    many.git("commit", "-q", "-m", "more")
    repack(many)
    assert store.commit(head) == before
    assert store.commit(many.git("rev-parse", "HEAD")).message == "more\n"


def test_what_git_keeps_to_be_quicker_is_not_looked_at(many: Meta) -> None:
    pack, head = repack(many), many.git("rev-parse", "HEAD")
    for name in ("multi-pack-index", f"{pack.stem}.rev", f"{pack.stem}.bitmap"):
        (pack.parent / name).unlink(missing_ok=True)
        (pack.parent / name).write_bytes(b"MIDX nonsense")
    (pack.parents[1] / "info/commit-graph").write_bytes(b"CGPH nonsense")
    fresh = MetaRepo.open(many.path)
    assert fresh.verify() == []
    assert fresh.recover(many.ledger.head).kind is RecoveryKind.ADOPT
    assert fresh.head() == head


def entry(folder: Path, kind: int, promised: int, data: bytes, between: bytes = b"") -> int:
    """A file with one entry at byte 1, opened."""
    first, rest = kind << 4 | promised & 0xF, promised >> 4
    says = bytes([first | 0x80 * bool(rest)])
    while rest:
        says, rest = says + bytes([rest & 0x7F | 0x80 * bool(rest >> 7)]), rest >> 7
    (folder / "entry").write_bytes(b"x" + says + between + zlib.compress(data))
    return os.open(folder / "entry", os.O_RDONLY)


@pytest.mark.parametrize(
    ("promised", "really", "error"),
    [
        (2 * LIMIT, 2 * LIMIT, TooLarge),
        (2 * LIMIT, 9, ValueError),  # a flipped bit, which is damage
        (8, 9, ValueError),
        (10, 9, ValueError),
        (1 << 400, 9, ValueError),
    ],
)
def test_a_promise_about_size_is_a_bound_and_not_believed(
    folder: Path, promised: int, really: int, error: type[Exception]
) -> None:
    handle = entry(folder, 3, promised, bytes(really))
    with pytest.raises(error):
        inflate(handle, read_header(handle, 1))
    os.close(handle)


@pytest.mark.parametrize(
    ("kind", "between", "says"),
    [(0, b"", "entry: 0"), (5, b"", "entry: 5"), (6, b"\1", "base"), (6, b"\0", "base"),
     (6, b"\xff" * 80, "cut short")],
)  # fmt: skip
def test_an_entry_that_makes_no_sense_is_damage(
    folder: Path, kind: int, between: bytes, says: str
) -> None:
    handle = entry(folder, kind, 9, bytes(9), between)
    with pytest.raises(ValueError, match=says):
        read_header(handle, 1)
    os.close(handle)


def test_deltas_that_build_on_each_other_end(folder: Path) -> None:
    """Only an attacker makes such a pack."""
    name = b"\1" * 20
    os.close(entry(folder, 7, 3, b"\x04\x04\x90", between=name))
    fan = struct.pack(">256I", 0, *[1] * 255)
    table = b"\377tOc\0\0\0\2" + fan + name + bytes(4) + struct.pack(">I", 1) + bytes(40)
    (folder / "entry").rename(folder / "pack-1.pack")
    (folder / "pack-1.idx").write_bytes(with_checksum(table))
    with pytest.raises(ValueError, match="chain of deltas is too long"):
        Packs(folder).read(name.hex())


@for_each(
    "delta",
    [
        b"", b"\x80", b"\5\5\x90\5",  # cut short, and of another base
        b"\4\4", b"\4\4\0", b"\4\4\4abc", b"\4\4\x90", b"\4\3\x90\4",
        b"\4\4\x91\1\4", b"\4\4\x80", b"\4\4\x90\3",
    ],
)  # fmt: skip
def test_a_delta_that_makes_no_sense_is_damage(delta: bytes) -> None:
    with pytest.raises(ValueError, match="delta"):
        apply_delta(b"base", delta)


def test_a_small_delta_that_makes_a_huge_file_is_refused() -> None:
    """attack 18."""
    base, times = bytes(0x10000), LIMIT // 0x10000 + 1
    size = b"\x80\x80\x84\x20"
    with pytest.raises(TooLarge):
        apply_delta(base, b"\x80\x80\x04" + size + b"\x80" * times)


def test_a_huge_file_in_a_pack_is_too_large_and_no_damage(meta: Meta) -> None:
    """attack 18."""
    meta.change(family("anna"))
    meta.edit("huge", "\0" * (LIMIT + 1))
    huge = meta.git("hash-object", "-w", "huge")
    meta.git("add", "huge")
    repack(meta)
    with pytest.raises(InvalidArgument, match="larger than"):
        ObjectStore(meta.repo.folder).blob(huge, "a test")
