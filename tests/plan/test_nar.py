"""Archives: one for each set of files, the same that Nix makes, and nothing else is read."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from each import for_each
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from hive_core.plan import nar

NAMES = st.text(
    st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=8
).filter(lambda name: name not in (".", ".."))
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
FILES: SearchStrategy[dict[str, tuple[bool, bytes]]] = st.dictionaries(
    PATHS, st.tuples(st.booleans(), st.binary(max_size=40)), max_size=8
).filter(lambda files: not any(a != b and b.startswith(a + "/") for a in files for b in files))
FEW = {"a/b": (True, b"run"), "a/c": (False, b""), "b": (False, b"12345678")}


@given(FILES)
def test_what_was_packed_comes_out_again(files: dict[str, tuple[bool, bytes]]) -> None:
    assert nar.unpack(nar.pack(files)) == files


@given(FILES, st.data())
def test_a_changed_archive_is_refused_or_is_the_archive_of_what_comes_out(
    files: dict[str, tuple[bool, bytes]], data: st.DataObject
) -> None:
    archive = bytearray(nar.pack(files))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(archive) - 1))
        archive[at] = data.draw(st.integers(0, 255))
    try:
        unpacked = nar.unpack(bytes(archive))
    except nar.BadArchive:
        return
    assert nar.pack(unpacked) == bytes(archive)


@given(st.binary(max_size=200))
def test_whatever_is_no_archive_is_refused_as_such(data: bytes) -> None:
    with pytest.raises(nar.BadArchive):
        nar.unpack(data)


@for_each(
    "there, instead",
    [
        (b"contents", b"target\0\0"),
        (b"regular\0", b"symlink\0"),
        (b"\x01\0\0\0\0\0\0\0b\0\0\0\0\0\0\0", b"\x01\0\0\0\0\0\0\0a\0\0\0\0\0\0\0"),
        (b"\x01\0\0\0\0\0\0\0b\0\0\0\0\0\0\0", b"\x02\0\0\0\0\0\0\0..\0\0\0\0\0\0"),
        (b"\x01\0\0\0\0\0\0\0b\0\0\0\0\0\0\0", b"\x01\0\0\0\0\0\0\0b\0\0\0\0\0\0\1"),
        (b"nix-archive-1", b"nix-archive-2"),
    ],
)
def test_links_names_out_of_order_and_odd_padding_are_refused(there: bytes, instead: bytes) -> None:
    archive = nar.pack(FEW)
    assert there in archive
    with pytest.raises(nar.BadArchive):
        nar.unpack(archive.replace(there, instead))


def test_an_archive_that_is_cut_short_or_goes_on_is_refused() -> None:
    archive = nar.pack(FEW)
    for end in range(len(archive)):
        with pytest.raises(nar.BadArchive):
            nar.unpack(archive[:end])
    with pytest.raises(nar.BadArchive):
        nar.unpack(archive + bytes(8))


@for_each("path", ["", "/a", "a/", "a//b", "../a", "a/./b", "x\0y", "d/" * 65 + "f"])
def test_a_path_that_leads_elsewhere_is_not_packed(path: str) -> None:
    with pytest.raises(nar.BadArchive):
        nar.pack({path: (False, b"")})


def test_a_file_is_not_a_folder_too() -> None:
    for files in (
        {"a": (False, b""), "a/b": (False, b"")},
        {"a/b": (False, b""), "a": (True, b"")},
    ):
        with pytest.raises(nar.BadArchive):
            nar.pack(files)


def test_folders_in_folders_without_end_are_refused_and_not_followed() -> None:
    deep = nar.pack({"/".join("d" * 64) + "/f": (False, b"")})
    assert len(nar.unpack(deep)) == 1
    entry = deep[deep.index(b"\x05\0\0\0\0\0\0\0entry") : deep.rindex(b"\x05\0\0\0\0\0\0\0entry")]
    with pytest.raises(nar.BadArchive, match=r"too deep|cut short"):
        nar.unpack(deep[: deep.index(entry)] + entry * 2000)


@pytest.mark.parametrize("files", [FEW, {}, {"x/y/z": (True, b"1")}], ids=["few", "none", "deep"])
def test_nix_makes_the_same_archive(files: dict[str, tuple[bool, bytes]], tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    for path, (executable, content) in files.items():
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_bytes(content)
        (top / path).chmod(0o755 if executable else 0o644)
    nix = shutil.which("nix")
    assert nix is not None, "scripts/setup installs nix-bin"
    words = [nix, "--extra-experimental-features", "nix-command", "--store", "dummy://"]
    done = subprocess.run([*words, "nar", "dump-path", top], capture_output=True, check=False)
    if done.returncode:  # before Nix 2.19
        done = subprocess.run(
            [nix.replace("/nix", "/nix-store"), "--dump", top], capture_output=True, check=True
        )
    assert done.stdout == nar.pack(files)
