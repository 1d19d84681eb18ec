"""What the commands ask of the daemon, what they print, and how they end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli.run import Hive
from each import for_each

from hive_core.cli.main import run
from hive_core.errors import (
    AlreadyExists,
    Busy,
    Conflict,
    Expired,
    HiveError,
    InboxFull,
    Internal,
    InvalidArgument,
    InvalidParameter,
    LimitReached,
    MethodNotFound,
    NotAllowed,
    NotFound,
    NotRunning,
    StorageFull,
)  # fmt: skip
from hive_core.varlink import Message

DONE: Message = {"id": "j1", "operation": "", "state": "done", "error": ""}


def refusing(error: HiveError) -> object:
    def answer(_: Message) -> Message:
        raise error

    return answer


@for_each("error, status", [
    (NotRunning("x"), 3), (NotFound("x"), 4), (NotAllowed("x"), 5), (InvalidParameter("x"), 2),
    (InvalidArgument("x", field="y"), 2), (LimitReached("x"), 75), (InboxFull("x"), 75),
    (StorageFull("x"), 75), (Busy("x"), 75), (Conflict("x"), 1), (AlreadyExists("x"), 1),
    (Expired("x"), 1), (Internal("x"), 1),
])  # fmt: skip
def test_each_error_has_its_exit_status_and_line(hive: Hive, error: HiveError, status: int) -> None:
    hive.peer.answers["Send"] = refusing(error)  # type: ignore[assignment]
    done = hive("send", "bob", "hello")
    assert done.status == status
    assert done.out == ""
    assert done.err.startswith("hive: ")
    assert "x" in done.err


def test_a_missing_daemon_exits_with_69_and_names_the_next_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["--socket", str(tmp_path / "none"), "tree"]) == 69
    assert "is hived running?" in capsys.readouterr().err


def test_wrong_usage_exits_with_2(hive: Hive) -> None:
    assert hive("send", "bob").status == 2
    assert hive("tree", "-o", "yaml").status == 2


def test_an_unknown_command_suggests_one(hive: Hive) -> None:
    done = hive("statsu")
    assert done.status == 2
    assert "did you mean status" in done.err


def test_a_command_unlike_any_other_points_to_the_list(hive: Hive) -> None:
    assert "no command 'zzzz'; `hive --help` lists them" in hive("zzzz").err


def test_an_unknown_agent_suggests_one(hive: Hive) -> None:
    hive.peer.answers["Stop"] = refusing(NotFound("no such agent: alise"))  # type: ignore[assignment]
    done = hive("stop", "alise")
    assert done.status == 4
    assert done.err == "hive: no such agent: alise; did you mean alice?\n"


def test_tree_prints_json_lines_and_names(hive: Hive) -> None:
    (root,) = json.loads(hive("tree", "-o", "json").out)
    assert root["children"][0]["children"][0]["name"] == "bob"
    assert hive("tree", "-o", "name").out == "root\nalice\nbob\n"
    lines = hive("tree", "-o", "jsonl").out.splitlines()
    assert [json.loads(line)["name"] for line in lines] == ["root", "alice", "bob"]


def test_create_waits_until_the_agent_runs_and_passes_its_command(hive: Hive) -> None:
    hive.peer.answers["Spawn"] = lambda _: {"name": "carol", "uuid": "u", "job": "j1"}
    hive.peer.answers["WaitJob"] = lambda _: DONE
    done = hive("agent", "create", "carol", "--parent", "bob", "--role", "worker", "--limit",
                "memory_max=64M", "--", "sleep", "--help", "1000")  # fmt: skip
    assert done.status == 0
    (asked,) = hive.peer.params_of("Spawn")
    key = asked.pop("idempotency_key")
    assert isinstance(key, str)
    assert asked == {
        "name": "carol", "parent": "bob", "role": "worker", "limits": {"memory_max": 64 << 20},
        "command": ["sleep", "--help", "1000"],
    }  # fmt: skip
    assert hive.peer.params_of("WaitJob")


def test_a_new_agent_that_ends_at_once_says_why(hive: Hive) -> None:
    end: Message = {"code": 127, "output": "first\nenv: 'prog': No such file\x1b", "reason": "x"}
    hive.peer.answers["Spawn"] = lambda _: {"name": "carol", "uuid": "u", "job": "j1"}
    hive.peer.answers["WaitJob"] = lambda _: {
        **DONE, "state": "failed", "error": "Conflict: carol ended with 127"
    }  # fmt: skip
    hive.peer.answers["GetAgent"] = lambda _: {"name": "carol", "last_end": end}
    done = hive("agent", "create", "carol", "--", "prog")
    assert done.status == 1
    named, wrote, hint, error = done.err.splitlines()
    assert (named, wrote) == ("carol is u", "carol wrote: env: 'prog': No such file⟨U+001B⟩")
    assert "a script with --file, or copy the program with `hive cp`" in hint
    assert error == "hive: carol ended with 127"
    end["code"] = 3
    assert len(hive("agent", "create", "carol", "--", "prog").err.splitlines()) == 3
    del hive.peer.answers["GetAgent"]
    assert hive("agent", "create", "carol").err.splitlines()[1:] == ["hive: carol ended with 127"]


def test_no_wait_returns_at_once(hive: Hive) -> None:
    hive.peer.answers["Spawn"] = lambda _: {"name": "carol", "uuid": "u", "job": "j1"}
    assert hive("agent", "create", "carol", "--no-wait").status == 0
    assert not hive.peer.params_of("WaitJob")


def test_a_failed_job_fails_the_command(hive: Hive) -> None:
    hive.peer.answers["Start"] = lambda _: {"agents": ["bob"], "job": "j1"}
    hive.peer.answers["WaitJob"] = lambda _: {**DONE, "state": "failed", "error": "no such image"}
    done = hive("start", "bob")
    assert done.status == 1
    assert "no such image" in done.err


def test_a_failed_job_exits_with_its_own_error(hive: Hive) -> None:
    hive.peer.answers["Start"] = lambda _: {"agents": ["bob"], "job": "j1"}
    why = "NotRunning: bob ended with 1"
    hive.peer.answers["WaitJob"] = lambda _: {**DONE, "state": "failed", "error": why}
    done = hive("start", "bob")
    assert (done.status, done.err) == (3, "hive: bob ended with 1\n")


@for_each("error, line", [
    (InvalidArgument("must be at least 16", field="memory_max"), "memory_max: must be at least 16"),
    (InvalidArgument("no image x", field="image"), "no image x"),
    (InvalidParameter("agent"), "parameter 'agent' does not fit"),
    (InvalidParameter("steps.2.title", "expected text, not 5"),
     "parameter 'steps.2.title' does not fit: expected text, not 5"),
    (MethodNotFound("org.hive.Broker.Fly"), "no method org.hive.Broker.Fly"),
])  # fmt: skip
def test_errors_are_whole_sentences(hive: Hive, error: HiveError, line: str) -> None:
    hive.peer.answers["Send"] = refusing(error)  # type: ignore[assignment]
    assert hive("send", "bob", "hello").err == f"hive: {line}\n"


def test_destroy_in_a_script_needs_yes(hive: Hive, monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/null").open() as nobody:
        monkeypatch.setattr("sys.stdin", nobody)
        done = hive("destroy", "bob")
    assert done.status == 2
    assert "--yes" in done.err
    assert not hive.peer.params_of("Destroy")


def test_restore_takes_a_name_unless_it_is_ambiguous(hive: Hive) -> None:
    result = [("u1", "bob"), ("u2", "carl"), ("u3", "carl")]
    rows: list[object] = [{"id": uuid, "name": name} for uuid, name in result]
    hive.peer.answers["ListArchives"] = lambda _: {"archives": rows}
    hive.peer.answers["Restore"] = lambda _: {"name": "bob", "uuid": "u1", "job": "j1"}
    hive.peer.answers["WaitJob"] = lambda _: DONE
    assert [hive("restore", word).status for word in ("bob", "u2", "dan")] == [0, 0, 0]
    assert [asked["id"] for asked in hive.peer.params_of("Restore")] == ["u1", "u2", "dan"]
    assert hive("restore", "carl").status == 2


def test_stop_takes_several_names_and_a_grace_of_zero(hive: Hive) -> None:
    hive.peer.answers["Stop"] = lambda _: {"agents": [], "job": "j1"}
    hive.peer.answers["WaitJob"] = lambda _: DONE
    assert hive("stop", "alice", "bob", "--grace", "0", "--recursive").status == 0
    asked = hive.peer.params_of("Stop")
    assert [parameters["agent"] for parameters in asked] == ["alice", "bob"]
    assert all(parameters["grace"] == 0 and parameters["recursive"] is True for parameters in asked)


def test_sleep_takes_a_grace_and_resume_a_message(hive: Hive) -> None:
    """K13."""
    for method in ("Sleep", "Resume"):
        hive.peer.answers[method] = lambda _: {"agents": ["alice"], "job": "j1", "message": None}
    hive.peer.answers["WaitJob"] = lambda _: DONE
    assert hive("sleep", "alice", "--grace", "2.5").status == 0
    assert hive("resume", "alice", "--body", "go on").status == 0
    assert hive.peer.params_of("Sleep")[0]["grace"] == 2.5
    assert hive.peer.params_of("Resume")[0]["body"] == "go on"


def test_a_move_to_no_parent_makes_a_root(hive: Hive) -> None:
    hive.peer.answers["Move"] = lambda _: {"job": "j1", "restarts": [], "ended": []}
    hive.peer.answers["WaitJob"] = lambda _: DONE
    assert hive("move", "bob", "--parent", "").status == 0
    assert hive.peer.params_of("Move")[0]["parent"] == ""


def test_a_dry_run_of_move_shows_restarts_and_changes_nothing(hive: Hive) -> None:
    hive.peer.answers["Move"] = lambda _: {"job": None, "restarts": ["bob"], "ended": []}
    done = hive("move", "bob", "--parent", "root", "--dry-run")
    assert done.out == "restarts  bob\n"
    assert hive.peer.params_of("Move")[0]["dry_run"] is True


def test_converge_shows_findings_that_it_only_reports(hive: Hive) -> None:
    hive.peer.answers["Converge"] = lambda _: {"steps": [], "drift": ["node deadbeef"]}
    done = hive("converge", "--dry-run")
    assert (done.status, done.out) == (0, "")
    assert done.err.splitlines()[-1] == "drift: node deadbeef"


def test_why_ends_with_the_verdict(hive: Hive) -> None:
    verdict: Message = {"allowed": False, "rule": "an ancestor", "reason": "not your descendant",
                        "chain": ["alice", "root"], "commit": "abc"}  # fmt: skip
    hive.peer.answers["Why"] = lambda _: verdict
    done = hive("why", "bob", "get-logs", "alice")
    assert done.status == 5
    assert done.out.splitlines()[0] == "refused"
    assert "alice -> root" in done.out
    assert hive.peer.params_of("Why")[0] == {
        "caller": "bob", "operation": "get_logs", "target": "alice",
    }  # fmt: skip
    assert json.loads(hive("why", "bob", "get_logs", "alice", "-o", "json").out) == verdict
    hive.peer.answers["Why"] = lambda _: {**verdict, "allowed": True, "reason": ""}
    allowed = hive("why", "operator", "stop", "alice")
    assert (allowed.status, allowed.out.splitlines()[0]) == (0, "allowed")


def test_wait_takes_names_and_a_state_in_any_order(hive: Hive) -> None:
    agents = [{"name": "alice", "state": "running"}]
    hive.peer.answers["WaitAgents"] = lambda _: {"agents": agents, "done": True}
    for words in (("alice", "--for", "running"), ("--for", "state=running", "alice")):
        done = hive("wait", *words)
        assert (done.status, done.out) == (0, "alice running\n")
    assert hive.peer.params_of("WaitAgents")[1]["states"] == ["running"]


def test_a_wait_that_times_out_exits_with_124(hive: Hive) -> None:
    agents = [{"name": "alice", "state": "running"}]
    hive.peer.answers["WaitAgents"] = lambda _: {"agents": agents, "done": False}
    done = hive("wait", "alice", "--for", "stopped", "--timeout", "0.05")
    assert done.status == 124
    assert "alice stopped; now alice running" in done.err


def test_an_unknown_state_is_wrong_usage(hive: Hive) -> None:
    assert hive("wait", "alice", "--for", "happy").status == 2


def test_listings_follow_pages(hive: Hive) -> None:
    def page(params: Message) -> Message:
        first = params.get("after") is None
        return {"events": [{"seq": 1 if first else 2}], "next": "1" if first else None}

    hive.peer.answers["ListEvents"] = page
    lines = hive("events", "-o", "jsonl").out.splitlines()
    assert [json.loads(line)["seq"] for line in lines] == [1, 2]


def test_last_counts_only_events_of_the_given_kind(hive: Hive) -> None:
    """The daemon's `last` counts events of all kinds."""
    hive.peer.answers["ListEvents"] = lambda _: {"events": [{"seq": n} for n in (1, 5, 9)]}
    lines = hive("events", "--kind", "refusal", "-n", "2", "-o", "jsonl").out.splitlines()
    assert [json.loads(line)["seq"] for line in lines] == [5, 9]
    assert "last" not in hive.peer.params_of("ListEvents")[0]


def test_followed_logs_are_printed_live(hive: Hive) -> None:
    line = {"time": 0.0, "unit": "hive-agent@bob.service", "text": "hello\x1b[2J"}
    hive.peer.answers["GetLogs"] = lambda _: [{"lines": [line]}, {"lines": [line]}]
    done = hive("logs", "bob", "-f")
    assert done.out.count("hive-agent@bob.service: hello⟨U+001B⟩[2J") == 2


def test_json_on_a_terminal_is_harmless_and_equal(hive: Hive) -> None:
    said = {"messages": [{"id": "1", "body": "\x9b2J\u202e"}], "next": None}
    hive.peer.answers["ListMessages"] = lambda _: dict(said)
    text = hive("inbox", "-o", "json").out
    assert "\x9b" not in text
    assert json.loads(text) == said["messages"]


def test_a_lost_connection_is_reopened_and_the_call_repeated_with_its_key(hive: Hive) -> None:
    def hang_up(_: Message) -> Message:
        hive.peer.answers["Send"] = lambda _: {"id": "m1"}
        raise KeyError("Send")

    hive.peer.answers["Send"] = hang_up
    assert hive("send", "bob", "hello").out == "m1\n"
    first, second = hive.peer.params_of("Send")
    assert first["idempotency_key"] == second["idempotency_key"]


def test_only_root_may_enter_a_container(hive: Hive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    for words in (("shell", "bob"), ("call", "org.hive.Broker.Whoami", "--as", "bob")):
        done = hive(*words)
        assert done.status == 5
        assert "only root" in done.err
    assert not hive.peer.calls


def test_the_cause_of_a_wake_is_shown_beside_self(hive: Hive) -> None:
    row: Message = {"id": "m1", "sent_at": 1.0, "from": "bob", "relation": "self", "body": "x"}
    rows: list[object] = [{**row, "source": "forge"}, {**row, "source": None}]
    hive.peer.answers["ListMessages"] = lambda _: {"messages": rows, "next": None}
    first, second = hive("inbox", "bob").out.splitlines()[1:]
    assert "self (forge)" in first
    assert "(" not in second
    assert json.loads(hive("inbox", "bob", "-o", "json").out) == rows


def test_only_the_operators_own_inbox_is_consumed(hive: Hive) -> None:
    hive.peer.answers["Ack"] = lambda asked: {"acked": int(asked["ids"] != ["xyz"])}
    assert hive("inbox", "--done", "m1", "--done", "m2").err == "taken out: 2\n"
    assert hive.peer.params_of("Ack") == [{"ids": ["m1"]}, {"ids": ["m2"]}]
    wrong = hive("inbox", "--done", "m1", "--done", "xyz")
    assert (wrong.status, wrong.out) == (4, "")
    assert wrong.err.startswith("taken out: 1\nhive: cannot remove xyz: your inbox")
    assert hive("inbox", "bob", "--done", "m1").status == 2
