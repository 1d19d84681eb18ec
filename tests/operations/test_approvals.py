"""list_approvals, get_approval, approve, deny: what the operator decides, and on what."""

from __future__ import annotations

import pytest
from fixtures.approvals import (
    ONE,
    THREE,
    TWO,
    Nothing,
    ask,
    deploy,
    finish,
    judge,
    line,
    row,
    show,
    state,
    waits,
)
from fixtures.world import Reply, World, fields, names, rows
from fixtures.world import world as a_world

from hive_core.broker.call import Call, Change
from hive_core.errors import Conflict, Expired, Internal, InvalidArgument, NotAllowed
from hive_core.model.config.approval import SHOWN_DIGITS, Effect
from hive_core.model.config.settings import NixSettings, Settings
from hive_core.model.wire.record import OPERATOR


def approve(world: World, id_: str, commit: str = ONE[:SHOWN_DIGITS], **more: object) -> Reply:
    return world.ask_as(
        OPERATOR, "approve", {"id": id_, "commit": commit, **more}
    ).result()  # fmt: skip


def inner(result: Reply) -> Reply:
    approval = result["approval"]
    assert isinstance(approval, dict)
    return approval


def test_the_first_digits_of_the_commit_approve(world: World) -> None:
    id_ = waits(world)
    done = approve(world, id_)
    assert done == {
        "id": id_, "state": "approved", "agent": "a1", "commit": ONE, "effect": "live",
        "job": row(world, id_).job,
    }  # fmt: skip
    assert approve(world, waits(world, commit=TWO), TWO)["state"] == "approved"


@pytest.mark.parametrize(
    "digits",
    [ONE[:7], TWO[:8], ONE[1:9], ONE[:8] + "0", ONE + "0", ONE[:8].upper(), "", "zzzzzzzz"],
)
def test_attack_22_other_digits_than_the_first_eight_approve_nothing(
    world: World, digits: str
) -> None:
    id_ = waits(world)
    with pytest.raises(InvalidArgument):
        approve(world, id_, digits)
    assert state(world, id_) == "pending"


@pytest.mark.parametrize("caller", ["a", "a1", "root"])
def test_attack_24_no_agent_reaches_a_decision(world: World, caller: str) -> None:
    """Not even with every capability that there is."""
    id_ = waits(world)
    world.call(OPERATOR, "grant_capability", agent=caller, capability="budget")
    for operation, value in (
        ("approve", {"commit": ONE}), ("deny", {"why": "x"}),
    ):  # fmt: skip
        with pytest.raises(NotAllowed):
            world.ask_as(world.uuid(caller), operation, {"id": id_, **value}).result()
        event = world.events()[-1]
        assert (event["operation"], event["caller"], event["allowed"]) == (operation, caller, False)
    assert world.fault(caller, "rollback", agent="a1") == "NotAllowed"
    assert state(world, id_) == "pending"


def test_attack_21_an_approval_is_used_once(world: World) -> None:
    id_ = waits(world)
    approve(world, id_)
    with pytest.raises(Conflict, match="it is approved"):
        approve(world, id_)
    deploy(world, id_)
    for _ in range(2):
        with pytest.raises(Conflict, match="it is deployed"):
            approve(world, id_)


def test_attack_42_an_approval_that_is_repeated_gives_the_first_answer(world: World) -> None:
    id_ = waits(world)
    first = approve(world, id_, idempotency_key="k")
    deploy(world, id_)
    assert approve(world, id_, idempotency_key="k") == first


def test_what_is_not_checked_yet_is_not_approved(world: World) -> None:
    id_ = ask(world)
    with pytest.raises(Conflict, match="still being checked"):
        approve(world, id_)


def test_attack_21_after_a_day_it_is_too_late(world: World) -> None:
    id_ = waits(world)
    world.advance(86_399)
    other = waits(world, commit=TWO)
    world.advance(2)
    with pytest.raises(Expired):
        approve(world, id_)
    assert approve(world, other, TWO)["state"] == "approved"
    finish(world, id_, "expire")
    assert state(world, id_) == "expired"


def test_attack_21_what_was_compared_with_something_else_is_not_approved(world: World) -> None:
    """Another deploy in between ends it; one that slipped through is refused all the same."""
    first, second, third = (waits(world, commit=entry) for entry in (ONE, TWO, THREE))
    approve(world, first)
    approve(world, second, TWO)
    deploy(world, first)
    assert state(world, third) == "void"
    (letter,) = [entry for entry in world.mail("a") if third in str(entry["body"])]
    assert "another configuration" in str(letter["body"])
    late = judge(world, ask(world, commit="4d" * 20))
    with world.ledger.transaction():
        bound = row(world, late).binding
        world.ledger.connection.run(
            "UPDATE approvals SET binding = replace(binding, ?, ?) WHERE id = ?",
            (f'"base": "{bound.base}"', f'"base": "{TWO}"', late),
        )
    with pytest.raises(Conflict, match="has changed since the check"):
        approve(world, late, "4d" * 20)


def test_a_refusal_says_why_to_who_asked_and_to_the_parent(world: World) -> None:
    id_ = waits(world, "root", "a1")
    reply = world.call(OPERATOR, "deny", id=id_, why="no sh in prompts")
    assert reply == {"id": id_, "state": "denied"}
    for name in ("root", "a"):
        letter = world.mail(name)[-1]
        assert letter["kind"] == "config"
        assert "denied by the operator: no sh in prompts" in str(letter["body"])
        assert (id_ in str(letter["body"]), letter["relation"]) == (True, "daemon")
    assert world.mail("a1") == []
    with pytest.raises(Conflict):
        approve(world, id_)
    with pytest.raises(Conflict):
        world.call(OPERATOR, "deny", id=id_, why="again")


@pytest.mark.parametrize(
    "steps", [(), ("check",), ("check", "approve"), ("check", "approve", "build")]
)
def test_until_it_is_deployed_it_can_be_denied(world: World, steps: tuple[str, ...]) -> None:
    id_ = ask(world)
    with world.ledger.transaction():
        for step in steps:
            world.ledger.approvals.move(id_, step, 1.0)
    assert world.call(OPERATOR, "deny", id=id_, why="no")["state"] == "denied"
    assert row(world, id_).decided_by == "uid:0"


def test_a_reason_for_a_refusal_is_not_left_out(world: World) -> None:
    id_ = waits(world)
    assert world.fault(OPERATOR, "deny", id=id_) == "InvalidParameter"
    assert world.fault(OPERATOR, "deny", id=id_, why="") == "InvalidArgument"


def test_a_failure_is_told_with_the_last_lines_of_the_log(world: World) -> None:
    id_ = waits(world)
    approve(world, id_)
    with world.ledger.transaction():
        for step in ("build", "deploy", "watch"):
            world.ledger.approvals.move(id_, step, 1.0)
    finish(world, id_, "fail", "no hello within 30 s", "Traceback\nKeyError: 'x'")
    body = str(world.mail("a")[-1]["body"])
    assert "has failed: no hello within 30 s" in body
    assert body.endswith("Traceback\nKeyError: 'x'")
    job = world.ledger.jobs.get(row(world, id_).job)
    assert job is not None
    assert job.error.startswith("Conflict: ")
    assert "KeyError" not in job.error


def test_the_log_of_an_agent_goes_to_nobody_who_lost_it_meanwhile(world: World) -> None:
    """Row H10: that it failed is told to who asked, its lines to those above it alone."""
    id_ = waits(world, "a", "a11")
    approve(world, id_)
    world.call(OPERATOR, "move", agent="a1", parent="b")
    with world.ledger.transaction():
        for step in ("build", "deploy", "watch"):
            world.ledger.approvals.move(id_, step, 1.0)
    finish(world, id_, "fail", "no hello", "KeyError: 'x'")
    result, parent = str(world.mail("a")[-1]["body"]), str(world.mail("a1")[-1]["body"])
    assert "no hello" in result
    assert "KeyError" not in result
    assert "KeyError" in parent


def test_every_decision_is_an_event_with_on_whose_behalf_and_what_of(world: World) -> None:
    """H27."""
    first, second = (
        waits(world, "root"),
        judge(world, ask(world, commit=TWO), effect=Effect.RESTART),
    )
    approve(world, first)
    world.call(OPERATOR, "deny", id=second, why="no")
    *_, one, two = [event for event in world.events() if event["operation"] in ("approve", "deny")]
    assert (one["kind"], one["caller"], one["allowed"]) == ("record", OPERATOR, True)
    result = fields(one)
    assert (result["approval"], result["commit"], result["effect"]) == (first, ONE, "live")
    assert (result["requester_name"], result["agent_name"]) == ("root", "a1")
    assert (result["agent"], result["decided_by"], result["uid"]) == (world.uuid("a1"), "uid:0", 0)
    assert (fields(two)["reason"], fields(two)["commit"]) == ("no", TWO)


def test_who_asked_reads_it_an_ancestor_sees_that_there_is_one(world: World) -> None:
    """H9, attack 41."""
    id_ = judge(world, ask(world), lines=[line("secret plan")])
    mine = show(world, id_, "a")
    assert mine["whole"]
    assert "secret plan" in str(mine)
    assert inner(mine)["message"] == "better words"
    for above in ("root", "a1"):
        seen = show(world, id_, above)
        assert (seen["whole"], seen["lines"], seen["marks"]) == (False, [], [])
        assert (inner(seen)["id"], inner(seen)["message"]) == (id_, "")
    for other in ("a2", "a11", "b"):
        assert world.fault(other, "get_approval", id=id_) == "NotFound"
        assert world.fault(other, "get_approval", id="0" * 12) == "NotFound"


def test_a_listing_has_what_its_caller_may_see(world: World) -> None:
    ids = [
        waits(world, "a", "a1"), waits(world, "b", "b1", commit=TWO),
        waits(world, "a11", "a11", commit=THREE),
    ]  # fmt: skip
    world.call(OPERATOR, "deny", id=ids[2], why="no")

    def approval_ids(caller: str, **more: object) -> list[object]:
        return names(world.ask_as(
            world.uuid(caller), "list_approvals", dict(more)
        ).result()["approvals"], "id")  # fmt: skip

    assert approval_ids(OPERATOR) == [ids[1], ids[0]]
    assert approval_ids(OPERATOR, all=True) == ids[::-1]
    assert approval_ids("root", all=True) == ids[::-1]
    assert approval_ids("a1", all=True) == [ids[2], ids[0]]
    assert approval_ids("b") == [ids[1]]
    assert approval_ids("a2", all=True) == []


def test_the_status_counts_what_waits_for_the_operator(world: World) -> None:
    waits(world)
    second = waits(world, commit=TWO)
    ask(world, commit=THREE)
    assert world.call(OPERATOR, "status")["waiting"] == 2
    approve(world, second, TWO)
    assert world.call(OPERATOR, "status")["waiting"] == 1


def test_the_status_counts_what_todo_lists(world: World) -> None:
    """`todo` had six rows while `status` said `waiting: 0`."""
    waits(world)
    world.call("root", "send", to=OPERATOR, body="look")
    world.call("root", "ask", to=OPERATOR, items=[{"prompt": "Which?"}])
    rows_ = rows(world.call(OPERATOR, "todo")["todo"])
    assert len(rows_) == 3
    assert world.call(OPERATOR, "status")["waiting"] == len(rows_)


def test_a_listing_has_pages(world: World) -> None:
    ids = [waits(world, OPERATOR, commit=f"{number:040x}") for number in range(5)]
    result, after = [], None
    while True:
        page = world.call(OPERATOR, "list_approvals", limit=2, after=after)
        result += names(page["approvals"], "id")
        after = page["next"]
        if after is None:
            break
    assert result == ids[::-1]
    streamed = world.ask(OPERATOR, "list_approvals", more=True, limit=2)
    assert [name for page in streamed.pages for name in names(page["approvals"], "id")] == result


def test_what_is_asked_for_is_shown_with_marks_effect_and_figures(world: World) -> None:
    id_ = judge(
        world, ask(world), {"capabilities": ["spawn", "budget"], "boot": True},
        effect=Effect.RESTART,
    )  # fmt: skip
    result = show(world, id_)
    assert result["review"] == {"files": 3, "bytes": 120, "changed": 1}
    assert inner(result)["effect"] == "restart"
    held = set(world.hive.spec("a1").capabilities)
    red = {mark["name"] for mark in rows(result["marks"]) if mark["gives"]}
    assert red == {"boot"} | ({"spawn", "budget"} - held)
    lost = {mark["name"] for mark in rows(result["marks"]) if mark["after"] == "taken"}
    assert lost == held - {"spawn", "budget"}


def pages(world: World, id_: str, **more: object) -> list[Reply]:
    asked = world.ask_as(OPERATOR, "get_approval", {"id": id_, **more}, more=True)
    return asked.pages


def texts(result: list[Reply]) -> list[str]:
    """The lines as they were, parts put together."""
    whole, rest = list[str](), ""
    for item in (entry for page in result for entry in rows(page["lines"])):
        rest += str(item["text"])
        if not item["part"]:
            whole.append(rest)
            rest = ""
    return whole


def test_attack_22_a_difference_is_shown_to_its_last_line_whatever_its_size(world: World) -> None:
    """Never folded: pages follow each other, and a line larger than a frame goes in parts."""
    lines = ["short", '"' * 700_000, "é" * 500_000, *(f"line {n}" for n in range(5000)), ""]
    id_ = judge(world, ask(world), lines=[line(entry) for entry in lines])
    result = pages(world, id_)
    assert texts(result) == [*lines, "the end"]
    assert len(result) > 3
    assert result[-1]["next"] is None
    assert texts(pages(world, id_, limit=700)) == [*lines, "the end"]


def test_attack_22_what_acts_on_a_terminal_is_not_even_handed_on(world: World) -> None:
    """A job spells it out; one that was taken over does not, and then nothing is shown."""
    for odd in ("\x1b[2J", "a\rb", "a\u202eb", "a\u200bb", "\x9b1m"):
        id_ = judge(world, ask(world, OPERATOR, commit=f"{ord(odd[-2]):040x}"), lines=[line(odd)])
        with pytest.raises(Internal, match="deny this"):
            show(world, id_)


@pytest.mark.parametrize("odd", [b"{}\n", b'{"path": "a", "sign": "+", "text": "x"', b"[" * 99])
def test_a_difference_that_is_damaged_is_never_shown_as_whole(world: World, odd: bytes) -> None:
    id_ = waits(world)
    file = world.folder / "applied" / f"{world.uuid('a1')}.git" / "hive" / f"{id_}.diff"
    file.write_bytes(b"")
    assert texts(pages(world, id_)) == []
    file.write_bytes(b'{"path": "a", "sign": "+", "text": "x"}\n')
    assert texts(pages(world, id_)) == ["x"]
    file.write_bytes(file.read_bytes() + odd)
    with pytest.raises((Internal, InvalidArgument)):
        pages(world, id_)


def test_what_can_still_be_approved_is_not_shown_without_its_lines(world: World) -> None:
    id_ = waits(world)
    file = world.folder / "applied" / f"{world.uuid('a1')}.git" / "hive" / f"{id_}.diff"
    file.unlink()
    assert world.fault(OPERATOR, "get_approval", id=id_) == "NotFound"
    world.call(OPERATOR, "deny", id=id_, why="no")
    assert show(world, id_)["lines"] == []
    file.symlink_to("/etc/passwd")
    other = waits(world, commit=TWO)
    file.with_name(f"{other}.diff").unlink()
    file.with_name(f"{other}.diff").symlink_to("/etc/passwd")
    assert world.fault(OPERATOR, "get_approval", id=other) == "Internal"


def test_attack_41_who_lost_sight_of_the_agent_learns_nothing_of_what_it_holds_now(
    world: World,
) -> None:
    id_ = judge(world, ask(world, "a", "a11"), {"capabilities": ["spawn"]})
    assert show(world, id_, "a")["marks"]
    world.call(OPERATOR, "move", agent="a1", parent="b")
    assert (show(world, id_, "a")["marks"], show(world, id_, "a")["whole"]) == ([], True)
    assert show(world, id_)["marks"]


def test_attack_41_an_ancestor_sees_numbers_and_no_words_of_the_commit(world: World) -> None:
    id_ = waits(world)
    result = row(world, id_)
    with world.ledger.transaction():
        world.ledger.approvals.record_review(
            id_, result.binding, Effect.LIVE, {}, {"files": 3, "warnings": ["secret plan"]}
        )
    assert show(world, id_, "root")["review"] == {"files": 3}
    assert "secret plan" in str(show(world, id_, "a")["review"])


def test_attack_41_a_listing_has_no_trace_of_what_its_caller_may_not_see(world: World) -> None:
    mine = [waits(world, "b", "b1", commit=ONE)]
    others = [waits(world, "a", "a1", commit=f"{number:040x}") for number in range(3)]
    mine.append(waits(world, "b", "b1", commit=TWO))
    first = world.call("b", "list_approvals", limit=1)
    second = world.call("b", "list_approvals", limit=1, after=first["next"])
    collected = [*names(first["approvals"], "id"), *names(second["approvals"], "id")]
    assert (collected, first["next"], second["next"]) == (mine[::-1], mine[1], None)
    assert world.call("a2", "list_approvals", limit=1) == {"approvals": [], "next": None}
    for unseen in (others[0], "0" * 12):
        assert world.fault("b", "list_approvals", after=unseen) == "NotFound"


def test_who_asked_reads_no_more_once_it_is_gone(world: World) -> None:
    id_ = waits(world, "a1", "a1")
    world.call(OPERATOR, "move", agent="a1", parent="b")
    assert show(world, id_, "a1")["whole"]
    assert world.fault("a", "get_approval", id=id_) == "NotFound"
    assert show(world, id_, "b")["whole"] is False


def test_agents_learn_that_the_operator_decided_and_not_which_one(world: World) -> None:
    id_ = waits(world)
    world.call(OPERATOR, "deny", id=id_, why="no")
    assert inner(show(world, id_, "a"))["decided_by"] == OPERATOR
    assert inner(show(world, id_))["decided_by"] == "uid:0"


def test_newer_inputs_are_approved_by_the_digits_of_their_lock() -> None:
    """H13: a lock has no commit, so it is called by its hash."""
    settings = Settings(nix=NixSettings(inputs={"nixpkgs": "github:a/b"}))
    with a_world(settings) as made:
        id_ = str(made.call("root", "request_update_meta_inputs", message="cves")["approval"])
        judge(made, id_)
        result = show(made, id_)
        assert (inner(result)["kind"], inner(result)["agent"]) == ("inputs", "")
        assert [entry["text"] for entry in rows(result["lines"])] == ["the end"]
        assert made.fault(OPERATOR, "approve", id=id_, commit=ONE[:8]) == "InvalidArgument"
        assert approve(made, id_, THREE[:8])["agent"] == ""
        with made.ledger.transaction():
            for event in ("build", "deploy", "watch"):
                made.ledger.approvals.move(id_, event, 1.0)
        finish(made, id_, "confirm")
        assert "the update of the inputs is deployed" in str(made.mail("root")[-1]["body"])


def test_attack_40_what_is_of_an_agent_that_somebody_removed_is_not_approved(world: World) -> None:
    """By a commit of hand, which ends nothing by itself."""
    id_ = waits(world)

    def remove(call: Call) -> Change[Nothing]:
        return Change(Nothing(), call.hive.without("a1"), "by hand")

    world.broker.perform("hand", remove)
    with pytest.raises(Conflict, match="its agent was destroyed"):
        approve(world, id_)
    assert inner(show(world, id_))["agent"] == row(world, id_).agent


@pytest.mark.parametrize(
    ("uuid", "approval"), [("../../etc", "0" * 12), ("0" * 36, "../../passwd"), ("", "")]
)
def test_no_name_leads_out_of_the_folder_of_differences(
    world: World, uuid: str, approval: str
) -> None:
    """Attack 10: names are ours, whoever wrote them down."""
    with pytest.raises(Internal):
        world.loop.run_until_complete(world.reads.diff(uuid, approval, 0))


def test_a_folder_in_the_place_of_a_difference_is_not_read(world: World) -> None:
    id_ = waits(world)
    file = world.folder / "applied" / f"{world.uuid('a1')}.git" / "hive" / f"{id_}.diff"
    file.unlink()
    file.mkdir()
    assert world.fault(OPERATOR, "get_approval", id=id_) == "Internal"
