"""`hive logs`, `events`, `inbox`, `tree` and `status`: what they show; what a shell completes."""

from __future__ import annotations

import io
import json
import os

import pytest
from cli.run import Hive
from each import for_each
from typing_extensions import override

from hive_core.cli.core.watch import redraw
from hive_core.cli.host.todo import age
from hive_core.errors import NotFound
from hive_core.varlink import Message

# hive logs


def lines(asked: Message) -> Message:
    start = {"alice": 1.0, "bob": 2.0}.get(str(asked["agent"]), 9.0)
    rows: list[object] = [
        {"time": start + at, "unit": f"hive-agent@{asked['agent']}.service",
         "text": f"{asked['agent']} {at}"}
        for at in (0.0, 10.0)
    ]  # fmt: skip
    return {"lines": rows, "next": "x"}


def test_logs_of_several_agents_are_sorted_by_time(hive: Hive) -> None:
    hive.peer.answers["GetLogs"] = lines
    shown = hive("logs", "bob", "alice").out.splitlines()
    assert [line.split(" ", 2)[2] for line in shown] == [
        "alice: alice 0.0", "bob: bob 0.0", "alice: alice 10.0", "bob: bob 10.0",
    ]  # fmt: skip
    assert [asked["lines"] for asked in hive.peer.params_of("GetLogs")] == [10, 10]
    assert len(hive("logs", "bob", "alice", "-n", "3").out.splitlines()) == 3


def test_logs_need_a_name_or_all(hive: Hive) -> None:
    hive.peer.answers["GetLogs"] = lines
    rows = [json.loads(line) for line in hive("logs", "--all", "-o", "jsonl").out.splitlines()]
    assert {row["agent"] for row in rows} == {"root", "alice", "bob"}
    assert hive("logs").status == 2


def test_logs_of_one_agent_keep_the_order_of_the_daemon(hive: Hive) -> None:
    hive.peer.answers["GetLogs"] = lines
    assert json.loads(hive("logs", "bob", "-o", "json").out) == lines({"agent": "bob"})["lines"]
    assert "hive-agent@bob.service: bob 0.0" in hive("logs", "bob").out


def test_logs_of_several_agents_are_followed(hive: Hive) -> None:
    hive.peer.answers["GetLogs"] = lambda asked: [lines(asked)]
    done = hive("logs", "bob", "alice", "-f")
    # The twin hangs up after its page, where the daemon goes on.
    assert {line.split(" ", 2)[2] for line in done.out.splitlines()} <= {
        "alice: alice 0.0", "bob: bob 0.0", "alice: alice 10.0", "bob: bob 10.0",
    }  # fmt: skip


# hive events


def event(seq: int, operation: str, allowed: bool = True) -> Message:  # noqa: FBT001, FBT002 - a field
    return {"seq": seq, "time": 1.0, "kind": "record", "caller": "bob", "operation": operation,
            "target": "", "allowed": allowed, "reason": ""}  # fmt: skip


EVENTS = [event(seq, "ack" if seq % 2 else "send") for seq in range(1, 101)]


@pytest.fixture
def log(hive: Hive) -> Hive:
    def answer(asked: Message) -> Message:
        last = asked.get("last")
        rows = EVENTS[-last:] if isinstance(last, int) else EVENTS
        rows = [] if asked.get("after") == "100" else rows
        return {"events": list(rows), "next": None}

    hive.peer.answers["ListEvents"] = answer
    return hive


def sequence(text: str) -> list[int]:
    return [int(line.split()[0]) for line in text.splitlines()[1:]]


def test_tables_of_events_omit_ack_and_hello_by_default(log: Hive) -> None:
    assert sequence(log("events").out) == [*range(2, 101, 2)]
    assert len(sequence(log("events", "--all").out)) == 100
    assert len(sequence(log("events", "--kind", "record").out)) == 100
    assert len(log("events", "-o", "jsonl").out.splitlines()) == 100


def test_a_refused_ack_is_shown(log: Hive) -> None:
    refused: list[object] = [event(1, "ack", allowed=False)]
    log.peer.answers["ListEvents"] = lambda _: {"events": refused, "next": None}
    assert sequence(log("events").out) == [1]


def test_a_table_of_events_names_the_thing_of_which_an_event_tells(log: Hive) -> None:
    rows: list[object] = [
        {**event(1, "approve"), "target": "ann", "fields": {"approval": "5-1a2b"}},
        {**event(2, "deny"), "fields": {"approval": "5-1a2b"}},
        {**event(3, "set_definition"), "fields": {"definition": "lead"}},
    ]
    log.peer.answers["ListEvents"] = lambda asked: {
        "events": [] if asked.get("after") == "3" else rows, "next": None
    }  # fmt: skip
    of_agent, of_all, of_definition = log("events").out.splitlines()[1:]
    assert "  ann (approval 5-1a2b)  allowed" in of_agent
    assert " approval 5-1a2b " in of_all
    assert " definition lead " in of_definition
    assert "bob approve ann (approval 5-1a2b) allowed" in log("events", "-f").out
    assert json.loads(log("events", "-o", "jsonl").out.splitlines()[0])["target"] == "ann"


def test_last_counts_only_shown_events(log: Hive) -> None:
    assert sequence(log("events", "-n", "5").out) == [92, 94, 96, 98, 100]
    assert log("events", "-n", "5", "-o", "name").out.split() == ["96", "97", "98", "99", "100"]
    assert sequence(log("events", "-n", "80").out) == [*range(2, 101, 2)]


def test_following_starts_with_the_newest_ten_events(log: Hive) -> None:
    done = log("events", "-f")
    assert len(done.out.splitlines()) == 10
    followed = log.peer.params_of("ListEvents")[-1]
    assert followed["after"] == "100"


# hive inbox

LETTER: Message = {"id": "m1", "sent_at": 1.0, "from": "bob", "relation": "child", "to": "operator",
                   "kind": "report", "thread": "m1", "reply_to": None, "priority": 2,
                   "body": "line one\nline\x1b two", "source": None, "dead_why": None}  # fmt: skip


@pytest.fixture
def mail(hive: Hive) -> Hive:
    def letters(asked: Message) -> Message:
        if asked.get("archived"):
            gone = {**LETTER, "id": "g1", "to": "ann", "dead_why": "destroyed", "archived": "u1"}
            return {"messages": [gone], "next": None}
        dead: list[object] = [{**LETTER, "id": "d1", "dead_why": "5 attempts"}]
        return {"messages": dead if asked.get("dead") else [LETTER], "next": None}

    hive.peer.answers["ListMessages"] = letters
    hive.peer.answers["Ack"] = lambda asked: {"acked": len(asked["ids"])}  # type: ignore[arg-type]
    return hive


def test_messages_and_dead_letters_are_shown_whole(mail: Hive) -> None:
    shown = mail("inbox", "show", "m1").out
    for text in ("from       bob (child)", "kind       report", "│ line one\n│ line⟨U+001B⟩ two"):
        assert text in shown
    assert "dead       5 attempts" in mail("inbox", "show", "d1", "--agent", "bob").out
    assert json.loads(mail("inbox", "show", "m1", "-o", "json").out) == LETTER
    assert mail("inbox", "show", "x").status == 4


@pytest.mark.parametrize(("relation", "is_shown"), [("daemon", False), ("child", True)])
def test_the_list_leaves_out_the_line_for_programs_of_the_daemon_alone(
    mail: Hive, relation: str, *, is_shown: bool
) -> None:
    row = {**LETTER, "relation": relation, "body": '{"question": "q1"}\nbob asks:\n> Red?'}
    mail.peer.answers["ListMessages"] = lambda _: {"messages": [row], "next": None}
    text = mail("inbox").out
    assert "bob asks:" in text
    assert ('{"question"' in text) is is_shown
    assert json.loads(mail("inbox", "-o", "json").out) == [row]


def test_dead_letters_of_destroyed_agents_are_listed_behind_yours(mail: Hive) -> None:
    lines = mail("inbox", "--dead").out.splitlines()
    assert ["operator" in lines[1], "ann (destroyed)" in lines[2], len(lines)] == [True, True, 3]
    rows = json.loads(mail("inbox", "--dead", "-o", "json").out)
    assert [row.get("archived") for row in rows] == [None, "u1"]
    assert "destroyed" not in mail("inbox", "bob", "--dead").out
    shown = mail("inbox", "show", "g1").out
    assert "dead       destroyed" in shown
    assert "to         ann (destroyed)" in shown


@for_each("names", [[], ["bob"]])
def test_dead_letters_are_listed_with_their_age(mail: Hive, names: list[str]) -> None:
    head, row, *_ = mail("inbox", *names, "--dead").out.splitlines()
    assert "AGE" in head.split()
    assert row.split()[1] == age(1.0)


def test_who_finds_no_dead_letters_is_told_where_others_are(hive: Hive) -> None:
    hive.peer.answers["ListMessages"] = lambda _: {"messages": [], "next": None}
    assert "`hive todo` names the agents that have some" in hive("inbox", "--dead").err

    def no_agent(_: Message) -> Message:
        raise NotFound("no such agent: ann")

    hive.peer.answers["ListMessages"] = no_agent
    refused = hive("inbox", "ann", "--dead")
    assert refused.status == 4
    assert "no such agent: ann; `hive inbox --dead` also lists" in refused.err


def test_the_inbox_is_cleared_by_ids_or_entirely(mail: Hive) -> None:
    assert mail("inbox", "clear", "m1").err == "taken out: 1\n"
    assert mail("inbox", "clear", "--yes").err == "taken out: 1\n"
    assert [asked["ids"] for asked in mail.peer.params_of("Ack")] == [["m1"], ["m1"]]
    assert mail("inbox", "clear", "--agent", "bob").status == 2


def test_dead_letters_are_cleared_until_there_are_none(mail: Hive) -> None:
    left = [1000, 3, 0]
    mail.peer.answers["ClearDeadLetters"] = lambda _: {"cleared": left.pop(0)}
    cleared = mail("inbox", "clear", "--dead", "--agent", "bob", "--yes")
    assert cleared.err == "dead letters deleted: 1003\n"
    assert {asked["agent"] for asked in mail.peer.params_of("ClearDeadLetters")} == {"bob"}
    assert mail("inbox", "clear", "--dead", "m1").status == 2


@pytest.mark.parametrize(("name", "whose"), [("bob", "of bob"), ("", "of your inbox")])
def test_only_the_dead_letters_that_were_counted_are_deleted(
    mail: Hive, monkeypatch: pytest.MonkeyPatch, name: str, whose: str
) -> None:
    """A message that dies while the person thinks was in no number that was shown."""
    owners = [("dead_letters", "bob", "7"), ("dead_letters", "operator", "8"), ("mail", "bob", "9")]
    rows = [{"kind": kind, "id": id_, "as_of": as_of} for kind, id_, as_of in owners]
    mail.peer.answers["Todo"] = lambda _: {"todo": rows, "more": 0}
    mail.peer.answers["ClearDeadLetters"] = lambda _: {"cleared": 0}
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    asked = mail("inbox", "clear", "--dead", *(["--agent", name] if name else []))
    assert f"Delete 1 dead letter {whose}?" in asked.err
    (params,) = mail.peer.params_of("ClearDeadLetters")
    assert params["as_of"] == ("7" if name else "8")


def test_dead_letters_are_not_deleted_without_a_word(
    mail: Hive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script says --yes; a person is asked, and may say no."""
    mail.peer.answers["ClearDeadLetters"] = lambda _: {"cleared": 0}
    mail.peer.answers["Todo"] = lambda _: {"todo": [], "more": 0}
    refused = mail("inbox", "clear", "--dead")
    assert (refused.status, "needs --yes" in refused.err) == (2, True)
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    assert mail("inbox", "clear", "--dead").status == 130
    assert not mail.peer.params_of("ClearDeadLetters")
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    assert mail("inbox", "clear", "--dead").status == 0
    assert mail.peer.params_of("ClearDeadLetters")


class Terminal(io.StringIO):
    """What a person types."""

    @override
    def isatty(self) -> bool:
        return True


# hive tree

TREE: list[object] = [
    {"name": name, "uuid": name, "parent": parent, "role": "agent", "title": "", "state": state,
     "activity": "idle"}
    for name, parent, state in (
        ("root", None, "running"), ("a", "root", "running"), ("a1", "a", "failed"),
        ("b", "root", "stopped"),
    )
]  # fmt: skip


def test_the_tree_is_cut_at_a_depth(hive: Hive) -> None:
    hive.peer.answers["ListAgents"] = lambda _: {"agents": TREE, "next": None}
    assert [line.split()[0] for line in hive("tree", "--depth", "0").out.splitlines()] == ["root"]
    shown = hive("tree", "--depth", "1").out
    assert "a (+1)" in shown
    assert "a1" not in shown
    assert hive("tree", "--depth", "1", "-o", "name").out.split() == ["root", "a", "b"]


def test_the_tree_shows_agents_of_a_state_with_their_ancestors(hive: Hive) -> None:
    hive.peer.answers["ListAgents"] = lambda _: {"agents": TREE, "next": None}
    assert hive("tree", "--state", "failed", "-o", "name").out.split() == ["root", "a", "a1"]
    both = hive("tree", "--state", "failed", "--state", "stopped", "-o", "name").out.split()
    assert both == ["root", "a", "a1", "b"]
    assert hive("tree", "--state", "parked").err == "no such agents\n"
    assert hive("tree", "--state", "happy").status == 2


def test_watch_redraws_the_screen_until_ctrl_c(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[int] = []

    def pause(_seconds: float) -> None:
        seen.append(1)
        if len(seen) == 3:
            raise KeyboardInterrupt

    redraw(lambda: [f"screen {len(seen)}"], pause)
    assert capsys.readouterr().out == "screen 0\nscreen 1\nscreen 2\n"


# hive status

STATUS: Message = {
    "commit": "c1", "refused": [], "agents": {"running": 2, "parked": 1}, "waiting": 3,
    "hived": {"version": "1.2", "since": 1.0}, "alarms": ["disk"],
    "failed": [{"agent": "bob", "state": "parked", "why": "ended with 3\x1b"}],
    "tasks": {"in_progress": 2, "queued": 4, "waiting": 1},
}  # fmt: skip


def test_status_summarizes_the_hive(hive: Hive) -> None:
    hive.peer.answers["Status"] = lambda _: STATUS
    hive.peer.answers["GetUsage"] = lambda _: {"currency": "USD", "sums": [
        {"key": "2026-11-23", "kind": "money", "source": "reported", "amount": 4_100_000},
        {"key": "2026-11-23", "kind": "tokens_in", "source": "reported", "amount": 1000},
    ]}  # fmt: skip
    shown = hive("status").out
    for text in (
        "hived    1.2, since 1970-01-01", "agents   1 parked, 2 running",
        "parked bob: ended with 3⟨U+001B⟩", "tasks    2 running, 4 queued, 1 waiting",
        "todo     3 waiting for you", "used     ~4.10 USD, ~1000 tokens today", "alarm    disk",
    ):  # fmt: skip
        assert text in shown, text
    assert "disk     " in shown
    whole = json.loads(hive("status", "-o", "json").out)
    assert whole["used"]["currency"] == "USD"
    assert [row["amount"] for row in whole["used"]["sums"]] == [4_100_000, 1000]
    assert whole["disk"] is None or whole["disk"]["total"] >= whole["disk"]["free"]
    assert {key: whole[key] for key in STATUS} == STATUS
    asked = hive.peer.params_of("GetUsage")[0]
    assert (asked["by"], float(str(asked["since"])) % 86_400) == ("day", 0)


def test_status_counts_one_thing_in_the_singular(hive: Hive) -> None:
    hive.peer.answers["Status"] = lambda _: {
        **STATUS,
        "quarantines": [{"agent": "bob", "agents": 1, "reason": ""}],
    }
    hive.peer.answers["GetUsage"] = lambda _: {"currency": "USD", "sums": [
        {"key": "2026-11-23", "kind": "messages", "source": "measured", "amount": 1},
    ]}  # fmt: skip
    shown = hive("status").out
    assert "used     1 message today (UTC)" in shown
    assert "held     bob is in quarantine, 1 agent in all" in shown


def test_status_of_an_empty_hive(hive: Hive) -> None:
    hive.peer.answers["Status"] = lambda _: {"agents": {}, "waiting": 0, "tasks": {}}
    hive.peer.answers["GetUsage"] = lambda _: {"currency": "USD", "sums": []}
    shown = hive("status").out
    assert "todo     nothing waiting for you" in shown
    assert "used     nothing today" in shown


def completions(hive: Hive, *words: str) -> list[str]:
    """What bash would offer for the last word."""
    from click.shell_completion import BashComplete  # noqa: PLC0415

    from hive_core.cli.main import hive as command  # noqa: PLC0415

    os.environ["HIVE_OPERATOR_SOCKET"] = hive.peer.path
    try:
        complete = BashComplete(command, {}, "hive", "_HIVE_COMPLETE")
        return [item.value for item in complete.get_completions(list(words[:-1]), words[-1])]
    finally:
        del os.environ["HIVE_OPERATOR_SOCKET"]


def test_ids_capabilities_conditions_and_names_are_completed(hive: Hive) -> None:
    answers = hive.peer.answers
    answers["ListTasks"] = lambda _: {"tasks": [{"id": "t1", "plan": ""}]}
    answers["ListPlans"] = lambda _: {"plans": [{"plan": "p1"}, {"plan": "p0"}]}
    answers["ListQuestions"] = lambda _: {"questions": [{"id": "q1"}]}
    answers["ListApprovals"] = lambda _: {"approvals": [{"id": "x1"}]}
    answers["GetAgent"] = lambda _: {"capabilities": ["spawn", "secret:KEY"]}
    answers["ListSecrets"] = lambda _: {"secrets": [{"key": "KEY"}]}
    answers["ListEvents"] = lambda _: {"events": [{"kind": "deploy"}, {"kind": "deploy"}]}
    for words, offered in (
        (("stop", "al"), ["alice"]), (("agent", "show", ""), ["root", "alice", "bob"]),
        (("task", "show", ""), ["t1"]), (("plan", "approve", ""), ["p1"]),
        (("question", "answer", "q"), ["q1"]), (("approval", "show", ""), ["x1"]),
        (("cap", "grant", "bob", "meta.r"), ["meta.read"]),
        (("cap", "revoke", "bob", "se"), ["secret:KEY"]), (("secret", "rm", "bob", ""), ["KEY"]),
        (("wait", "--for", "task.done="), ["task.done=t1"]),
        (("wait", "--for", "stoppe"), ["stopped"]),
        (("wait", "--for", "task"), ["task.done="]), (("events", "--kind", ""), ["deploy"]),
        (("agent", "create", "x", "--limit", "memory_m"), ["memory_max="]),
        (("cp", "al"), ["alice:"]), (("inbox", "al"), ["alice"]), (("inbox", "sh"), ["show"]),
        (("appr",), ["approval"]),
    ):  # fmt: skip
        assert completions(hive, *words) == offered, words


def test_completion_without_a_daemon_offers_nothing(hive: Hive) -> None:
    hive.peer.stop()
    assert completions(hive, "task", "show", "") == []
