"""A noun alone lists what there is, or says in short what can be done; all groups do the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import click
from cli.run import Hive
from each import for_each

from hive_core.cli.core.lazy import Group, ListGroup, NameListGroup
from hive_core.cli.main import hive as the_command
from hive_core.varlink import Message


def groups(group: click.Group, *before: str) -> Iterator[tuple[tuple[str, ...], click.Group]]:
    """Each group below, with the words that lead to it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield (*before, name), command
            yield from groups(command, *before, name)


def names(group: click.Group) -> list[str]:
    return group.list_commands(click.Context(group))


GROUPS = dict(groups(the_command))
LISTS = sorted(words for words, group in GROUPS.items() if isinstance(group, ListGroup))
# In the others a word that is no command is a name: `hive inbox alice`.
STRICT = [words for words, group in GROUPS.items() if not isinstance(group, NameListGroup)]
# These list files of the host, and do not ask the daemon.
LOCAL = {("model", "key"), ("runtime",)}
# What they close or destroy, they also remove.
CLOSING = {("agent",), ("budget",), ("queue",)}
OTHERS = sorted(GROUPS.keys() - set(LISTS))


def test_every_group_is_of_the_same_kind() -> None:
    assert len(LISTS) > 9
    assert all(isinstance(group, Group) for group in GROUPS.values())
    assert OTHERS == [("config",), ("phase",), ("session",), ("web",)], (
        "what can be listed is a ListGroup"
    )


@for_each("words", LISTS)
def test_a_noun_alone_lists(hive: Hive, words: tuple[str, ...]) -> None:
    hive.peer.calls.clear()
    hive.peer.answers = defaultdict(lambda: lambda _: Message())
    for more in ((), ("-o", "jsonl"), ("ls",), ("list",)):
        assert (hive(*words, *more).status, more) == (0, more)
    asked = [method for method, _ in hive.peer.calls]
    assert len(asked) == (0 if words in LOCAL else 4)
    assert len(set(asked)) <= 1
    command = " ".join(("hive", *words))
    text = " ".join(hive(*words, "--help").out.split())
    assert f"Without a command, {command} is {command} list." in text


@for_each("words", OTHERS)
def test_a_noun_without_a_list_shows_its_commands(hive: Hive, words: tuple[str, ...]) -> None:
    done = hive(*words)
    assert (done.status, done.out) == (2, "")
    for name in names(GROUPS[words]):
        assert f"  {name} " in done.err
    assert not hive.peer.calls


@for_each("words", STRICT)
def test_a_word_close_to_a_command_suggests_it(hive: Hive, words: tuple[str, ...]) -> None:
    for name in names(GROUPS[words]):
        done = hive(*words, name[:1] + name)
        assert done.status == 2
        assert f"did you mean {name}" in done.err


@for_each("words", STRICT)
def test_a_word_unlike_any_command_lists_them_all(hive: Hive, words: tuple[str, ...]) -> None:
    done = hive(*words, "zzzz")
    assert done.status == 2
    known = names(GROUPS[words])
    every = f"; there are {', '.join(known)}" if len(known) <= 12 else "; `hive agent --help` lists"
    assert f"no command 'zzzz'{every}" in done.err
    assert not hive.peer.calls


def commands(group: click.Group, *before: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Each command below that is no group, with its words."""
    for name in names(group):
        command = group.get_command(click.Context(group), name)
        if isinstance(command, click.Group):
            yield from commands(command, *before, name)
        elif command is not None:
            yield (*before, name), command


# Their last argument stands for the one before it: the form of older releases.
TWO_FORMS = {("plan", "approve"), ("plan", "reject")}


@for_each("words, command", [*commands(the_command)])
def test_an_argument_that_may_be_left_out_stands_in_brackets(
    words: tuple[str, ...], command: click.Command
) -> None:
    arguments = [param for param in command.params if isinstance(param, click.Argument)]
    optional = [param for param in arguments if not param.required and words not in TWO_FORMS]
    assert [row.metavar for row in optional if not (row.metavar or "[").startswith("[")] == []


@for_each("words, group", GROUPS.items())
def test_rm_removes_or_ends_wherever_something_can_be_removed_or_ended(
    words: tuple[str, ...], group: click.Group
) -> None:
    ways = {"rm", "remove", "end", "cancel", "clear", "revoke"} & {*names(group)}
    removing = group.get_command(click.Context(group), "rm")
    assert (removing is not None) == bool(ways) or words in CLOSING, ways


def test_plan_alone_lists_pending_plans(hive: Hive) -> None:
    waits: Message = {"tasks": [{"id": "t1"}, {"id": "t2"}]}
    hive.peer.answers["ListTasks"] = lambda _: dict(waits)
    hive.peer.answers["ListPlans"] = lambda asked: {
        "plans": [{"plan": f"new-{asked['task']}"}, {"plan": f"old-{asked['task']}"}]
    }
    assert hive("plan", "-o", "name").out == "new-t1\nnew-t2\n"
    assert hive.peer.params_of("ListTasks") == [{"state": "awaiting_plan_approval", "open": True}]
    assert hive("plan", "list", "t1", "-o", "name").out == "new-t1\nold-t1\n"


def test_secret_alone_lists_the_secrets_of_all_agents(hive: Hive) -> None:
    hive.peer.answers["ListSecrets"] = lambda asked: {
        "secrets": [{"agent": asked["agent"], "key": "KEY", "readable": True}]
    }
    lines = hive("secret").out.splitlines()
    assert [line.split() for line in lines[1:]] == [
        [name, "KEY", "yes", "-", "-", "-"] for name in ("root", "alice", "bob")
    ]


@for_each("words", [(), *GROUPS])
def test_no_sentence_of_a_help_is_cut(hive: Hive, words: tuple[str, ...]) -> None:
    lines = hive(*words, "--help").out.splitlines()
    assert [line for line in lines if line.endswith("...") and line.startswith(" ")] == []
