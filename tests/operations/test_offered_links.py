"""Links of notifications: whoever has one says no, stops, or gives an offered answer, once."""

from __future__ import annotations

import pytest
from fixtures.approvals import ONE, waits
from fixtures.approvals import row as approval_row
from fixtures.logins import LoginClient, open_login
from fixtures.tasks import finish, give
from fixtures.world import World

from hive_core.broker.scopes import OperationClass, class_of
from hive_core.errors import Conflict, InvalidArgument, InvalidParameter, NotAllowed, NotFound
from hive_core.model.wire.record import OPERATOR
from hive_core.operations import load
from hive_core.operations.accounts.links import OPERATIONS


def offer(world: World, operation: str, **parameters: object) -> str:
    """The secret of a link that hive-notify has offered."""
    notifier = open_login(world, "notify", ["notifier"])
    wanted = {"operation": operation, "parameters": parameters, "label": "Now"}
    (link,) = notifier.call("offer_links", links=[wanted])["links"]
    return str(link["url"]).rpartition("/")[2]


def test_no_link_can_ever_do_what_takes_a_confirmation() -> None:
    assert OPERATIONS == ("answer", "cancel_task", "deny", "reject_plan", "stop")
    registry = load()
    no, by_params = OperationClass.OPERATOR, OperationClass.BY_PARAMS
    classes = {name: class_of(registry[name]) for name in OPERATIONS}
    # The question for a budget offers no answers, so that no link gives one.
    assert classes == {**dict.fromkeys(OPERATIONS, no), "answer": by_params}


def test_attack_57_a_link_that_says_yes_is_not_made(world: World) -> None:
    id_ = waits(world)
    for operation in ("approve", "approve_plan", "destroy", "send", "spawn"):
        with pytest.raises(InvalidParameter):
            offer(world, operation, id=id_, commit=ONE[:8])


def test_a_link_is_shown_without_effect_and_used_once(world: World) -> None:
    id_ = waits(world)
    secret = offer(world, "deny", id=id_, why="not now")
    phone = LoginClient(world)  # it has no login
    shown = phone.call("show_link", secret=secret)
    assert (shown["operation"], shown["subject"], shown["is_current"]) == ("deny", id_, True)
    assert approval_row(world, id_).open
    assert phone.call("use_link", secret=secret) == {"operation": "deny", "subject": id_}
    assert approval_row(world, id_).decided_by == "link:notify"
    event = world.ledger.events.page(0, 10_000)[-1]
    assert (event.operation, event.fields["via"], event.fields["account"]) == (
        "use_link", "offered link", "notify",
    )  # fmt: skip
    assert isinstance(phone.refusal("use_link", secret=secret), NotFound)
    assert isinstance(phone.refusal("show_link", secret=secret), NotFound)


def test_parameters_that_the_call_would_refuse_are_refused_when_the_link_is_offered(
    world: World,
) -> None:
    """It would be used up by the refusal."""
    with pytest.raises(InvalidArgument, match="task: Field required"):
        offer(world, "reject_plan", plan="p1", reason="no")


def test_the_page_of_a_link_has_the_answers_that_it_gives(world: World) -> None:
    item = {"prompt": "which?", "options": ["<b>red", "green"]}
    question = world.call("root", "ask_user", items=[item])["question"]
    secret = offer(world, "answer", question=question, answers=["<b>red"])
    shown = LoginClient(world).call("show_link", secret=secret)
    assert (shown["answers"], shown["recursive"]) == (["<b>red"], False)


def test_a_link_is_void_when_the_state_has_changed_or_a_day_is_over(world: World) -> None:
    phone = LoginClient(world)
    id_ = waits(world)
    denied = offer(world, "deny", id=id_, why="x")
    world.call(OPERATOR, "deny", id=id_, why="y")
    assert phone.call("show_link", secret=denied)["is_current"] is False
    assert isinstance(phone.refusal("use_link", secret=denied), Conflict)

    world.call(OPERATOR, "start", agent="a")
    stopped = offer(world, "stop", agent="a")
    world.call(OPERATOR, "restart", agent="a")
    assert isinstance(phone.refusal("use_link", secret=stopped), Conflict)

    late = offer(world, "stop", agent="a")
    world.advance(86_401)
    assert isinstance(phone.refusal("use_link", secret=late), NotFound)


def test_a_link_that_cancels_a_task_is_void_once_the_task_has_gone_on(world: World) -> None:
    task = str(world.call("root", "assign_task", agent="a", title="x", description="y")["task"])
    world.call(OPERATOR, "start", agent="a")
    phone, before = LoginClient(world), offer(world, "cancel_task", task=task)
    world.call("a", "report_progress", task=task, text="it works")
    assert phone.call("show_link", secret=before)["is_current"] is False
    assert isinstance(phone.refusal("use_link", secret=before), Conflict)


def test_a_link_that_cancels_a_task_ends_no_later_attempt_of_it(world: World) -> None:
    """It was offered with a result that was given back; the next one waits in the same state."""
    task = give(world, OPERATOR, "a", criteria={"text": "ok", "retries": 2})
    finish(world, "a", task)
    phone, before = LoginClient(world), offer(world, "cancel_task", task=task)
    first = world.ledger.tasks.require(task)
    world.call(OPERATOR, "judge_task", task=task, verdict="retry", feedback="again", attempt=1)
    finish(world, "a", task)
    second = world.ledger.tasks.require(task)
    assert (second.state, second.attempt) == (first.state, first.attempt + 1)
    assert phone.call("show_link", secret=before)["is_current"] is False
    assert isinstance(phone.refusal("use_link", secret=before), Conflict)


def test_a_link_gives_an_answer_only_where_the_question_offers_it(world: World) -> None:
    items = [{"prompt": "Which?", "options": ["red", "green"]}]
    asked = world.call("root", "ask_user", items=items)
    question = str(asked["question"])
    for answers in (["blue"], [], ["red", "green"], "red"):
        with pytest.raises(InvalidArgument):
            offer(world, "answer", question=question, answers=answers)
    secret = offer(world, "answer", question=question, answers=["red"])
    world.call(OPERATOR, "answer", question=question, answers=["green"])
    assert isinstance(LoginClient(world).refusal("use_link", secret=secret), Conflict)


def test_a_link_stops_an_agent_and_cancels_a_task(world: World) -> None:
    world.call(OPERATOR, "start", agent="a")
    phone = LoginClient(world)
    phone.call("use_link", secret=offer(world, "stop", agent="a"))
    run = world.ledger.runs.get(world.uuid("a"))
    assert run is not None
    assert run.wanted == "stopped"
    task = world.call(OPERATOR, "assign_task", agent="b", description="x")["task"]
    phone.call("use_link", secret=offer(world, "cancel_task", task=task))
    assert not world.ledger.tasks.require(str(task)).open


def test_only_a_notifier_offers_links_and_only_login_sock_has_them(world: World) -> None:
    wanted = [{"operation": "stop", "parameters": {"agent": "a"}}]
    refused = open_login(world).refusal("offer_links", links=wanted)
    assert isinstance(refused, NotAllowed)
    assert world.fault(OPERATOR, "offer_links", links=wanted) == "NotAllowed"
    unknown = {"secret": "no_x"}
    assert world.fault(OPERATOR, "use_link", **unknown) == "NotAllowed"
    assert (
        LoginClient(world)
        .refusal("use_link", **unknown)
        .reason.startswith("the link does not exist")
    )


def test_a_removed_account_leaves_no_links(world: World) -> None:
    world.call(OPERATOR, "start", agent="a")
    secret = offer(world, "stop", agent="a")
    world.call(OPERATOR, "remove_account", account="notify")
    assert isinstance(LoginClient(world).refusal("use_link", secret=secret), NotFound)


def test_a_link_is_void_once_its_account_may_offer_none(world: World) -> None:
    secret = offer(world, "deny", id=waits(world), why="no")
    world.call(OPERATOR, "create_account", name="notify", scopes=["viewer"])
    stranger = LoginClient(world)
    assert isinstance(stranger.refusal("show_link", secret=secret), NotFound)
    assert isinstance(stranger.refusal("use_link", secret=secret), NotFound)
