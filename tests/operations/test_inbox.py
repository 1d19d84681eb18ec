"""recv, ack, nack, list_messages: mail under a lease."""

from __future__ import annotations

import pytest
from each import for_each
from fixtures.logins import open_login
from fixtures.world import World, names, rows

FIELDS = {
    "id", "from", "from_uuid", "relation", "to", "body", "kind", "thread", "reply_to", "priority",
    "sent_at", "attempt", "source", "wait_id", "hops",
}  # fmt: skip


def bodies(page: dict[str, object]) -> list[object]:
    return names(page["messages"], "body")


def put(world: World, *texts: str, to: str = "a1", sender: str = "a") -> list[object]:
    return [world.call(sender, "send", to=to, body=text)["id"] for text in texts]


def test_a_message_has_exactly_the_fields_of_the_contract(world: World) -> None:
    put(world, "x")
    (letter,) = rows(world.call("a1", "recv")["messages"])
    assert set(letter) == FIELDS
    assert letter["attempt"] == 1
    assert letter["sent_at"] == world.clock.now()


def test_an_empty_inbox_is_said_at_once_without_wait(world: World) -> None:
    assert world.call("a1", "recv") == {"messages": []}


def test_a_waiting_recv_is_answered_when_a_message_comes(world: World) -> None:
    asked = world.ask("a1", "recv", wait=50)
    world.advance(20)
    assert not asked.replies
    put(world, "at last")
    assert bodies(asked.result()) == ["at last"]


def test_a_waiting_recv_ends_empty_after_its_time_and_no_later(world: World) -> None:
    asked = world.ask("a1", "recv", wait=10)
    world.advance(9.9)
    assert not asked.replies
    world.advance(0.2)
    assert asked.result() == {"messages": []}


def test_one_message_goes_to_one_of_two_that_wait(world: World) -> None:
    both = [world.ask("a1", "recv", wait=50) for _ in range(2)]
    put(world, "x")
    assert sum(bool(asked.replies) for asked in both) == 1


def test_a_message_comes_again_until_it_is_acked(world: World) -> None:
    put(world, "x")
    assert bodies(world.call("a1", "recv", lease=30)) == ["x"]
    assert bodies(world.call("a1", "recv")) == []
    world.advance(30.1)
    (again,) = rows(world.call("a1", "recv")["messages"])
    assert again["attempt"] == 2
    assert world.call("a1", "ack", ids=[again["id"]]) == {"acked": 1}
    world.advance(3600)
    assert bodies(world.call("a1", "recv")) == []


def test_a_waiting_recv_gets_what_comes_back_when_its_lease_ends(world: World) -> None:
    put(world, "x")
    world.call("a1", "recv", lease=5)
    asked = world.ask("a1", "recv", wait=50)
    world.advance(5.1)
    assert bodies(asked.result()) == ["x"]


def test_the_lease_is_a_minute_when_not_said(world: World) -> None:
    put(world, "x")
    world.call("a1", "recv")
    world.advance(59)
    assert bodies(world.call("a1", "recv")) == []
    world.advance(1.1)
    assert bodies(world.call("a1", "recv")) == ["x"]


@pytest.mark.parametrize("lease", [0, 0.5, 3601])
def test_a_lease_is_bounded(world: World, lease: float) -> None:
    assert world.fault("a1", "recv", lease=lease) == "InvalidArgument"


def test_a_late_ack_counts_and_a_foreign_one_does_not(world: World) -> None:
    (message,) = put(world, "x")
    assert world.call("a2", "ack", ids=[message]) == {"acked": 0}
    world.call("a1", "recv", lease=1)
    world.advance(2)
    assert world.call("a1", "ack", ids=[message, message, "unknown"]) == {"acked": 1}
    assert world.call("a1", "ack", ids=[message]) == {"acked": 0}


def test_after_five_attempts_it_is_a_dead_letter_and_the_sender_is_told(world: World) -> None:
    """Row K17."""
    (message,) = put(world, "x")
    reply: dict[str, object] = {}
    for attempt in range(1, 6):
        (letter,) = rows(world.call("a1", "recv")["messages"])
        assert letter["attempt"] == attempt
        reply = world.call("a1", "nack", ids=[message], why="cannot read it")
    assert reply == {"dead": [message]}
    assert bodies(world.call("a1", "recv")) == []
    (dead,) = rows(world.call("a1", "list_messages", dead=True)["messages"])
    assert (dead["id"], dead["dead_why"]) == (message, "cannot read it")
    (row,) = rows(world.call("a", "recv")["messages"])
    assert (row["relation"], row["kind"], row["reply_to"]) == ("daemon", "dead_letter", message)


def test_a_sender_that_waits_hears_of_its_dead_letter_at_once(world: World) -> None:
    put(world, "x")
    asked = world.ask("a", "recv", wait=50)
    (letter,) = rows(world.call("a1", "recv")["messages"])
    world.call("a1", "nack", ids=[letter["id"]], dead=True)
    assert names(asked.result()["messages"], "kind") == ["dead_letter"]


def test_a_nack_gives_it_back_at_once(world: World) -> None:
    put(world, "x", "y")
    (letter,) = rows(world.call("a1", "recv", max=1)["messages"])
    world.call("a1", "nack", ids=[letter["id"]])
    assert bodies(world.call("a1", "recv")) == ["x", "y"]


def test_mail_is_in_order_for_each_sender_and_urgent_mail_goes_first(world: World) -> None:
    put(world, "1", "2", "3")
    world.call("root", "send", to="a1", body="now", priority=0)
    put(world, "4")
    assert bodies(world.call("a1", "recv")) == ["now", "1", "2", "3", "4"]


def test_max_bounds_what_is_given(world: World) -> None:
    put(world, *map(str, range(12)))
    assert len(bodies(world.call("a1", "recv"))) == 10
    assert len(bodies(world.call("a1", "recv", max=1))) == 1


def test_large_mail_comes_in_answers_that_fit_a_frame(world: World) -> None:
    """Attack 37: the worst text there is grows six-fold in JSON."""
    worst = "\x01" * 64 * 1024
    put(world, *[worst] * 5)
    count = 0
    while count < 5:
        result = rows(world.call("a1", "recv", max=100)["messages"])
        assert result
        count += len(result)
        world.call("a1", "ack", ids=[letter["id"] for letter in result])


def test_a_stream_gives_messages_as_they_come(world: World) -> None:
    asked = world.ask("a1", "recv", more=True)
    assert asked.pending
    put(world, "one")
    put(world, "two")
    assert [bodies(page) for page in asked.pages] == [["one"], ["two"]]
    asked.close()
    put(world, "three")
    assert bodies(world.call("a1", "recv")) == ["three"]


def test_a_stream_gives_what_was_not_acked_again(world: World) -> None:
    put(world, "x")
    asked = world.ask("a1", "recv", more=True, lease=5)
    world.advance(5.1)
    assert [row["attempt"] for page in asked.pages for row in rows(page["messages"])] == [1, 2]


@for_each(
    "caller, agent, error",
    [
        ("a1", "a1", ""), ("a1", None, ""), ("operator", "a1", ""), ("operator", None, ""),
        ("operator", "operator", ""), ("a", "a1", "NotAllowed"), ("a1", "a2", "NotAllowed"),
        ("a1", "operator", "NotAllowed"), ("a1", "b1", "NotFound"),
    ],
)  # fmt: skip
def test_mail_is_seen_by_its_owner_and_the_operator(
    world: World, caller: str, agent: str | None, error: str
) -> None:
    assert world.fault(caller, "list_messages", agent=agent) == error


def test_looking_takes_nothing(world: World) -> None:
    put(world, "x")
    assert bodies(world.call("a1", "list_messages")) == ["x"]
    (letter,) = rows(world.call("a1", "recv")["messages"])
    assert letter["attempt"] == 1
    assert bodies(world.call("a1", "list_messages")) == ["x"]


def test_listed_mail_comes_in_pages(world: World) -> None:
    put(world, *map(str, range(5)))
    texts: list[object] = []
    page: dict[str, object] = {"next": None}
    for _ in range(3):
        page = world.call("a1", "list_messages", limit=2, after=page["next"])
        texts += bodies(page)
    assert texts == ["0", "1", "2", "3", "4"]
    assert page["next"] is None


def test_a_look_at_the_inbox_can_be_a_stream(world: World) -> None:
    asked = world.ask("operator", "list_messages", more=True)
    world.call("a1", "send", to="operator", body="one")
    world.call("a2", "send", to="operator", body="two")
    result = [body for page in asked.pages for body in bodies(page)]
    assert (result, asked.pending) == (["one", "two"], True)


def test_the_operator_reads_its_mail_like_anybody(world: World) -> None:
    world.call("a1", "send", to="operator", body="help")
    (letter,) = rows(world.call("operator", "recv")["messages"])
    assert (letter["from"], letter["relation"]) == ("a1", "allowed")
    assert world.call("operator", "ack", ids=[letter["id"]]) == {"acked": 1}


def test_only_the_callers_own_mail_is_received(world: World) -> None:
    """Row H12, attack 35: no parameter names another agent's inbox."""
    assert world.fault("a", "recv", agent="a1") == "InvalidParameter"


@pytest.mark.parametrize("operation", ["ack", "nack"])
def test_a_repeated_answer_to_mail_gets_its_first_result(world: World, operation: str) -> None:
    """Attack 42: every mutating call takes a key."""
    (message,) = put(world, "x")
    world.call("a1", "recv")
    first = world.call("a1", operation, ids=[message], idempotency_key="k")
    assert world.call("a1", operation, ids=[message], idempotency_key="k") == first
    assert world.events()[-1]["operation"] == operation


def test_a_login_that_may_operate_acknowledges_the_letters_of_the_operator_alone(
    world: World,
) -> None:
    first, second = put(world, "one", "two", to="operator")
    (of_agent,) = put(world, "three", to="a1")
    ann = open_login(world, "ann", ["viewer", "operator"])
    assert ann.refusal("ack", ids=[first]).fields["rule"] == "scope"

    assert ann.call("clear_inbox", ids=[first, of_agent])["cleared"] == 1

    assert names(world.call("operator", "list_messages")["messages"], "id") == [second]
    assert names(world.call("operator", "list_messages", agent="a1")["messages"], "id") == [
        of_agent
    ]
    event = world.ledger.events.page(0, 10_000)[-1]
    assert (event.operation, event.fields["account"], event.fields["cleared"]) == (
        "clear_inbox", "ann", 1,
    )  # fmt: skip
    viewer = open_login(world, "eve", ["viewer"])
    assert viewer.refusal("clear_inbox", ids=[second]).fields["rule"] == "scope"
    assert world.fault("a1", "clear_inbox", ids=[second]) == "NotAllowed"


def test_the_todo_list_says_since_when_there_are_dead_letters(world: World) -> None:
    for text in ("one", "two"):
        put(world, text)
        world.advance(60)
        (letter,) = rows(world.call("a1", "recv")["messages"])
        world.call("a1", "nack", ids=[letter["id"]], dead=True)
        world.advance(60)
    (row,) = [row for row in rows(world.call("operator", "todo")["todo"])
              if row["kind"] == "dead_letters"]  # fmt: skip
    assert row["text"] == "2 that a1 did not receive"
    assert row["since"] == pytest.approx(world.clock.now() - 180, abs=1)


def test_the_inbox_of_the_operator_is_cleared_up_to_the_newest_that_the_todo_list_counts(
    world: World,
) -> None:
    put(world, "one", "two", to="operator")
    (row,) = rows(world.call("operator", "todo")["todo"])
    assert (row["kind"], row["text"]) == ("mail", "2 in your inbox")
    put(world, "three", to="operator")

    assert world.call("operator", "clear_inbox", up_to=row["up_to"])["cleared"] == 2

    assert bodies(world.call("operator", "list_messages")) == ["three"]
    assert world.call("operator", "clear_inbox", up_to=row["up_to"])["cleared"] == 0
    assert world.call("operator", "clear_inbox", up_to="not an id")["cleared"] == 0
    for params in ({}, {"ids": ["x"], "up_to": "x"}, {"up_to": "x", "tasks": ["x"]}):
        assert world.fault("operator", "clear_inbox", **params) == "InvalidArgument"


def test_a_cleared_inbox_keeps_the_letters_of_open_questions(world: World) -> None:
    """The list has a row for each of them, and does not count them as mail."""
    asked = world.call("root", "escalate", issue="no disk", severity="error")["escalation"]
    put(world, "one", to="operator")
    (row,) = [row for row in rows(world.call("operator", "todo")["todo"]) if row["kind"] == "mail"]
    assert row["text"] == "1 in your inbox"
    assert world.call("operator", "clear_inbox", up_to=row["up_to"])["cleared"] == 1
    letters = rows(world.call("operator", "list_messages")["messages"])
    assert [letter["kind"] for letter in letters] == ["escalation"]
    world.call("operator", "answer", question=asked, answers=["buy one"])
    assert world.call("operator", "list_messages")["messages"] == []


def test_the_newest_letter_is_known_whether_it_was_given_out_or_not(world: World) -> None:
    mail = world.ledger.messages
    assert mail.newest(world.uuid("a1")) == ""
    first, second = put(world, "one", "two")
    assert mail.newest(world.uuid("a1")) == second
    world.call("a1", "recv")
    assert mail.newest(world.uuid("a1")) == second
    world.call("a1", "ack", ids=[second])
    assert mail.newest(world.uuid("a1")) == first


def test_the_operator_lists_the_dead_letters_of_destroyed_agents(world: World) -> None:
    """They were shown only after the agent was restored."""
    uuid = world.uuid("a1")
    ids = put(world, "one", "two")
    world.call("operator", "destroy", agent="a1")
    assert world.fault("operator", "list_messages", agent="a1", dead=True) == "NotFound"
    first = world.call("operator", "list_messages", dead=True, archived=True, limit=1)
    second = world.call(
        "operator", "list_messages", dead=True, archived=True, limit=1, after=first["next"]
    )
    letters = [*rows(first["messages"]), *rows(second["messages"])]
    assert [(row["id"], row["to"], row["archived"]) for row in letters] == [
        (ids[0], "a1", uuid), (ids[1], "a1", uuid),
    ]  # fmt: skip
    assert "was destroyed" in str(letters[0]["dead_why"])


def test_only_the_operator_lists_them_and_only_as_dead_letters(world: World) -> None:
    assert world.fault("a", "list_messages", dead=True, archived=True) == "NotAllowed"
    for params in ({"archived": True}, {"archived": True, "dead": True, "agent": "a"}):
        assert world.fault("operator", "list_messages", **params) == "InvalidArgument"
