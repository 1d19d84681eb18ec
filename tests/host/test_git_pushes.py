"""Attack 59: hostile pushes, sent past git over the socket. Each is refused and loses nothing."""

from __future__ import annotations

import base64
import os
import struct
import zlib
from collections.abc import Iterator
from hashlib import sha1
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from fixtures.git_host import CAPS, WHO, GitHostProcess, commit, objects, serve_people, tree
from fixtures.world import world

from hive_core.errors import Conflict, HiveError, InvalidArgument, LimitReached
from hive_core.host.git.pack_format import build_pack, object_name

ZERO = "0" * 40


@pytest.fixture
def people(tmp_path: Path) -> Iterator[GitHostProcess]:
    with serve_people(tmp_path) as host:
        yield host


def push(people: GitHostProcess, new: str, data: bytes, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    (old,) = [row["oid"] for row in people.call("ListRefs", repo="meta")["refs"]
              if row["name"] == "refs/heads/main"]  # fmt: skip
    params = {"repo": "meta", "ref": "refs/heads/main", "old": old, "new": new,
              "pack": base64.b64encode(data).decode(), **more}  # fmt: skip
    return people.call("PushPack", **params)


def fault(people: GitHostProcess, new: str, data: bytes, **more: Any) -> HiveError:  # noqa: ANN401
    """The error of a push that must leave everything as it was, the repository's files too."""
    before = people.call("ListRefs", repo="meta")["refs"], repository_files(people)
    with pytest.raises(HiveError) as raised:
        push(people, new, data, **more)
    assert (people.call("ListRefs", repo="meta")["refs"], repository_files(people)) == before
    assert list((people.folder / "state").glob("work/*")) == []
    return raised.value


def repository_files(people: GitHostProcess) -> list[str]:
    folder = people.folder / "state/meta/.git/objects"
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_attack_59_packs_that_are_too_large_in_any_way_are_refused_with_the_rule(
    people: GitHostProcess,
) -> None:
    big = ("blob", os.urandom(CAPS.blob + 1))
    holder = ("tree", tree((b"100644", b"big", object_name(*big))))
    new, pack = objects(big, holder, ("commit", commit(object_name(*holder))))
    first = 512 * 1024
    begun = push(people, new, pack[:first], part=True)
    error = fault(people, new, pack[first : 2 * first], upload=begun["upload"], offset=first,
                  part=True) if len(pack) > CAPS.pack else None  # fmt: skip
    assert error is None
    push(people, new, pack[first : 2 * first], upload=begun["upload"], offset=first, part=True)
    error = fault(people, new, pack[2 * first :], upload=begun["upload"], offset=2 * first)
    assert isinstance(error, InvalidArgument)
    assert error.fields["rule"] == "blob"

    many = [("blob", b"%d" % number) for number in range(CAPS.objects)]
    top = ("tree", tree(*sorted((b"100644", b"f%d" % at, object_name(*item))
                                for at, item in enumerate(many))))  # fmt: skip
    error = fault(people, *objects(*many, top, ("commit", commit(object_name(*top)))))
    assert error.fields["rule"] == "objects"

    upload = push(people, new, b"x" * first, part=True)["upload"]
    at = first
    while at + first <= CAPS.pack:
        push(people, new, b"x" * first, upload=upload, offset=at, part=True)
        at += first
    error = fault(people, new, b"x" * first, upload=upload, offset=at, part=True)
    assert isinstance(error, LimitReached)
    assert isinstance(fault(people, new, b"", upload=upload, offset=at), Conflict)


def test_attack_59_few_bytes_that_stand_for_very_many_are_refused(people: GitHostProcess) -> None:
    """Zeros pack to a thousandth: all of it together is bounded too."""
    bombs = [("blob", bytes([number]) * (CAPS.blob - 1)) for number in range(6)]
    top = (
        "tree",
        tree(*((b"100644", b"%d" % at, object_name(*item)) for at, item in enumerate(bombs))),
    )
    new, pack = objects(*bombs, top, ("commit", commit(object_name(*top))))
    assert len(pack) < CAPS.pack // 50
    assert fault(people, new, pack).fields["rule"] == "tree"


def delta_bomb() -> tuple[str, bytes]:
    """A blob of one MiB, and a chain of deltas that each promise a larger one."""
    base = b"a" * 1000
    delta = _size(len(base)) + _size(1 << 30) + b"\xb0\xff\xff" * 20000
    body = _entry(3, base) + _entry(7, delta, bytes.fromhex(object_name("blob", base)))
    return _pack(2, body)


def _size(number: int) -> bytes:
    encoded = bytearray()
    while True:
        encoded.append(number & 0x7F | (0x80 if number > 0x7F else 0))
        number >>= 7
        if not number:
            return bytes(encoded)


def _entry(kind: int, data: bytes, base: bytes = b"") -> bytes:
    size = len(data)
    head, size = bytearray([kind << 4 | size & 0xF]), size >> 4
    while size:
        head[-1] |= 0x80
        head.append(size & 0x7F)
        size >>= 7
    return bytes(head) + base + zlib.compress(data)


def _pack(count: int, body: bytes) -> tuple[str, bytes]:
    data = struct.pack(">4sII", b"PACK", 2, count) + body
    return "1" * 40, data + sha1(data, usedforsecurity=False).digest()


def test_attack_59_deltas_that_lie_or_build_on_what_is_elsewhere_are_refused(
    people: GitHostProcess,
) -> None:
    for new, pack in (
        delta_bomb(), _pack(1, _entry(7, b"\x01\x01\x01a", b"\x22" * 20)),
        _pack(1 << 31, _entry(3, b"x")), ("1" * 40, b"PACK"), ("1" * 40, os.urandom(4000)),
    ):  # fmt: skip
        error = fault(people, new, pack)
        assert isinstance(error, InvalidArgument)
        assert (error.field, error.fields["rule"]) == ("pack", "git")


def test_attack_59_objects_that_do_not_belong_there_are_refused(people: GitHostProcess) -> None:
    head = people.call("ListRefs", repo="meta")["refs"][0]["oid"]
    blob = ("blob", b"x")
    dotgit = ("tree", tree((b"100644", b".git", object_name(*blob))))
    tag = ("tag", f"object {head}\ntype commit\ntag t\ntagger ".encode() + WHO + b"\n\nt\n")
    other = ("commit", commit(object_name("tree", b""), head))
    for parts, rule in (
        ((blob, dotgit, ("commit", commit(object_name(*dotgit), head))), "git"),
        ((blob, ("tree", b""), other, tag), "kind"),
        ((blob,), "commit"),
    ):
        assert fault(people, *objects(*parts)).fields["rule"] == rule
    lacks = ("commit", commit("2" * 40, head))
    assert "the pack is incomplete" in fault(people, *objects(lacks)).reason
    orphan = ("tree", b""), ("commit", commit(object_name("tree", b""), "3" * 40))
    assert "the pack is incomplete" in fault(people, *objects(*orphan)).reason


def test_attack_59_other_refs_wrong_old_values_and_made_up_words_are_refused(
    people: GitHostProcess,
) -> None:
    head = people.call("ListRefs", repo="meta")["refs"][0]["oid"]
    empty = ("tree", b"")
    new, pack = objects(empty, ("commit", commit(object_name(*empty), head)))
    for ref in ("refs/heads/other", "refs/replace/" + head, "HEAD", "../../config",
                "refs/heads/main/../../../config", "refs/hive/refused/" + head):  # fmt: skip
        error = fault(people, new, pack, ref=ref)
        assert isinstance(error, InvalidArgument)
        assert error.field == "ref"
    for old in (ZERO, new, "4" * 40):
        assert isinstance(fault(people, new, pack, old=old), Conflict)
    assert isinstance(fault(people, "-x", pack), InvalidArgument)
    assert isinstance(fault(people, new, pack, old="-x"), InvalidArgument)
    assert fault(people, ZERO, pack).fields["field"] == "new"
    assert type(fault(people, new, pack, repo="../meta")).__name__ == "NotFound"
    assert fault(people, new, pack, upload=uuid4().hex).reason.startswith("this upload was dropped")
    error = fault(people, new, b"", pack="%")
    assert isinstance(error, InvalidArgument)
    for ref in ("refs/tags/approve/" + "0" * 12, "refs/tags/approve/../../config"):
        error = fault(people, new, pack, repo="ann", ref=ref, old=ZERO)
        assert type(error).__name__ == "NotFound"
    error = fault(people, new, pack, repo="ann", ref="refs/heads/main")
    assert isinstance(error, InvalidArgument)


def test_attack_59_a_pack_that_is_pushed_again_for_something_else_takes_nothing_away(
    people: GitHostProcess,
) -> None:
    """Seen: what was adopted lay in that pack alone, and went with it when it was refused."""
    head = people.call("ListRefs", repo="meta")["refs"][0]["oid"]
    place = people.folder / "clone"
    people.git("clone", "-q", "hive::meta", str(place))
    top = people.git("rev-parse", "HEAD^{tree}", cwd=place)
    good, broken = ("commit", commit(top, head)), ("commit", commit("2" * 40, head))
    pack = build_pack((good, broken))[0]
    assert push(people, object_name(*good), pack)["outcome"] == "adopted"
    assert "the pack is incomplete" in fault(people, object_name(*broken), pack).reason
    assert people.call("MetaLog", limit=1)["commits"][0]["commit"] == object_name(*good)
    people.git("clone", "-q", "hive::meta", str(people.folder / "fresh"))


def test_attack_59_only_the_operator_fetches_and_pushes() -> None:
    """Not even an agent with every capability: what it may see hangs in its container."""
    oid = "1" * 40
    asked: dict[str, dict[str, object]] = {
        "list_refs": {"repo": "meta"}, "export_pack": {"repo": "meta", "wants": [oid]},
        "push_pack": {"repo": "meta", "ref": "refs/heads/main", "old": oid, "new": oid},
        "meta_log": {}, "meta_diff": {},
    }  # fmt: skip
    with world(None) as hive:
        for name, params in asked.items():
            assert hive.fault("root", name, **params) == "NotAllowed", name
