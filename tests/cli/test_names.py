"""Both forms of the commands, aliases of other programs, names of older releases, and help."""

from __future__ import annotations

import re
from collections import defaultdict

import click
from cli.run import Hive
from each import for_each

from hive_core import VERSION
from hive_core.cli.agents.agent import agent as the_group
from hive_core.cli.core.lazy import Group
from hive_core.cli.main import COMMANDS, COMMON, UNLISTED
from hive_core.cli.main import hive as the_command
from hive_core.varlink import Message

CONTEXT = click.Context(the_command, info_name="hive")
ID = "a" * 12
VERBS = sorted(set(the_group.list_commands(CONTEXT)) & COMMANDS.keys())


@for_each("verb", VERBS)
def test_agent_commands_have_both_forms(verb: str) -> None:
    assert the_group.get_command(CONTEXT, verb) is the_command.get_command(CONTEXT, verb)


def test_both_forms_of_stop_make_the_same_call(hive: Hive) -> None:
    hive.peer.answers["Stop"] = lambda _: {"agents": ["bob"]}
    assert hive("stop", "bob").status == hive("agent", "stop", "bob").status == 0
    first, second = hive.peer.params_of("Stop")
    assert first["agent"] == second["agent"] == "bob"


@for_each("words, method", [
    (("ls",), "ListAgents"), (("ps",), "ListAgents"), (("top",), "WatchAgents"),
    (("rm", "bob", "--yes"), "Destroy"), (("agent", "rm", "bob", "--yes"), "Destroy"),
    (("queue", "rm", "bob/q"), "CloseQueue"), (("task", "rm", ID), "CancelTask"),
    (("question", "rm", ID), "CancelQuestion"), (("trigger", "rm", ID), "RemoveTrigger"),
    (("reminder", "rm", ID), "CancelReminder"), (("reminder", "cancel", ID), "CancelReminder"),
    (("budget", "rm", "bob", "money"), "AllocateBudget"),
    (("cap", "rm", "bob", "spawn"), "RevokeCapability"), (("approval", "ls"), "ListApprovals"),
])  # fmt: skip
def test_aliases_run_the_expected_commands(hive: Hive, words: tuple[str, ...], method: str) -> None:
    hive.peer.calls.clear()
    reply: Message = {"left": 0, "kind": "money", "agent": "bob", "spent": 0, "synced": True}
    hive.peer.answers = defaultdict(lambda: lambda _: dict(reply))
    assert hive(*words).status == 0
    assert [name for name, _ in hive.peer.calls if name != "MetaLog"] == [method]


# What scripts of older releases call.
OLD = [
    (("approvals",), "ListApprovals"), (("approvals", "list", "--all"), "ListApprovals"),
    (("approvals", "deny", ID, "--why", "no"), "Deny"), (("escalations", "--all"), "ListQuestions"),
    (("reminders", "bob"), "ListReminders"), (("reminders", "--cancel", ID), "CancelReminder"),
    (("tools", "bob"), "ListTools"), (("inbox", "bob", "--dead"), "ListMessages"),
    (("inbox", "--dead"), "ListMessages"), (("plan", "approve", ID, "b" * 12), "ApprovePlan"),
    (("plan", "reject", ID, "b" * 12, "no"), "RejectPlan"),
    (("restore", "-o", "json"), "ListArchives"),
]  # fmt: skip


@for_each("words, method", OLD)
def test_names_of_older_releases_still_work(
    hive: Hive, words: tuple[str, ...], method: str
) -> None:
    hive.peer.calls.clear()
    hive.peer.answers = defaultdict(lambda: lambda _: Message())
    assert hive(*words).status == 0
    assert {name for name, _ in hive.peer.calls} == {method}


def test_no_help_lists_hidden_commands(hive: Hive) -> None:
    shown = hive("help", "--all").out
    for name in UNLISTED:
        assert f"\n  {name} " not in shown


def test_the_short_help_has_ten_commands_and_points_to_the_rest(hive: Hive) -> None:
    shown = hive("--help").out
    assert len(COMMON.split()) == 10
    first = [line.split()[0] for line in shown.splitlines() if re.match("  [a-z]", line)]
    assert [word for word in first if word in COMMANDS] == COMMON.split()
    assert "hive help --all" in shown


def test_help_shows_the_help_of_a_command(hive: Hive) -> None:
    assert hive("help", "agent", "stop").out == hive("agent", "stop", "--help").out
    assert hive("help").out == hive("--help").out
    wrong = hive("help", "agent", "stopp")
    assert wrong.status == 2
    assert "did you mean stop" in wrong.err


def test_the_version_is_printed(hive: Hive) -> None:
    assert hive("version").out == f"hive {VERSION}\n" == hive("--version").out


def test_every_noun_is_singular_and_lists() -> None:
    nouns = [name for name in the_command.list_commands(CONTEXT)
             if isinstance(the_command.get_command(CONTEXT, name), Group)]  # fmt: skip
    assert not [noun for noun in nouns if noun.endswith("s")]


def test_a_plan_is_approved_and_rejected_by_its_id(hive: Hive) -> None:
    hive.peer.answers["GetPlan"] = lambda _: {"plan": "p1", "task": "t1"}
    hive.peer.answers["ApprovePlan"] = lambda _: {"agent": "bob"}
    hive.peer.answers["RejectPlan"] = lambda _: {"agent": "bob"}
    assert hive("plan", "approve", "p1").status == 0
    assert hive("plan", "reject", "p1", "too long").status == 0
    (approved,), (rejected,) = hive.peer.params_of("ApprovePlan"), hive.peer.params_of("RejectPlan")
    assert (approved["task"], approved["plan"]) == ("t1", "p1")
    assert (rejected["task"], rejected["plan"], rejected["reason"]) == ("t1", "p1", "too long")
    assert hive("plan", "approve").status == 2
    assert hive("plan", "reject", "p1").status == 2
