"""Malformed input, row R12: no crash, no error but the declared ones, nothing slow, nothing large.

The frame reader has its own (`tests/test_varlink.py`, `tests/broker/test_fuzz.py`). Here: what
people and agents write that ends up in front of a parser of the host.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable, Iterator
from hashlib import sha1
from pathlib import Path

import pytest
from each import for_each
from fixtures.meta_repo import Meta, family
from hypothesis import given
from hypothesis import strategies as st
from long import at_most
from security.malformed import GROWTH, NAMES, UUID, VALUES, is_refused, largest, measure_input, some

from hive_core.errors import HiveError, InvalidArgument
from hive_core.host.config.settings import load
from hive_core.host.git import files
from hive_core.model.agents.agent import AgentSpec
from hive_core.model.agents.hive import Hive
from hive_core.model.agents.topology import Topology

pytestmark = pytest.mark.sized


def hive_of(data: bytes) -> Hive:
    parents = files.read_topology(data)
    specs = {
        name: AgentSpec.model_validate({"uuid": f"{number:08x}-0000-4000-8000-000000000000"})
        for number, name in enumerate(parents)
    }
    return Hive("", Topology(parents), specs).validate()


# topology.json


@some
@given(st.binary(max_size=200) | st.dictionaries(NAMES, NAMES | VALUES).map(json.dumps))
def test_attack_39_any_topology_is_a_forest_or_refused(data: bytes | str) -> None:
    raw = data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass")
    with measure_input():
        try:
            hive = hive_of(raw)
        except HiveError:
            return
    assert set(hive.topology.order) == set(hive.topology)


COUNT = 13_000


def row(number: int) -> str:
    return f"n{number:05}-{'x' * 24}"


def large(shape: str) -> bytes:
    """Files of about a mebibyte, the most that is read."""
    trees: dict[str, Callable[[int], str | None]] = {
        "wide": lambda _: None,
        "deep": lambda n: row(n - 1) if n else None,
        "cycle": lambda n: row((n + 1) % COUNT),
    }
    if shape in trees:
        return json.dumps({row(n): trees[shape](n) for n in range(COUNT)}).encode()
    return {
        "lists": b"[" * (1 << 20), "objects": b'{"a":' * 200_000, "digits": b"9" * (1 << 20),
        "names": b'{"' + b"a" * (1 << 20) + b'": null}', "spaces": b" " * (1 << 20),
        "escapes": b'{"' + rb"\u0061" * 170_000 + b'": null}',
    }[shape]  # fmt: skip


@for_each("shape", ["deep", "cycle", "lists", "objects", "digits", "names",
                                   "spaces", "escapes"])  # fmt: skip
def test_attack_39_a_large_invalid_topology_is_refused_in_time(shape: str) -> None:
    data = large(shape)
    assert is_refused(lambda: Topology.forest(files.read_topology(data)))


def test_a_wide_topology_of_the_largest_size_is_read_in_time() -> None:
    with measure_input():
        assert len(Topology.forest(files.read_topology(large("wide")))) == 13_000


# agents/NAME.json and hive.toml


@some
@given(st.fixed_dictionaries({}, optional=dict.fromkeys(AgentSpec.model_fields, VALUES)))
def test_every_spec_is_valid_or_refused_with_its_file_name(fields: dict[str, object]) -> None:
    data = json.dumps({"uuid": UUID, **fields}).encode("utf-8", "surrogatepass")
    named = ""
    with measure_input():
        try:
            spec = files.read_spec(data, "agents/a.json")
        except InvalidArgument as error:
            named = error.field
            spec = None
    if spec is None:
        assert named == "agents/a.json"
        return
    assert files.read_spec(files.spec_bytes(spec), "again") == spec


@for_each("shape", ["lists", "objects", "digits", "names", "spaces", "escapes"])
def test_a_large_spec_is_refused_in_time(shape: str) -> None:
    assert is_refused(lambda: files.read_spec(large(shape), "agents/a.json"))
    assert is_refused(lambda: files.read_spec(large(shape)[: 64 << 10], "agents/a.json"))


TOML = st.recursive(
    st.sampled_from(["1", "true", '"x"', "1e999", "nan", "-1", "9" * 400, "1979-05-27", '"/a/.."',
                     "''", '"\\u0000"', "0x7fffffffffffffff"]),
    lambda inner: st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
    | st.tuples(st.sampled_from(["a", "host", "name"]), inner).map(
        lambda pair: f"{{{pair[0]} = {pair[1]}}}"),
    max_leaves=4,
)  # fmt: skip
KEYS = st.sampled_from(["root.name", "root.image", "images.host", "images.x", "limits.depth", "x",
                        "limits.send_rate", "paths.state", "uid_start", "default_image",
                        "retention.archive", "agent_limits.memory_max",
                        "back_off.first"])  # fmt: skip


@some
@given(st.text(max_size=60) | st.dictionaries(KEYS, TOML, max_size=4).map(
    lambda rows: "\n".join(f"{key} = {value}" for key, value in rows.items())))  # fmt: skip
def test_every_settings_file_is_valid_or_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "hive.toml"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    is_refused(lambda: load(file))


@pytest.mark.parametrize(
    "text", ["a = " + "[" * 100_000, "a = " + "{b = " * 50_000, "a = " + "9" * 100_000,
             "a = 1\n" * 20_000, "[" * 100_000],
    ids=["lists", "tables", "digits", "twice", "headings"],
)  # fmt: skip
def test_a_settings_file_that_is_deep_or_huge_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "hive.toml"
    file.write_text(text)
    assert is_refused(lambda: load(file))


# The walker of git trees


@pytest.fixture(scope="module")
def meta(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Meta]:
    made = Meta(tmp_path_factory.mktemp("git"))
    made.change(family("a", "b"))
    yield made
    made.close()


def put(meta: Meta, kind: str, data: bytes, pack: Callable[[bytes], bytes] = zlib.compress) -> str:
    """An object as a person could write one by hand."""
    raw = f"{kind} {len(data)}".encode() + b"\0" + data
    oid = sha1(raw, usedforsecurity=False).hexdigest()
    place = meta.path / ".git/objects" / oid[:2] / oid[2:]
    place.parent.mkdir(exist_ok=True)
    if not place.exists():
        place.write_bytes(pack(raw))
    return oid


LINES = st.tuples(
    st.sampled_from([b"100644", b"40000", b"040000", b"120000", b"160000", b"100755", b"0", b"9"]),
    st.sampled_from([b"a", b"topology.json", b"agents", b".git", b".GIT", b"..", b"a/b", b"\xff"])
    | st.binary(max_size=8),
    st.binary(min_size=20, max_size=20),
)
TREES = st.lists(LINES, max_size=6).map(
    lambda lines: b"".join(mode + b" " + name + b"\0" + oid for mode, name, oid in lines)
)


@some
@given(st.binary(max_size=120) | TREES, st.sampled_from(["tree", "blob", "commit", "tag", "x"]))
def test_every_git_object_is_walked_or_refused(meta: Meta, data: bytes, kind: str) -> None:
    oid = put(meta, kind, data)
    store = meta.repo._objects.store
    is_refused(lambda: list(store.walk(oid)))
    is_refused(lambda: list(store.differences(oid, "")))
    is_refused(lambda: store.commit(oid))
    is_refused(lambda: meta.repo.read(oid))


HEADS = st.lists(
    st.tuples(st.sampled_from(["tree", "parent", "author", "committer", "gpgsig", "x"]),
              st.text(max_size=30) | st.just("a <b> 1 +0000") | st.just("0" * 40)),
    max_size=6,
)  # fmt: skip


@some
@given(HEADS, st.booleans(), st.text(max_size=20))
def test_every_commit_is_read_or_refused(
    meta: Meta, heads: list[tuple[str, str]], good: bool, text: str  # noqa: FBT001
) -> None:  # fmt: skip
    tree = [("tree", meta.git("rev-parse", "HEAD^{tree}"))] if good else []
    said = "".join(f"{key} {value}\n" for key, value in [*tree, *heads])
    oid = put(meta, "commit", f"{said}\n{text}".encode("utf-8", "surrogatepass"))
    is_refused(lambda: meta.repo._objects.store.commit(oid))
    is_refused(lambda: meta.repo.read(oid))
    is_refused(lambda: meta.repo._objects.check(oid))


def test_a_compression_bomb_is_not_unpacked(meta: Meta) -> None:
    """Attack 18, as far as the meta repo goes: 128 MiB out of 128 KiB."""
    oid = put(meta, "blob", bytes(128 << 20))
    before = largest()
    with pytest.raises(InvalidArgument, match="larger than"):
        meta.repo._objects.store.blob(oid, "a bomb")
    assert largest() - before < GROWTH + (8 << 20)


def test_an_endless_tree_is_given_up_in_time(meta: Meta) -> None:
    """Ten entries a level, each the same tree: 10 to the 40th files. Attack 18."""
    oid = put(meta, "blob", b"x")
    mode = "100644"
    for _ in range(40):
        lines = b"".join(f"{mode} {n}\0".encode() + bytes.fromhex(oid) for n in range(10))
        oid, mode = put(meta, "tree", lines), "40000"
    begin = time.process_time()
    assert is_refused(lambda: list(meta.repo._objects.store.differences(oid, "")))
    with pytest.raises(InvalidArgument):
        list(meta.repo._objects.store.walk(oid))
    # Fifty thousand entries are looked at before that.
    assert time.process_time() - begin < at_most(2, slack=0)
