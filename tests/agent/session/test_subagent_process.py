"""The process of a sub-agent ends with all that it started, and reads what it is given."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from long import at_most

from hive_core.agent.session.model_socket import ModelInfo
from hive_core.agent.session.subagents.definitions import read_definition
from hive_core.agent.session.subagents.folder import SubagentFolder, checked_result
from hive_core.agent.session.subagents.order import ForkOrder, encode_hydration, read_hydration
from hive_core.agent.session.subagents.process import UIDS, SubagentProcess, kill_users
from hive_core.agent.session.tool_words import choose_tools
from hive_core.errors import Internal, InvalidArgument, NotFound
from hive_core.model.agents.subagent import SUBAGENT_UIDS

UID = 61_999
CLAUDE = """---
name: Code Reviewer
description: Use it after a change. Examples: <example>user: "done"</example>
tools: Read, Grep, Glob, WebFetch, Task, mcp__github__get_issue, Teleport, Bash(git log:*)
disallowedTools: Write
model: sonnet
color: blue
---

You review code.
"""
ORDER = ForkOrder(
    "named", "ada", "ab12", 1, 5, {"alias": "m", "wire": "chat", "context": 9}, [], {}
)
# One of its two processes leaves its group.
ESCAPE = "import os, time; os.fork() or os.setsid(); time.sleep(600)"


# It ends, and leaves a process in another session that forks and ends again and again. Its name is
# not UTF-8, and looks like the end of a process in /proc/PID/stat.
RUNNER = """
import os
with open("/proc/self/comm", "wb") as name:
    name.write(b"\\xff) Z 1")
done, begun = os.pipe()
if os.fork():
    os.read(done, 1)
    os._exit(0)
os.setsid()
for turn in range(1 << 60):
    if os.fork():
        os._exit(0)
    if turn == 3:
        os.write(begun, b"x")
"""


def processes_of(uid: int) -> list[int]:
    """The processes of a user that have not ended."""
    pids = []
    for place in Path("/proc").iterdir():
        try:
            is_alive = place.name.isdigit() and (place / "cmdline").read_bytes()
            if is_alive and place.stat().st_uid == uid:
                pids.append(int(place.name))
        except OSError:
            continue
    return pids


def test_a_process_that_leaves_the_group_ends_with_the_user() -> None:
    """Z11."""
    words = [sys.executable, "-I", "-S", "-c", ESCAPE]
    process = SubagentProcess(words, Path("/"), {"PATH": os.environ["PATH"]}, UID)
    ends = time.monotonic() + at_most(10)
    while len({os.getsid(pid) for pid in processes_of(UID)}) < 2:
        assert time.monotonic() < ends, "no process has left the group"
    assert not process.wait(0.05)
    assert processes_of(UID) == []


def test_a_process_that_forks_and_ends_for_ever_ends_with_the_user() -> None:
    """Z11: no list of processes shows it for long enough to be killed by its id."""
    words = [sys.executable, "-I", "-S", "-c", RUNNER]
    process = SubagentProcess(words, Path("/"), {"PATH": os.environ["PATH"]}, UID)
    assert process.wait(at_most(60))
    assert processes_of(UID) == []


def test_what_an_earlier_session_left_is_killed_by_the_users_of_sub_agents() -> None:
    """Z11: all of them, and nobody else."""
    assert UIDS == SUBAGENT_UIDS
    words = [sys.executable, "-I", "-S", "-c", ESCAPE]
    left, other = (
        SubagentProcess(words, Path("/"), {"PATH": os.environ["PATH"]}, uid)
        for uid in (UID - 1, UID)
    )
    kill_users(range(UID - 5, UID))
    assert processes_of(UID - 1) == []
    assert left.wait(at_most(60))
    assert not other.wait(0)


def test_the_files_of_a_sub_agent_are_read_without_following_it(tmp_path: Path) -> None:
    folder = SubagentFolder(tmp_path, "ab12", None)
    folder.make(encode_hydration(b"", ORDER))
    assert not folder.workspace.stat().st_mode & 0o007, "others could enter it"
    records, order = read_hydration(folder.hydration)
    assert (order, len(records)) == (ORDER, 1)
    assert order.model_info == ModelInfo("m", "chat", 9)
    with pytest.raises(Internal, match="without writing a result"):
        folder.read_result()
    folder.result.unlink()
    folder.result.symlink_to("/etc/passwd")
    with pytest.raises(Internal, match="no result"):
        folder.read_result()
    folder.result.unlink()
    os.mkfifo(folder.result)
    with pytest.raises(Internal, match="not a regular file"):
        folder.read_result()
    folder.remove()
    assert list((tmp_path / "sub").iterdir()) == []
    with pytest.raises(InvalidArgument, match="not the id"):
        SubagentFolder(tmp_path, "../x", None).make(b"")


def test_what_a_sub_agent_says_of_itself_is_cut_to_the_fields_of_a_result() -> None:
    said = {"status": "success", "content": "c", "extra": 1, "metadata": {
        "agent": "root", "latency_ms": -1, "usage": {"input_tokens": "9", "output_tokens": 2.5},
        "cost": -3.0, "secret": "x"}}  # fmt: skip
    assert checked_result(said, "ada") == {
        "status": "success", "content": "c", "error": None, "metadata": {
            "agent": "ada", "model": "", "provider": "", "latency_ms": 0,
            "usage": {"input_tokens": 0, "output_tokens": 2}}}  # fmt: skip


@pytest.mark.parametrize("cut", [1, 10, 60])
def test_a_log_that_is_not_whole_hydrates_nothing(tmp_path: Path, cut: int) -> None:
    folder = SubagentFolder(tmp_path, "ab12", None)
    folder.make(encode_hydration(b"", ORDER))
    data = folder.hydration.read_bytes()
    folder.hydration.chmod(0o600)
    folder.hydration.write_bytes(data[:-cut])
    with pytest.raises(InvalidArgument, match="cannot hydrate"):
        read_hydration(folder.hydration)


def test_a_clone_without_a_prompt_and_a_history_hydrates_nothing(tmp_path: Path) -> None:
    """Z2: so nothing could render one."""
    folder = SubagentFolder(tmp_path, "ab12", None)
    order = ForkOrder("clone", "clone", "ab12", 1, 5, ORDER.model, [], {})
    folder.make(encode_hydration(b"", order))
    with pytest.raises(InvalidArgument, match="needs the system prompt"):
        read_hydration(folder.hydration)


def test_a_definition_names_tools_as_other_programs_do(tmp_path: Path) -> None:
    (tmp_path / "ada.md").write_text("---\ntools:\n  - Read\n  - Write\nmodel: inherit\n---\nHi")
    (tmp_path / "bob.md").write_text("---\nname: eve\n---\nHi")
    (tmp_path / "cid.md").write_text("---\ntools:\n- Read\n- Write\n---\nHi")
    definition = read_definition(tmp_path, "ada")
    assert definition.model == ""
    owned = ["bash", "edit", "read"]
    for name in ("ada", "cid"):
        assert read_definition(tmp_path, name).choose_tools(owned).names == ("edit", "read")
    with pytest.raises(InvalidArgument, match="cannot fork ada: tools: you have no tool edit"):
        definition.choose_tools(["read"])
    with pytest.raises(InvalidArgument, match=r"bob\.md: name"):
        read_definition(tmp_path, "bob")
    with pytest.raises(NotFound, match=r"there are: ada, bob, cid"):
        read_definition(tmp_path, "nemo")


def test_a_file_of_claude_code_is_a_sub_agent_that_says_what_it_lost(tmp_path: Path) -> None:
    """Z1: what hive has under other words is translated, the rest is left out."""
    (tmp_path / "code-reviewer.md").write_text(CLAUDE)
    definition = read_definition(tmp_path, "code-reviewer")
    chosen = definition.choose_tools(["list", "search", "read", "edit", "bash", "send"])
    assert chosen.names == ("list", "search", "read")
    assert [text.split(":")[1].strip() for text in chosen.warnings] == [
        "WebFetch", "Task", "mcp__github__get_issue", "Teleport", "Bash(git log",
    ]  # fmt: skip
    assert definition.instructions == "You review code.\n"
    with pytest.raises(InvalidArgument, match=r"tools: you have no tool search"):
        definition.choose_tools(["read", "list"])


def test_a_sub_agent_of_which_no_tool_is_left_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="none of its tools is left: tools: WebFetch: left"):
        choose_tools(["read"], ["WebFetch"])
    with pytest.raises(InvalidArgument, match="disallowedTools takes them all"):
        choose_tools(["read"], ["Read"], ["Read"])
    assert choose_tools(["read"], []).names == ()  # it asked for none
    assert choose_tools(["read", "edit"], ["*"], ["Write"]).names == ("read",)
    assert choose_tools(["read", "edit"], None, ["Edit(src/*)"]).names == ("read",)
    for everything in ("*", "All"):
        assert choose_tools(["read", "edit"], None, [everything]).names == ()


WORDS = st.sampled_from([
    "Read", "read", "Glob", "Grep", "LS", "Bash", "Bash(git log:*)", "WebFetch", "Task", "*", "all",
    "mcp__github__get_issue", "send", "Send", "hive_fork_subagent", "finish_task", "Edit", "mcp",
]) | st.text("abBR_*()-: ", max_size=12)  # fmt: skip


@given(
    st.lists(st.sampled_from(["read", "list", "search", "edit", "bash", "send"]), unique=True),
    st.none() | st.lists(WORDS), st.lists(WORDS),
)  # fmt: skip
def test_no_list_gives_a_sub_agent_a_tool_that_its_agent_lacks(
    owned: list[str], words: list[str] | None, removed: list[str]
) -> None:
    """Z4. And what `disallowedTools` names is never among them."""
    try:
        names = choose_tools(owned, words, removed).names
    except InvalidArgument:
        return
    assert set(names) <= set(owned)
    assert not set(names) & set(removed)
    assert not names or "*" not in removed
    assert words is not None or set(names) == set(choose_tools(owned, ["*"], removed).names)
