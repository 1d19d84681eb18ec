"""`hive artifact`, `hive-agent artifact`: parts are put together, nothing is written over."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pytest
from cli.run import Hive

from hive_core.agent import artifacts
from hive_core.errors import NotFound

ROW = {
    "id": "abc", "name": "n", "version": 1, "owner": "alice", "owner_uuid": "u", "author": "alice",
    "type": "text/plain", "visibility": "user", "size": 6, "digest": "d", "created": 0.0,
    "latest": True,
}  # fmt: skip


def serve(hive: Hive, *parts: bytes) -> None:
    """Serve an artifact in several parts; a read by name continues by id."""

    def give(asked: dict[str, Any]) -> dict[str, Any]:
        at = int(asked.get("after") or 0)
        assert at == 0 or asked["id"] == "abc"
        following = str(at + 1) if at + 1 < len(parts) else None
        return {"artifact": ROW, "data": base64.b64encode(parts[at]).decode(), "next": following}

    hive.peer.answers["GetArtifact"] = give


def test_an_artifact_is_joined_from_its_parts(hive: Hive, tmp_path: Path) -> None:
    serve(hive, b"one", b"two", b"\xff")
    done = hive("artifact", "get", "notes", "--of", "alice", "--to", str(tmp_path / "file"))
    assert (done.status, done.err) == (0, "")
    assert (tmp_path / "file").read_bytes() == b"onetwo\xff"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "operator.sock"]


def test_no_file_is_overwritten_without_force(hive: Hive, tmp_path: Path) -> None:
    serve(hive, b"new")
    file = tmp_path / "file"
    file.write_text("old")
    done = hive("artifact", "get", "abc", "--to", str(file))
    assert done.status != 0
    assert "exists; --force" in done.err
    assert file.read_text() == "old"
    assert hive("artifact", "get", "abc", "--to", str(file), "--force").status == 0
    assert file.read_text() == "new"


def test_a_leftover_temporary_file_with_the_same_pid_does_not_block(
    hive: Hive, tmp_path: Path
) -> None:
    serve(hive, b"new")
    file, other = tmp_path / "file", tmp_path / f".file.{os.getpid()}"
    other.write_text("half of another container's")
    assert hive("artifact", "get", "abc", "--to", str(file)).status == 0
    assert (file.read_text(), other.read_text()) == ("new", "half of another container's")


def test_a_link_is_replaced_and_not_followed(hive: Hive, tmp_path: Path) -> None:
    serve(hive, b"new")
    (tmp_path / "victim").write_text("old")
    (tmp_path / "file").symlink_to("victim")
    assert hive("artifact", "get", "abc", "--to", str(tmp_path / "file")).status != 0
    hive("artifact", "get", "abc", "--to", str(tmp_path / "file"), "--force")
    assert (tmp_path / "victim").read_text() == "old"


def test_a_pipe_gets_the_raw_bytes(hive: Hive) -> None:
    serve(hive, b"one\x1b[2J", b"two")
    assert hive("artifact", "get", "abc").out == "one\x1b[2Jtwo"


def test_listed_artifacts_have_hostile_characters_spelled_out(hive: Hive) -> None:
    row = {**ROW, "owner": "alice\x1b[31m"}
    hive.peer.answers["ListArtifacts"] = lambda _: {"artifacts": [row], "next": None}
    out = hive("artifact", "list", "repo", "--of", "alice").out
    assert "⟨U+001B⟩" in out
    assert hive.peer.params_of("ListArtifacts")[0]["prefix"] == "repo"


def test_a_file_is_sent_in_parts_and_named(hive: Hive, tmp_path: Path) -> None:
    sent: list[bytes] = []

    def take(asked: dict[str, Any]) -> dict[str, Any]:
        assert asked["offset"] == sum(map(len, sent))
        sent.append(base64.b64decode(asked["data"]))
        return {"size": sum(map(len, sent))}

    hive.peer.answers["BeginArtifact"] = lambda _: {"upload": "u1"}
    hive.peer.answers["AppendArtifact"] = take
    hive.peer.answers["StoreArtifact"] = lambda _: {"id": "abc"}
    (tmp_path / "big").write_bytes(b"x" * 1_200_000)
    assert hive("artifact", "put", "alice", str(tmp_path / "big")).out == "abc\n"
    assert [len(chunk) for chunk in sent] == [500_000, 500_000, 200_000]
    (asked,) = hive.peer.params_of("StoreArtifact")
    assert (asked["name"], asked["owner"], asked["upload"]) == ("big", "alice", "u1")


def test_delete_prints_the_number_of_versions(hive: Hive) -> None:
    hive.peer.answers["DeleteArtifact"] = lambda _: {"name": "n", "versions": [1, 2]}
    assert hive("artifact", "rm", "abc", "--all").err == "n: 2 versions deleted\n"


def test_the_agent_client_restarts_an_upload_that_the_daemon_forgot(
    hive: Hive, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    uploads: list[str] = []

    def begin(_: dict[str, Any]) -> dict[str, Any]:
        uploads.append(f"u{len(uploads)}")
        return {"upload": uploads[-1]}

    def store(asked: dict[str, Any]) -> dict[str, Any]:
        if asked["upload"] == "u0":
            raise NotFound("no upload u0")
        return {"id": "abc"}

    hive.peer.answers["BeginArtifact"] = begin
    hive.peer.answers["AppendArtifact"] = lambda _: {"size": 3}
    hive.peer.answers["StoreArtifact"] = store
    (tmp_path / "file").write_bytes(b"abc")
    artifacts.artifact(hive.peer.path, ["put", str(tmp_path / "file"), "--visibility", "user"])
    assert capsys.readouterr().out == "abc\n"
    assert uploads == ["u0", "u1"]


def test_the_agent_client_fetches_into_a_file(hive: Hive, tmp_path: Path) -> None:
    serve(hive, b"one", b"two")
    artifacts.artifact(hive.peer.path, ["get", "notes", str(tmp_path / "f"), "--owner", "lead"])
    assert (tmp_path / "f").read_bytes() == b"onetwo"
    assert hive.peer.params_of("GetArtifact")[0]["owner"] == "lead"


def test_an_error_for_a_missing_folder_names_the_requested_file(hive: Hive, tmp_path: Path) -> None:
    serve(hive, b"new")
    file = tmp_path / "none" / "file"
    done = hive("artifact", "get", "abc", "--to", str(file))
    assert (done.status, done.err) == (1, f"hive: {file}: No such file or directory\n")


def test_a_name_without_an_owner_is_an_error_that_says_so(hive: Hive) -> None:
    def none(_: dict[str, Any]) -> dict[str, Any]:
        raise NotFound("no artifact notes")

    hive.peer.answers["GetArtifact"] = none
    for words, said in (((), True), (("--of", "alice"), False)):
        done = hive("artifact", "get", "notes", *words)
        assert (done.status, "--of NAME" in done.err) == (4, said)
