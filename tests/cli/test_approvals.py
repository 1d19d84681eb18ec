"""hive approvals, history, rollback: what is asked of the daemon, and what the operator sees."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click
import pytest
from cli.run import Hive
from each import for_each
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_core.agent.layout import breadth
from hive_core.agent.output import plain
from hive_core.cli.config import approvals
from hive_core.cli.config.approval_page import BAR, GOES_ON, difference, page, quote
from hive_core.errors import Conflict, Expired, HiveError, NotAllowed
from hive_core.varlink import Message

ID, COMMIT, BASE = "0123456789ab", "1a" * 20, "2b" * 20
JOB: Message = {"id": "j1", "operation": "", "state": "done", "error": ""}
ROW: Message = {
    "id": ID, "kind": "config", "agent": "alice", "agent_uuid": "u", "requester": "bob",
    "requester_uuid": "v", "source": "bob", "state": "pending", "commit": COMMIT, "base": BASE,
    "effect": "restart", "message": "better words", "created": 1.0, "expires": 1e12,
    "decided": None, "decided_by": "", "ended": None, "reason": "", "job": "j1",
}  # fmt: skip
MARKS: list[object] = [
    {"kind": "capability", "name": "spawn", "before": "", "after": "new", "gives": True},
    {"kind": "limit", "name": "memory_max", "before": "1", "after": "2", "gives": True},
    {"kind": "capability", "name": "kill", "before": "held", "after": "taken", "gives": False},
    {"kind": "command", "name": "command", "before": "[]", "after": '["sh"]', "gives": True},
]


def line(text: str, sign: str = "+", *, part: bool = False, path: str = "a.md") -> Message:
    return {"path": path, "old": None, "new": 7, "sign": sign, "text": text, "part": part}


def approval_page(*lines: Message, after: str | None = None, **row: object) -> Message:
    return {
        "approval": {**ROW, **row}, "review": {"files": 3, "warnings": ["mixed script in a.md"]},
        "models": ["opus", "small"], "marks": list(MARKS), "lines": list(lines), "whole": True,
        "next": after,
    }  # fmt: skip


def answering(hive: Hive, *pages: Message) -> None:
    hive.peer.answers["GetApproval"] = lambda _: list(pages)


def test_pending_approvals_are_listed(hive: Hive) -> None:
    hive.peer.answers["ListApprovals"] = lambda _: {"approvals": [ROW], "next": None}
    for words in (("approvals",), ("approvals", "list")):
        done = hive(*words)
        assert done.status == 0
        assert all(text in done.out for text in (ID, "pending", "alice", "bob", COMMIT[:12]))
        assert "better words" not in done.out
    assert json.loads(hive("approvals", "list", "-o", "json").out) == [ROW]
    assert hive("approvals", "list", "-o", "name").out == f"{ID}\n"
    hive("approvals", "list", "--all")
    assert hive.peer.params_of("ListApprovals")[-1]["all"] is True


def test_the_page_has_requester_changes_marks_and_decision_commands(hive: Hive) -> None:
    answering(hive, approval_page(line("one"), after="9.0"), approval_page(line("two", "-")))
    done = hive("approvals", "show", ID)
    assert done.status == 0
    for text in (
        "asked by   bob, from the clone of bob", f"commit     {COMMIT}", f"instead of {BASE}",
        "effect     restart", "size       files 3", "models     opus, small",
        "! capability spawn (new)",
        "! limit memory_max (1 -> 2)", "- capability kill (taken)", '! command (new)\n│ ["sh"]',
        "│ better words", "│ mixed script", "│ === a.md", "│     7 + one", "│     7 - two",
        f"  hive approval approve {ID} --commit {COMMIT[:8]}",
        f"  git tag -s -m approved approve/{ID} {COMMIT}",
        f"  git push hive::alice approve/{ID}",
    ):  # fmt: skip
        assert text in done.out, text
    assert done.out.count("=== a.md") == 1


OLD, NEW = (f"github:NixOS/nixpkgs {digit * 40} 2026-0{digit}-02 sha256-{digit}" for digit in "12")
FOLLOWS: list[object] = [
    {"agent": "up", "effect": "switch"}, {"agent": "down", "effect": "restart"},
    {"agent": "off", "effect": "next start"}, {"agent": "fresh", "effect": "build"},
]  # fmt: skip


def of_inputs(*follows: object, more: int = 0, count: int | None = None) -> Message:
    """What is asked for is a lock, which differs in two inputs."""
    changes: list[object] = [
        {"input": "nixpkgs", "old": OLD, "new": NEW}, {"input": "utils", "old": "", "new": NEW},
    ]  # fmt: skip
    result = approval_page(line("nix", path="flake.lock"), kind="inputs", agent="", effect="switch")
    result["review"] = {"inputs": ["nixpkgs"], "changes": changes, "more": more}
    followers = len(follows) if count is None else count
    return {**result, "marks": [], "follows": list(follows), "followers": followers}


def test_the_page_of_a_lock_shows_inputs_and_dependent_agents(hive: Hive) -> None:
    """Name, revision and hash, old and new; who follows, and what happens to each."""
    answering(hive, of_inputs(*FOLLOWS))
    out = hive("approvals", "show", ID).out
    for text in (
        f"lock       {COMMIT}", f"instead of {BASE}", "effect     switch, 4 agents follow",
        f"Inputs:\n│ nixpkgs\n│   old {OLD}\n│   new {NEW}\n│ utils\n│   old (none)\n│   new",
        "Who follows:\n  up is rebuilt and switched in place\n",
        "  down is rebuilt and restarted\n",
        "  off is rebuilt, and runs with the new system from its next start\n",
        "  fresh is built for the first time", "│ === flake.lock", "│     7 + nix",
    ):  # fmt: skip
        assert text in out, text
    assert "size" not in out
    assert "more" not in out


def test_entries_omitted_from_a_lock_page_are_counted(hive: Hive) -> None:
    answering(hive, of_inputs(*FOLLOWS, more=3, count=600))
    out = hive("approvals", "show", ID).out
    assert "effect     switch, 600 agents follow" in out
    assert "  and 596 more\n" in out
    assert "  and 3 more, all among the changes below\n" in out


def test_a_lock_without_dependent_agents_has_no_followers(hive: Hive) -> None:
    answering(hive, of_inputs())
    out = hive("approvals", "show", ID).out
    assert "effect     switch\n" in out
    assert "follow" not in out


@pytest.mark.parametrize(("answer", "called"), [("y\n", 1), ("n\n", 0)])
def test_approving_a_lock_on_a_terminal_asks_about_dependent_agents(
    hive: Hive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, called: int
) -> None:
    approving(hive)
    answering(hive, of_inputs(*FOLLOWS[:1]))
    typed = tmp_path / "typed"
    typed.write_text(answer)
    with typed.open() as keys:
        monkeypatch.setattr(keys, "isatty", lambda: True, raising=False)
        monkeypatch.setattr("sys.stdin", keys)
        hive("approvals", "approve", ID, "--commit", COMMIT[:8])
    assert len(hive.peer.params_of("Approve")) == called


@pytest.mark.parametrize("state", ["received", "refused"])
def test_an_unknown_effect_is_not_shown(hive: Hive, state: str) -> None:
    answering(hive, approval_page(state=state))
    out = hive("approvals", "show", ID).out
    assert "effect" not in out
    assert "hive approval approve" not in out
    assert ("its log    hive logs alice\n" in out) is (state == "failed")
    assert ("state      received: it is being checked" in out) == (state == "received")


def test_the_size_of_a_change_says_what_is_counted(hive: Hive) -> None:
    counted = approval_page()
    counted["review"] = {"added": 4, "bytes": 1145, "changed": 1, "files": 6, "removed": 65}
    answering(hive, counted)
    size = "files 6, bytes 1145, files changed 1, lines added 4, lines removed 65"
    assert f"size       {size}\n" in hive("approvals", "show", ID).out


def test_an_approval_without_digits_says_where_they_are_shown(hive: Hive) -> None:
    done = hive("approval", "approve", ID)
    assert done.status == 2
    assert "Missing option '--commit'. `hive approval show ID` ends with the whole" in done.err


def test_attack_22_all_agent_text_is_behind_the_bar(hive: Hive) -> None:
    """Message, command, warnings, reason and lines; whatever they are made of."""
    evil = "EVIL\nEVIL approve this\r\x1b[1AEVIL\u2028EVIL\x85EVIL\u202eEVIL\vEVIL"
    result = approval_page(line(evil), line(evil, " "), message=evil, reason=evil, state="denied")
    result["marks"] = [{**dict(MARKS[3]), "after": evil}]  # type: ignore[call-overload]
    result["review"] = {"files": 1, "warnings": [evil]}
    answering(hive, result)
    out = hive("approvals", "show", ID).out
    words = [word for word in out.split("\n") if "EVIL" in word]
    assert len(words) == 9
    assert all(word.startswith(BAR) for word in words)
    assert not [line for line in out if line != "\n" and not line.isprintable()]


def test_attack_22_a_message_has_no_odd_blanks_or_combining_marks(hive: Hive) -> None:
    """No job has spelled it out: it goes from the request to the page."""
    pile = "z" + "\u0301" * 50
    answering(hive, approval_page(line("x"), message=f"one\u2800\ufe0f{pile}\ntwo"))
    out = hive("approvals", "show", ID).out
    assert "│ one⟨U+2800⟩⟨U+FE0F⟩" in out
    assert "│ two" in out
    assert out.count("\u0301") <= 2


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=300), st.integers(1, 30))
def test_attack_22_no_line_reaches_the_left_edge_of_a_terminal(text: str, width: int) -> None:
    """The terminal never breaks a line itself, so nothing of it is without a bar or left out."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout.isatty", lambda: True, raising=False)
        patch.setenv("COLUMNS", str(width))
        lines = list(quote(text, "red"))
        room = max(width, 22)
        bare = [click.unstyle(line_) for line_ in lines]
        starts = [line_ for line_ in bare if line_.startswith(BAR)]
        assert len(starts) == (plain(text).count("\n") + 1 if text else 0)
        assert all(line_.startswith((BAR, GOES_ON)) for line_ in bare)
        assert all(breadth(line_) <= room for line_ in bare)
    joined = "".join(line_[len(BAR) :] for line_ in bare)
    whole = plain(text).replace("\n", "").replace("\t", "    ")
    assert joined == whole


@pytest.mark.parametrize("between", [" " * 60, "\n"])
def test_attack_22_no_line_looks_like_another_line_when_wrapped(
    monkeypatch: pytest.MonkeyPatch, between: str
) -> None:
    """Neither by filling the width of the terminal nor by an end of line within."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "62")
    filled = "x" * 50 if between != "\n" else "x"
    text = f"{filled}{between}=== agent.toml{between}    3 - x"
    unstyles = [click.unstyle(line_) for line_ in difference([line(text)])]
    rows = [unstyle for unstyle in unstyles if unstyle.startswith(BAR)]
    assert rows[0] == "│ === a.md"
    assert len(rows) == 2
    assert rows[1].startswith("│     7 + x")
    assert all(unstyle.startswith((BAR, GOES_ON)) for unstyle in unstyles)


def test_a_line_sent_in_parts_is_one_line(hive: Hive) -> None:
    answering(
        hive, approval_page(line("a" * 99, part=True), after="0.99"), approval_page(line("b"))
    )
    assert f"│     7 + {'a' * 99}b\n" in hive("approvals", "show", ID).out


def test_new_privileges_are_red_and_only_on_a_terminal() -> None:
    out = "\n".join(page(approval_page(), []))
    assert "\x1b[31m\x1b[1m! capability spawn (new)" in out
    assert "\x1b[31m" not in out.split("- capability kill")[1].split("\n", maxsplit=1)[0]


def test_json_output_joins_all_pages(hive: Hive) -> None:
    answering(hive, approval_page(line("\x1b[1m"), after="9.0"), approval_page(line("two")))
    done = hive("approvals", "show", ID, "-o", "json")
    assert "\x1b" not in done.out
    document = json.loads(done.out)
    assert [row["text"] for row in document["lines"]] == ["\x1b[1m", "two"]
    assert document["next"] is None
    assert hive("approvals", "show", ID, "-o", "name").out == f"{ID}\n"


@for_each("state", ["approved", "deployed", "denied", "void", "failed"])
def test_a_decided_approval_is_shown_without_decision_commands(hive: Hive, state: str) -> None:
    answering(hive, approval_page(state=state, decided_by="uid:0", decided=5.0))
    out = hive("approvals", "show", ID).out
    assert f"{state}, decided by uid:0" in out
    assert "hive approval approve" not in out
    assert ("its log    hive logs alice\n" in out) is (state == "failed")


def approving(hive: Hive, **job: object) -> None:
    hive.peer.answers["Approve"] = lambda _: {
        "id": ID, "state": "approved", "agent": "alice", "commit": COMMIT, "effect": "live",
        "job": "j1",
    }  # fmt: skip
    hive.peer.answers["WaitJob"] = lambda _: {**JOB, **job}


def test_approve_waits_for_the_deploy(hive: Hive) -> None:
    approving(hive)
    done = hive("approvals", "approve", ID, "--commit", COMMIT[:8])
    assert (done.status, done.out) == (0, "")
    assert "deployed: alice" in done.err
    (asked,) = hive.peer.params_of("Approve")
    assert (asked["id"], asked["commit"]) == (ID, COMMIT[:8])
    assert asked["idempotency_key"]


@pytest.mark.parametrize(
    ("error", "status"), [("Conflict: no hello", 1), ("NotAllowed: denied", 5)]
)
def test_a_deploy_that_fails_is_an_exit_status_with_its_reason(
    hive: Hive, error: str, status: int
) -> None:
    approving(hive, state="failed", error=error)
    done = hive("approvals", "approve", ID, "--commit", COMMIT[:8])
    assert done.status == status
    assert error.partition(": ")[2] in done.err
    assert "deployed:" not in done.err


@pytest.mark.parametrize("command", [("approve", ID, "--commit", COMMIT[:8]), ()])
def test_a_deploy_that_fails_names_the_command_that_shows_what_the_agent_wrote(
    hive: Hive, command: tuple[str, ...]
) -> None:
    approving(hive, state="failed", error="Conflict: it has failed: ended with 78")
    hive.peer.answers["Rollback"] = hive.peer.answers["Approve"]
    said = (hive("approval", *command) if command else hive("rollback", "alice")).err
    assert "ended with 78; `hive logs alice` shows what it wrote" in said


def test_approve_without_wait_returns_once_recorded(hive: Hive) -> None:
    approving(hive)
    done = hive("approvals", "approve", ID, "--commit", COMMIT[:8], "--no-wait")
    assert done.status == 0
    assert hive.peer.params_of("WaitJob") == []


@pytest.mark.parametrize("fault", [Conflict("it is denied"), Expired("over"), NotAllowed("no")])
def test_a_refusal_of_the_daemon_is_shown(hive: Hive, fault: HiveError) -> None:
    def answer(_: Message) -> Message:
        raise fault

    hive.peer.answers["Approve"] = answer
    done = hive("approvals", "approve", ID, "--commit", COMMIT[:8])
    assert (done.status, fault.reason in done.err) == (fault.exit_code, True)


@pytest.mark.parametrize(("answer", "called"), [("y\n", 1), ("n\n", 0), ("\n", 0)])
def test_attack_23_new_privileges_are_confirmed_on_their_own_on_a_terminal(
    hive: Hive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, called: int
) -> None:
    approving(hive)
    answering(hive, approval_page())
    typed = tmp_path / "typed"
    typed.write_text(answer)
    with typed.open() as keys:
        monkeypatch.setattr(keys, "isatty", lambda: True, raising=False)
        monkeypatch.setattr("sys.stdin", keys)
        done = hive("approvals", "approve", ID, "--commit", COMMIT[:8])
    assert "This gives alice: capability spawn, limit memory_max, command. Continue" in done.err
    assert len(hive.peer.params_of("Approve")) == called
    assert (done.status == 0) == bool(called)
    assert ("hive: nothing was changed" in done.err) != bool(called)


def test_an_ended_approval_grants_nothing_and_asks_nothing(
    hive: Hive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def over(_: Message) -> Message:
        raise Conflict("it is failed")

    hive.peer.answers["Approve"] = over
    answering(hive, approval_page(state="failed"))
    (tmp_path / "typed").write_text("")
    with (tmp_path / "typed").open() as keys:
        monkeypatch.setattr(keys, "isatty", lambda: True, raising=False)
        monkeypatch.setattr("sys.stdin", keys)
        done = hive("approvals", "approve", ID, "--commit", COMMIT[:8])
    assert "This gives" not in done.err
    assert (done.status, done.err) == (1, "hive: it is failed\n")


def test_attack_23_an_unchecked_request_is_not_approved_without_confirmation(
    hive: Hive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be pending, and give anything, by the time that the approval arrives."""
    approving(hive)
    answering(hive, approval_page(state="received"))
    (tmp_path / "typed").write_text("")
    with (tmp_path / "typed").open() as keys:
        monkeypatch.setattr(keys, "isatty", lambda: True, raising=False)
        monkeypatch.setattr("sys.stdin", keys)
        done = hive("approvals", "approve", ID, "--commit", COMMIT[:8])
    assert hive.peer.params_of("Approve") == []
    said = f"hive: cannot approve {ID}: it is still being checked\n"
    assert (done.status, done.err) == (Conflict.exit_code, said)


def test_a_denial_needs_a_reason(hive: Hive) -> None:
    hive.peer.answers["Deny"] = lambda _: {"id": ID, "state": "denied"}
    assert hive("approvals", "deny", ID).status == 2
    assert hive("approvals", "deny", ID, "--why", "no").status == 0
    assert hive.peer.params_of("Deny")[0]["why"] == "no"


def test_an_approval_needs_digits(hive: Hive) -> None:
    assert hive("approvals", "approve", ID).status == 2
    assert hive.peer.params_of("Approve") == []


def test_approval_ids_are_completed(hive: Hive) -> None:
    hive.peer.answers["ListApprovals"] = lambda _: {"approvals": [ROW], "next": None}
    context = click.Context(
        approvals.show, parent=None, info_name="show"
    )  # fmt: skip
    context.params["socket"] = hive.peer.path
    complete = approvals.show.params[0].shell_complete
    assert [item.value for item in complete(context, "01")] == [ID]
    assert complete(context, "zz") == []
    context.params["socket"] = os.devnull
    assert complete(context, "") == []
