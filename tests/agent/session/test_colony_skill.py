"""A queen hands a skill of her workspace to a colony, whose session installs it (Q14, Q18)."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from each import for_each
from fixtures.fake_model import ModelAnswer
from fixtures.session_host import NAME, SessionHost, session_host
from fixtures.world import world

from hive_core.agent import skills
from hive_core.agent.session.segment import FILE, read_segment
from hive_core.agent.session.skill_files import unpack_files
from hive_core.errors import InvalidArgument

SKILL = "---\nname: bees\ndescription: What is new about bees.\n---\nLook first.\n"


@pytest.fixture(name="host")
def _host(tmp_path: Path) -> Iterator[SessionHost]:
    with world(None, "root/lead:lead") as made:
        made.call(
            "operator", "spawn", name=NAME, role="daemon", profile="queen", runtime="builtin",
            parent="lead",
        )  # fmt: skip
        with session_host(made, tmp_path) as host:
            yield host


def test_a_queen_hands_over_the_skill_that_she_wrote(host: SessionHost) -> None:
    colony = {"name": "reader", "task": "Know what is new.", "skill_path": "skills/bees"}
    host.model.script = [
        ModelAnswer(calls=[("a", "create_colony", colony)]),
        ModelAnswer(calls=[("b", "edit", {"path": "skills/bees/SKILL.md", "new": SKILL})]),
        ModelAnswer(calls=[("c", "create_colony", colony)]),
        ModelAnswer("done"),
    ]  # fmt: skip
    host.start()
    host.send("Prepare it.", "root")
    host.until(lambda: "closed" in host.kinds())
    contents = {row["call"]: str(row["content"]) for row in host.of_kind("result")}
    assert "SKILL.md has no front matter" in contents["a"]
    assert '"created":true' in contents["c"]
    view = host.world.call("operator", "get_colony", agent="reader")
    assert (view["conversation"], view["turn"], view["skill"]) == ("main", 1, "bees")


def test_a_queen_hands_over_the_conversation_up_to_her_last_turn(host: SessionHost) -> None:
    """Q14, Q15, Q16: what was said in the turn of the call is not in it, nor is her prompt."""
    colony = {"name": "heir", "task": "Go on.", "skill_path": "skills/bees", "inherit": "full"}
    edit = {"path": "skills/bees/SKILL.md", "new": SKILL}
    host.model.script = [
        ModelAnswer(calls=[("a", "edit", edit), ("b", "create_colony", colony)]),
        ModelAnswer("The first answer."),
        ModelAnswer(calls=[("c", "create_colony", colony)]),
        ModelAnswer("done"),
    ]  # fmt: skip
    host.start()
    host.send("The first letter.", "root")
    host.until(lambda: "closed" in host.kinds())
    host.send("The second letter.", "root")
    host.until(lambda: host.kinds().count("closed") == 2)
    contents = {row["call"]: str(row["content"]) for row in host.of_kind("result")}
    assert "no turn of this conversation has ended" in contents["b"]
    assert '"created":true' in contents["c"]
    (letter,) = [row for row in host.world.mail("heir") if row["kind"] == "segment"]
    named = json.loads(str(letter["body"]))
    part = host.world.call("heir", "get_artifact", id=named["artifact"])
    data = base64.b64decode(str(part["data"]))
    assert hashlib.sha256(data).hexdigest() == named["sha256"]
    first = json.loads(json.loads(data)["history"][0])["parts"][0]  # Q15: without her prompt
    assert (first["part_kind"], first["content"]) == ("system-prompt", "")
    text = str(read_segment(data)["history"])
    assert "The first letter." in text
    assert "The first answer." in text
    assert "The second letter." not in text


def test_a_skill_is_handed_over_with_its_files(host: SessionHost) -> None:
    """Q18: whole, or not at all. What another session installs are the same bytes."""
    colony = {"name": "reader", "task": "Know what is new.", "skill_path": "./skills/bees/"}
    folder = host.workspace / "skills/bees"
    (folder / "scripts").mkdir(parents=True)
    (folder / "SKILL.md").write_text(SKILL)
    (folder / "scripts/find.py").write_bytes(b"\x00print(1)")
    (folder / "notes.txt").symlink_to("/etc/passwd")
    host.model.script = [
        ModelAnswer(calls=[("a", "create_colony", colony)]),
        ModelAnswer(calls=[("b", "bash", {"command": "rm skills/bees/notes.txt"})]),
        ModelAnswer(calls=[("c", "create_colony", colony)]),
        ModelAnswer("done"),
    ]  # fmt: skip
    host.start()
    host.send("Prepare it.", "root")
    host.until(lambda: "closed" in host.kinds())
    contents = {row["call"]: str(row["content"]) for row in host.of_kind("result")}
    assert "notes.txt is not a plain file" in contents["a"]
    assert '"created":true' in contents["c"]
    (letter,) = [row for row in host.world.mail("reader") if row["kind"] == "skill"]
    named = json.loads(str(letter["body"]).partition("\n")[0])["files"]
    part = host.world.call("reader", "get_artifact", id=named["artifact"])
    data = base64.b64decode(str(part["data"]))
    assert unpack_files(data) == {"scripts/find.py": b"\x00print(1)"}
    head = {"name": "bees", "files": {"artifact": store(host, data), "sha256": "0" * 64}}
    host.notify("skill", f"{json.dumps(head)}\n{SKILL}")
    host.until(lambda: "cannot install a skill" in str(host.world.mail("lead")))
    installed = host.state / "skills" / "bees"
    assert not installed.exists()
    head["files"] = {**head["files"], "sha256": named["sha256"]}  # type: ignore[dict-item]
    host.notify("skill", f"{json.dumps(head)}\n{SKILL}")
    host.until(installed.exists)
    assert (installed / "scripts/find.py").read_bytes() == b"\x00print(1)"
    assert (installed / "SKILL.md").stat().st_mode & 0o777 == 0o644


@for_each("path", ["../x", "/x", "a/../b", ".x", "SKILL.md", "a/b/c/d/e", "", "a b"])
def test_a_file_of_a_skill_has_a_plain_path(path: str) -> None:
    """Q18: also where its queen was taken over."""
    data = json.dumps({"files": {"ok.txt": "", path: ""}}).encode()
    with pytest.raises(InvalidArgument, match="cannot be a file of a skill"):
        unpack_files(data)


@for_each("data", [b"", b"[]", b"{}", b'{"files": 1}', b'{"files": {"a": "?"}}'])
def test_what_are_no_files_of_a_skill_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidArgument, match="not the files of a skill"):
        unpack_files(data)


def store(host: SessionHost, data: bytes) -> str:
    """An artifact that the session can read."""
    row = host.world.call(
        "lead", "store_artifact", name="segment", visibility="subtree", text=data.decode()
    )
    return str(row["id"])


def test_a_colony_goes_on_from_the_conversation_that_it_compared(host: SessionHost) -> None:
    """Q15, Q17: with a prompt of its own. The result of its last call is there, and none is run."""
    call = {"part_kind": "tool-call", "tool_name": "bash", "args": "{}", "tool_call_id": "z"}
    history = [
        {"kind": "request", "parts": [
            {"part_kind": "system-prompt", "content": "You are the queen."},
            {"part_kind": "user-prompt", "content": "Said before."},
        ]},
        {"kind": "response", "parts": [call], "model_name": "m"},
    ]  # fmt: skip
    calls = [{"id": "z", "name": "bash", "arguments": {}, "content": "ran", "is_error": False}]
    rows = {"history": [json.dumps(row) for row in history], "calls": calls}
    data = json.dumps(rows).encode()
    digest = hashlib.sha256(data).hexdigest()
    wrong = {"artifact": store(host, data), "sha256": "0" * 64}
    host.notify("segment", json.dumps(wrong))
    host.model.script = [ModelAnswer("one"), ModelAnswer("two")]
    host.start()
    host.until(lambda: "its SHA-256 is not the one" in str(host.world.mail("lead")))
    assert not (host.state / "session" / FILE).exists()
    host.notify("segment", json.dumps({**wrong, "sha256": digest}))
    host.until((host.state / "session" / FILE).exists)
    host.send("hello", "root")
    host.until(lambda: "closed" in host.kinds())
    assert host.kinds()[:2] == ["open", "inherit"]
    sent = json.loads(host.model.bodies[0])["messages"]
    assert [row["role"] for row in sent[:4]] == ["system", "user", "assistant", "tool"]
    assert "You are the queen." not in sent[0]["content"]
    assert (sent[1]["content"], sent[3]["content"]) == ("Said before.", "ran")
    assert "hello" in str(sent[4])


@for_each("data", [
    b"", b"{}", b"[]", b'{"history": [], "calls": []}', b'{"history": [1], "calls": []}',
    b'{"history": ["x"], "calls": [1]}', b"[" * 5000,
])  # fmt: skip
def test_what_is_no_segment_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidArgument):
        read_segment(data)


def test_a_session_installs_its_skill_for_its_tools_to_read(host: SessionHost) -> None:
    """Q18: it is in the prompt, and its files belong to the user of the session."""
    host.notify("skill", f'{{"name": "bees"}}\n{SKILL}')
    host.model.script = [
        ModelAnswer(calls=[("a", "read_skill", {"name": "bees"})]), ModelAnswer("done"),
    ]  # fmt: skip
    host.start()
    host.send("hello", "root")
    host.until(lambda: "closed" in host.kinds())
    assert "`bees`: What is new about bees." in host.model.bodies[0].decode()
    folder = host.state / "skills"
    assert (folder / "bees" / "SKILL.md").stat().st_mode & 0o777 == 0o644
    assert skills.instructions((folder / "bees" / "SKILL.md").read_bytes()) == "Look first.\n"
    assert "Look first." in str(host.of_kind("result")[0]["content"])
    letters = [row["from"] for row in host.of_kind("input") if row["kind"] == "mail"]
    assert letters == ["root"]
