"""Artifacts: storing, reading, keeping, and what is refused (K21, attack 47)."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from hashlib import sha256

import pytest
from each import for_each
from fixtures.world import Reply, World, names, rows, world

from hive_core.errors import (
    Conflict,
    Internal,
    InvalidArgument,
    LimitReached,
    NotAllowed,
    NotFound,
)
from hive_core.model.config.settings import Settings

BLOCK = 256 * 1024


@pytest.fixture(name="hive")
def _hive() -> Iterator[World]:
    with world(None, "root/a", "a/a1:worker", "a1/a2:worker", "root/b", "root/t:task") as made:
        yield made


def small(**limits: int) -> Settings:
    return Settings.model_validate({"artifacts": limits})


def store(hive: World, by: str = "a", text: str = "hello", /, **params: object) -> Reply:
    return hive.call(by, "store_artifact", **{"name": "notes", "text": text, **params})


def read(hive: World, by: str = "a", /, **which: object) -> bytes:
    """All of it, part by part."""
    result, after = b"", None
    while True:
        part = hive.call(by, "get_artifact", **which, after=after)
        result += base64.b64decode(str(part["data"]))
        after = part.get("next")
        if after is None:
            return result


def encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def send(hive: World, by: str, data: bytes, step: int = 300_000) -> str:
    upload = str(hive.call(by, "begin_artifact")["upload"])
    for at in range(0, len(data), step):
        part = encode(data[at : at + step])
        said = hive.call(by, "append_artifact", upload=upload, offset=at, data=part)
        assert said == {"size": min(at + step, len(data))}
    return upload


def files(hive: World) -> list[str]:
    return sorted(path.name for path in (hive.folder / "artifacts").rglob("*") if path.is_file())


def test_what_is_stored_comes_back_with_its_digest(hive: World) -> None:
    said = store(hive, "a", "grüße")
    data = "grüße".encode()
    assert (said["version"], said["size"], said["digest"]) == (1, 7, sha256(data).hexdigest())
    assert read(hive, name="notes") == read(hive, id=said["id"]) == data
    assert files(hive) == [said["digest"]]


def test_a_name_gets_versions_and_old_ones_can_be_read_until_they_go() -> None:
    with world(small(versions=3), "root/a") as hive:
        ids = [store(hive, "a", f"v{number}")["id"] for number in range(1, 6)]
        assert read(hive, name="notes") == b"v5"
        assert read(hive, name="notes", version=4) == b"v4"
        for gone in ids[:2]:
            with pytest.raises(NotFound):
                read(hive, id=gone)
        hive.advance(1)
        assert len(files(hive)) == 3
        (row,) = rows(hive.call("a", "list_artifacts")["artifacts"])
        assert (row["version"], row["latest"]) == (5, True)


def test_a_version_is_not_given_twice(hive: World) -> None:
    store(hive)
    second = store(hive, "a", "two")
    hive.call("a", "delete_artifact", id=second["id"])
    assert read(hive, name="notes") == b"hello"
    assert store(hive, "a", "three")["version"] == 3


def test_nothing_is_left_of_a_name_that_is_deleted(hive: World) -> None:
    """Else an agent could fill the ledger with names."""
    for number in range(5):
        id_ = store(hive, "a", "x", name=f"n{number}")["id"]
        hive.call("a", "delete_artifact", id=id_)
    hive.advance(1)
    for table in ("artifacts", "artifact_names", "contents", "old_contents"):
        count = hive.ledger.connection.value(f"SELECT COUNT(*) FROM {table}")  # noqa: S608
        assert count == 0, table


def test_large_ones_are_sent_and_read_in_parts(hive: World) -> None:
    data = bytes(range(256)) * 4096 + b"end"
    upload = send(hive, "a", data)
    said = hive.call("a", "store_artifact", name="big", upload=upload)
    assert (said["size"], said["digest"]) == (len(data), sha256(data).hexdigest())
    assert read(hive, name="big") == data
    pages = hive.ask("a", "get_artifact", more=True, name="big").pages
    assert len(pages) == 5
    assert b"".join(base64.b64decode(str(page["data"])) for page in pages) == data


@for_each("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK])
def test_every_size_comes_back(hive: World, size: int) -> None:
    data = b"x" * size
    upload = send(hive, "a", data, 100_000)
    hive.call("a", "store_artifact", name="sized", upload=upload)
    assert read(hive, name="sized") == data


def test_the_last_part_may_come_again_and_no_other_out_of_turn(hive: World) -> None:
    upload = send(hive, "a", b"12345", 5)
    again = hive.call("a", "append_artifact", upload=upload, offset=0, data=encode(b"12345"))
    assert again == {"size": 5}
    hive.call("a", "append_artifact", upload=upload, offset=5, data=encode(b"67"))
    hive.call("a", "append_artifact", upload=upload, offset=5, data=encode(b"678"))
    for offset in (0, 3, 9):
        with pytest.raises(Conflict):
            hive.call("a", "append_artifact", upload=upload, offset=offset, data=encode(b"x"))
    hive.call("a", "store_artifact", name="parts", upload=upload)
    assert read(hive, name="parts") == b"12345678"


def test_the_upload_of_another_is_not_there(hive: World) -> None:
    upload = send(hive, "a", b"mine")
    more: Reply = {"upload": upload, "offset": 4, "data": encode(b"x")}
    with pytest.raises(NotFound, match="no upload"):
        hive.call("b", "append_artifact", **more)
    with pytest.raises(NotFound, match="no upload"):
        hive.call("b", "store_artifact", name="x", upload=upload)


def test_what_is_not_stored_is_gone_with_the_daemon_and_after_a_while(hive: World) -> None:
    upload = send(hive, "a", b"half")
    hive.advance(700)
    send(hive, "b", b"other")
    with pytest.raises(NotFound):
        hive.call("a", "store_artifact", name="x", upload=upload)


def test_an_upload_that_goes_on_is_not_forgotten(hive: World) -> None:
    upload = send(hive, "a", b"12345")
    for at in range(5, 9):
        hive.advance(500)
        hive.call("b", "begin_artifact")
        hive.call("a", "append_artifact", upload=upload, offset=at, data=encode(b"x"))
    hive.call("a", "store_artifact", name="slow", upload=upload)
    assert read(hive, name="slow") == b"12345xxxx"


NAMES = (
    "", ".", "..", "../x", "/etc/passwd", "a//b", "a/../b", "a/", "a\0b", "a\nb", ".hidden", "-rf",
    "a/.git/config", "ä", "a b", "a" * 65, "/".join("abcdefghi"), "a\\b", "C:", "x\u202egnp",
)  # fmt: skip


@for_each("name", NAMES)
def test_a_name_that_could_mislead_is_refused(hive: World, name: str) -> None:
    with pytest.raises(InvalidArgument):
        store(hive, name=name)


def test_what_is_no_base64_or_says_two_things_is_refused(hive: World) -> None:
    for params in ({"data": "?"}, {"data": "YQ==\n"}, {}, {"text": "x", "data": "YQ=="}):
        with pytest.raises(InvalidArgument):
            hive.call("a", "store_artifact", name="x", **params)
    with pytest.raises(InvalidArgument):
        store(hive, type="text/html; charset=x\r\nset-cookie: y")
    assert hive.fault("a", "get_artifact", name="notes", id="x") == "InvalidArgument"


WHO = {"root": "", "a": "", "operator": "", "a2": "NotAllowed", "b": "NotFound"}


@for_each("caller, error", WHO.items())
def test_under_the_names_of_an_agent_only_it_and_those_above_store(
    hive: World, caller: str, error: str
) -> None:
    """A forged memory was read as one's own (HiveKernel)."""
    store(hive, "a1", "mine")
    params = {"name": "notes", "text": "theirs", "owner": "a1"}
    assert hive.fault(caller, "store_artifact", **params) == error
    assert read(hive, "a1", name="notes") == (b"mine" if error else b"theirs")


def test_without_the_capability_nothing_is_stored(hive: World) -> None:
    assert hive.fault("t", "store_artifact", name="x", text="x") == "NotAllowed"
    assert hive.fault("t", "begin_artifact") == "NotAllowed"


def test_a_recipient_outside_of_the_subtree_needs_the_capability(hive: World) -> None:
    with pytest.raises(NotAllowed, match=r"artifact\.global"):
        store(hive, visibility="global")
    hive.call("operator", "grant_capability", agent="a", capability="artifact.global")
    store(hive, visibility="global")
    hive.call("operator", "spawn", name="other", parent="")
    assert read(hive, "other", name="notes", owner="a") == b"hello"


READS = {
    "private": {"a1"},
    "subtree": {"a1", "a", "root", "a2"},
    "user": {"a1", "a", "root", "a2", "b", "t"},
}


@pytest.mark.parametrize(("visibility", "readers"), READS.items())
def test_readers_and_what_they_read(hive: World, visibility: str, readers: set[str]) -> None:
    hive.call("operator", "spawn", name="other", parent="")
    id_ = store(hive, "a1", visibility=visibility)["id"]
    every = {"root", "a", "a1", "a2", "b", "t", "other"}
    assert {item for item in every if not hive.fault(item, "get_artifact", id=id_)} == readers
    for item in every:
        seen = names(hive.call(item, "list_artifacts")["artifacts"], "id")
        assert (id_ in seen) == (item in readers)
    assert read(hive, "operator", id=id_) == b"hello"


def test_what_one_may_not_read_is_as_if_it_were_not_there(hive: World) -> None:
    id_ = store(hive, "a1")["id"]
    reasons = []
    for params in ({"id": id_}, {"id": "0" * 12}):
        for operation in ("get_artifact", "delete_artifact"):
            with pytest.raises(NotFound) as refused:
                hive.call("b", operation, **params)
            reasons.append(str(refused.value).replace(str(params["id"]), "ID"))
    assert set(reasons) == {"no artifact ID"}


@pytest.mark.parametrize("visibility", ["subtree", "user"])
def test_it_can_be_read_when_its_author_and_those_above_are_gone(
    hive: World, visibility: str
) -> None:
    """What HiveKernel lost with the author (its table, 1.8)."""
    id_ = store(hive, "a1", visibility=visibility)["id"]
    uuid = hive.uuid("a1")
    hive.call("operator", "destroy", agent="a1")
    for reader in ("a", "root", "a2"):
        assert read(hive, reader, id=id_) == b"hello"
        assert read(hive, reader, name="notes", owner="a1") == b"hello"
        assert read(hive, reader, name="notes", owner=uuid) == b"hello"
    hive.call("operator", "destroy", agent="a")
    assert read(hive, "a2", id=id_) == b"hello"
    hive.call("root", "spawn", name="late", parent="a2", role="task")
    assert read(hive, "late", id=id_) == b"hello"
    assert (hive.fault("b", "get_artifact", id=id_) == "") == (visibility == "user")


def test_memory_is_the_identity_s_and_a_new_agent_of_that_name_has_its_own(hive: World) -> None:
    store(hive, "a2", "memory", name="memory")
    uuid = hive.uuid("a2")
    hive.call("operator", "destroy", agent="a2")
    hive.call("operator", "spawn", name="a2", parent="a1", role="worker")
    assert hive.fault("a2", "get_artifact", name="memory") == "NotFound"
    assert hive.fault("a2", "get_artifact", name="memory", owner=uuid) == "NotFound"
    hive.call("operator", "destroy", agent="a2")
    hive.call("operator", "restore", id=uuid)
    assert read(hive, "a2", name="memory") == b"memory"


def test_callers_that_may_delete(hive: World) -> None:
    id_ = store(hive, "a1", visibility="user")["id"]
    for other, error in (("b", "NotAllowed"), ("a2", "NotAllowed"), ("t", "NotAllowed")):
        assert hive.fault(other, "delete_artifact", id=id_) == error
    assert hive.call("a", "delete_artifact", id=id_) == {"name": "notes", "versions": [1]}
    assert hive.fault("a1", "get_artifact", name="notes") == "NotFound"
    hive.advance(1)
    assert files(hive) == []


def test_what_destroyed_agents_left_is_deleted_by_their_ancestors(hive: World) -> None:
    id_ = store(hive, "a1")["id"]
    hive.call("operator", "destroy", agent="a1")
    assert hive.fault("b", "delete_artifact", id=id_) == "NotFound"
    assert hive.call("a", "delete_artifact", id=id_)["versions"] == [1]


def test_all_versions_go_at_once_if_asked(hive: World) -> None:
    last = [store(hive, "a", str(number)) for number in range(3)][-1]
    assert hive.call("a", "delete_artifact", id=last["id"], all=True)["versions"] == [1, 2, 3]
    assert hive.ledger.artifacts.usage(hive.uuid("a")) == (0, 0)


def test_the_same_bytes_are_kept_once_and_as_long_as_a_party_has_them(hive: World) -> None:
    first, second = store(hive, "a"), store(hive, "b")
    assert first["digest"] == second["digest"]
    assert len(files(hive)) == 1
    hive.call("a", "delete_artifact", id=first["id"])
    hive.advance(1)
    assert read(hive, "b", name="notes") == b"hello"
    hive.call("b", "delete_artifact", id=second["id"])
    hive.advance(1)
    assert files(hive) == []
    store(hive, "a")
    assert read(hive, name="notes") == b"hello"


QUOTAS = {
    "size": ({"size": 10}, "has more than 10 bytes"),
    "agent": ({"agent": 10}, "of 10 bytes"),
    "tree": ({"tree": 10}, "under the root of a have"),
}


@pytest.mark.parametrize(("limits", "why"), QUOTAS.values(), ids=QUOTAS)
def test_bytes_are_bounded(limits: dict[str, int], why: str) -> None:
    with world(small(**limits), "root/a", "root/b") as hive:
        store(hive, "a", "12345")
        with pytest.raises(LimitReached, match=why):
            store(hive, "a", "12345678901", name="more")
        with pytest.raises(LimitReached):
            send(hive, "a", b"12345678901")
        assert hive.fault("b", "store_artifact", name="x", text="123456") == (
            "LimitReached" if "tree" in limits else ""
        )


@pytest.mark.parametrize("limit", ["count", "tree_count"])
def test_versions_are_bounded(limit: str) -> None:
    with world(small(**{limit: 2}), "root/a") as hive:
        first = store(hive, name="one")
        store(hive, name="two")
        with pytest.raises(LimitReached, match="2 versions"):
            store(hive, name="three")
        hive.call("a", "delete_artifact", id=first["id"])
        store(hive, name="three")


def test_uploads_are_bounded(hive: World) -> None:
    for _ in range(4):
        hive.call("a", "begin_artifact")
    with pytest.raises(LimitReached):
        hive.call("a", "begin_artifact")
    hive.call("b", "begin_artifact")
    hive.advance(601)
    hive.call("a", "begin_artifact")


@pytest.mark.parametrize("how", ["other bytes", "shorter", "longer", "gone", "link"])
def test_what_is_damaged_is_not_given(hive: World, how: str) -> None:
    said = store(hive, "a", "x" * 1000)
    (path,) = list((hive.folder / "artifacts").rglob(str(said["digest"])))
    changes = {"other bytes": b"x" * 999 + b"y", "shorter": b"x" * 999, "longer": b"x" * 1001}
    if how in changes:
        path.write_bytes(changes[how])
    else:
        path.rename(path.with_name("elsewhere"))
        if how == "link":
            path.symlink_to("elsewhere")
    alarms: list[str] = []
    hive.contents.alarm = alarms.append
    with pytest.raises(Internal, match="damaged"):
        read(hive, name="notes")
    assert len(alarms) == 1
    store(hive, "a", "x" * 1000)
    assert read(hive, name="notes") == b"x" * 1000


def test_listings_are_by_prefix_and_owner_and_come_in_pages(hive: World) -> None:
    for number in range(5):
        store(hive, "a", f"{number}", name=f"reports/{number}", visibility="user")
    store(hive, "a", "x", name="report")
    store(hive, "b", "x", name="reports/b", visibility="user")
    result, after = [], None
    while True:
        page = hive.call("b", "list_artifacts", prefix="reports/", limit=2, after=after)
        result += names(page["artifacts"])
        after = page.get("next")
        if after is None:
            break
    assert result == [*(f"reports/{number}" for number in range(5)), "reports/b"]
    assert names(hive.call("b", "list_artifacts", author="b")["artifacts"]) == ["reports/b"]
    assert rows(hive.call("b", "list_artifacts", author="nobody")["artifacts"]) == []
    assert names(hive.call("a", "list_artifacts", prefix="report%")["artifacts"]) == []
