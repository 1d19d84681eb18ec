"""A session whose model is run by the app server of Codex.

The app server is a stand-in; tests/clis has the real one.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from each import for_each
from fixtures.cli_host import CliHost, cli_host
from fixtures.world import fields

from hive_core.agent.session.runtimes.cli_dialect import CliPlace, CliTurn
from hive_core.agent.session.runtimes.codex import CodexDialect
from hive_core.agent.session.runtimes.codex_driver import CodexTurn
from hive_core.errors import NotAllowed

FAKE = Path(__file__).parents[2] / "fixtures/fake_codex.py"


@pytest.fixture(name="host")
def _host(tmp_path: Path) -> Iterator[CliHost]:
    program = tmp_path / "clis/bin/codex"
    program.parent.mkdir(parents=True)
    shutil.copy(FAKE, program)
    program.chmod(0o755)
    with cli_host(tmp_path, "codex", tmp_path / "clis") as host:
        yield host


def calls(host: CliHost, method: str = "turn/start") -> list[dict[str, Any]]:
    file = host.state / "home/calls"
    rows = map(json.loads, file.read_text().splitlines()) if file.exists() else ()
    return [row for row in rows if row.get("method") == method]


def prompt_text(row: dict[str, Any]) -> str:
    return str(row["params"]["input"][0]["text"])


def test_each_letter_is_a_turn_of_one_process_whose_settings_are_the_sessions(
    host: CliHost,
) -> None:
    host.begin()
    host.send("run")
    assert host.until(host.replies) == ["well"]
    host.send("ask")
    host.until_count(host.replies, 2)
    first, second = calls(host)
    assert first["pid"] == second["pid"]
    assert first["params"]["threadId"] == second["params"]["threadId"]
    assert first["params"]["sandboxPolicy"] == {"type": "dangerFullAccess"}
    (opened,) = calls(host, "thread/start")
    thread, config = opened["params"], opened["params"]["config"]
    assert thread["developerInstructions"] == host.of_kind("system")[0]["text"]
    assert (thread["approvalPolicy"], thread["modelProvider"]) == ("never", "hive")
    provider = config["model_providers"]["hive"]
    assert provider["base_url"] == f"http://127.0.0.1:{host.port}/v1"
    server = config["mcp_servers"]["hive"]
    assert (server["args"][-1], server["required"]) == ("mcp", True)
    assert server["env"]["HIVE_MESSAGE_FILE"] == opened["environment"]["HIVE_MESSAGE_FILE"]
    assert config["projects"] == {str(host.workspace): {"trust_level": "untrusted"}}
    (hook,) = config["hooks"]["PreToolUse"][0]["hooks"]
    assert hook["command"].endswith("gate begin --silent || { echo the hook of hive failed >&2;"
                                    " exit 2; }")  # fmt: skip
    assert opened["environment"]["CODEX_HOME"] == str(host.state / "codex")
    noted = fields(host.events("note_event")[0])["own"]
    assert (noted["model"], noted["tokens_in"]) == ("fake", 20)  # type: ignore[index]  # a table


def test_all_that_it_asks_its_client_for_is_declined(host: CliHost) -> None:
    host.begin()
    host.send("ask")
    assert host.until(host.replies) == ["well"]
    rows = [json.loads(line) for line in (host.state / "home/calls").read_text().splitlines()]
    answers = {row["id"]: row.get("result", row.get("error")) for row in rows if "id" in row}
    assert answers["item/commandExecution/requestApproval"] == {"decision": "decline"}
    assert answers["mcpServer/elicitation/request"] == {"action": "decline"}
    assert answers["item/permissions/requestApproval"]["code"] == -32601


def test_a_killed_turn_goes_on_in_the_same_conversation_and_says_so(host: CliHost) -> None:
    host.begin()
    host.send("hang around")
    host.until(lambda: calls(host))
    os.kill(calls(host)[0]["pid"], signal.SIGKILL)
    assert host.until(host.replies) == ["well"]
    (resumed,) = calls(host, "thread/resume")
    first, second = calls(host)
    assert resumed["params"]["threadId"] == first["params"]["threadId"]
    assert second["params"]["threadId"] == first["params"]["threadId"]
    assert "mcp_servers" in resumed["params"]["config"]
    assert prompt_text(second).startswith("<reminder>\nYou were interrupted")
    assert "hang around" in prompt_text(second)


def test_urgent_mail_interrupts_and_a_used_up_budget_leads_to_one_call_without_tools(
    host: CliHost,
) -> None:
    host.begin()
    host.send("hang")
    host.until(lambda: calls(host))
    host.send("now!", "operator", priority=0)
    assert host.until(host.replies) == ["well"]
    (interrupt,) = calls(host, "turn/interrupt")
    first, second, *_ = calls(host)
    assert interrupt["params"]["threadId"] == first["params"]["threadId"]
    assert first["pid"] == second["pid"]
    task = host.assign("a budget that is small")
    host.until(lambda: host.task(task)["state"] == "done")
    assert "last call" in prompt_text(calls(host)[-1])
    assert calls(host)[-1]["params"]["sandboxPolicy"] == {"type": "readOnly"}
    opened = calls(host, "thread/resume")[-1]["params"]["config"]
    assert "mcp_servers" not in opened
    headers = opened["model_providers"]["hive"]["http_headers"]
    assert headers == {"x-hive-task": task, "x-hive-hand-back": "1"}


def test_a_use_that_no_hook_allowed_ends_the_process(host: CliHost) -> None:
    host.begin()
    host.send("sneak")
    (issue,) = host.until(
        lambda: [row for row in host.world.mail("lead") if row["kind"] == "escalation"]
    )
    assert "codex used a tool without asking: no hook allowed commandExecution c:1" in str(
        issue["body"]
    )
    assert len(calls(host)) == 1  # it is not let try again
    assert not any(Path(f"/proc/{row['pid']}").exists() for row in calls(host))


def test_a_command_does_not_run_on_behind_its_turn(host: CliHost) -> None:
    host.begin()
    host.send("linger")
    assert host.until(host.replies) == ["well"]
    command = int((host.state / "home/lingers").read_text())
    host.until(lambda: not is_running(command))
    host.send("and now?")
    host.until_count(host.replies, 2)
    first, second = calls(host)
    assert first["pid"] != second["pid"]
    assert first["params"]["threadId"] == second["params"]["threadId"]


def is_running(pid: int) -> bool:
    """Whether it lives: nobody waits for a child of a dead process at once."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


class Watcher:
    """Sees a turn and says nothing."""

    def on_text(self, text: str) -> None:
        """Drop it."""

    def on_session(self, session: str) -> None:
        """Drop it."""

    def is_cancelled(self) -> bool:
        return False


def note(turn: CodexTurn, hook: dict[str, object], item: dict[str, object]) -> None:
    turn.note("hook/completed", {"run": hook})
    turn.note("item/started", {"item": item})


HOOK: dict[str, object] = {
    "id": "pre-tool-use:0:/x.toml:a", "eventName": "preToolUse", "source": "sessionFlags",
    "sourcePath": "/x.toml", "displayOrder": 0, "status": "completed",
}  # fmt: skip


@for_each(
    "item, hook",
    [
        ({"type": "commandExecution"}, {**HOOK, "status": "failed"}),  # it ended too late
        ({"type": "commandExecution"}, {**HOOK, "status": "blocked"}),
        ({"type": "commandExecution"}, {**HOOK, "eventName": "postToolUse"}),
        ({"type": "fileChange"}, {**HOOK, "id": "pre-tool-use:0:/x.toml:b"}),
        ({"type": "fileChange"}, {**HOOK, "id": "pre-tool-use:0:/x.toml:b:a"}),
        ({"type": "mcpToolCall", "server": "other"}, HOOK),
        ({"type": "webSearch"}, HOOK),
        ({"type": "dynamicToolCall"}, HOOK),
        ({"type": "agentMessage"}, {**HOOK, "source": "user"}),
    ],
)
def test_what_no_hook_of_the_session_allowed_is_not_let_pass(
    item: dict[str, object], hook: dict[str, object]
) -> None:
    turn = CodexTurn(Watcher())
    use = {"id": "a", "status": "inProgress", **item}
    with pytest.raises(NotAllowed):
        note(turn, hook, use)


@for_each(
    "item",
    [
        {"type": "commandExecution", "id": "a", "status": "inProgress"},
        {"type": "fileChange", "id": "b", "status": "declined"},
        {"type": "mcpToolCall", "id": "c", "server": "hive", "status": "completed"},
        {"type": "reasoning", "id": "d"},
    ],
)
def test_what_a_hook_allowed_and_what_uses_no_tool_passes(item: dict[str, object]) -> None:
    turn = CodexTurn(Watcher())
    note(turn, HOOK, item)
    turn.note("item/completed", {"item": item})


def test_its_user_can_make_no_settings_in_its_home(tmp_path: Path) -> None:
    home = tmp_path / "home"
    place = CliPlace(["hive-agent"], "/b.sock", home, tmp_path, os.geteuid())
    dialect, turn = CodexDialect(), CliTurn("", "hi", "SYSTEM", "fake", tools={"send": "operation"})
    for _ in range(2):
        dialect.prepare(place)
    folder = Path(dialect.environment(turn, place)["CODEX_HOME"])
    assert folder.parent == home.parent  # not in the home, which is the user's
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    assert {row.name for row in folder.iterdir()} == {
        "sessions", "log", "tmp", "db", "thread-writer-locks", "installation_id",
    }  # fmt: skip
    assert dialect.sandbox(turn) == {"type": "dangerFullAccess"}
    turn.locked = True
    assert dialect.sandbox(turn) == {"type": "readOnly"}
