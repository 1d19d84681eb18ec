"""The process of a sub-agent ends with all that it started, and reads what it is given."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from long import at_most

from hive_core.agent.session.model_socket import ModelInfo
from hive_core.agent.session.subagents.definitions import read_definition
from hive_core.agent.session.subagents.folder import SubagentFolder, checked_result
from hive_core.agent.session.subagents.order import ForkOrder, encode_hydration, read_hydration
from hive_core.agent.session.subagents.process import UIDS, SubagentProcess, kill_users
from hive_core.errors import Internal, InvalidArgument, NotFound
from hive_core.model.agents.subagent import SUBAGENT_UIDS

UID = 61_999
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
    with pytest.raises(Internal, match="without a result"):
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
    definition = read_definition(tmp_path, "ada")
    assert (definition.tools, definition.model) == (("read", "edit"), "")
    assert definition.allowed_tools(["bash", "edit", "read"]) == ["edit", "read"]
    with pytest.raises(InvalidArgument, match="you have no tool edit"):
        definition.allowed_tools(["read"])
    with pytest.raises(InvalidArgument, match=r"bob\.md: name"):
        read_definition(tmp_path, "bob")
    with pytest.raises(NotFound, match=r"there are: ada, bob"):
        read_definition(tmp_path, "nemo")
