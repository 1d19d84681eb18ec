"""K20: queues with an owner and a rule."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fixtures.world import Reply, World, names, rows, world

from hive_core.errors import InvalidArgument, LimitReached, NotAllowed, NotFound
from hive_core.model.config.settings import Settings

SMALL = Settings.model_validate(
    {"queues": {"open": 2, "things": 3, "most": 5, "bytes": 65_536}, "limits": {"attempts": 2}}
)


@pytest.fixture(name="small")
def _small() -> Iterator[World]:
    with world(SMALL, "root/a", "a/a1", "a/a2") as made:
        made.call("a", "open_queue", name="jobs")
        yield made


@pytest.fixture(name="jobs")
def _jobs(world: World) -> World:
    """`a` has a queue into which its children put, and out of which they take."""
    world.call("a", "open_queue", name="jobs")
    return world


def put(world: World, *bodies: str, who: str = "a1", **more: object) -> list[str]:
    queue = "jobs" if who == "a" else "a/jobs"
    return [str(world.call(who, "put", queue=queue, body=body, **more)["id"]) for body in bodies]


def take(world: World, who: str = "a2", **more: object) -> list[Reply]:
    queue = "jobs" if who == "a" else "a/jobs"
    return rows(world.call(who, "take", queue=queue, **more)["things"])


def bodies(things: list[Reply]) -> list[object]:
    return names(things, "body")


def test_a_thing_goes_to_one_taker_and_is_gone_when_acked(jobs: World) -> None:
    (id_,) = put(jobs, "mend it", kind="job")
    (thing,) = take(jobs)
    assert {key: thing[key] for key in ("id", "queue", "from", "kind", "body", "attempt")} == {
        "id": id_, "queue": "a/jobs", "from": "a1", "kind": "job", "body": "mend it", "attempt": 1,
    }  # fmt: skip
    assert take(jobs, "a1") == []
    assert jobs.call("a2", "ack", ids=[id_]) == {"acked": 1}
    jobs.advance(3600)
    assert take(jobs) == []
    assert rows(jobs.call("a", "list_queues")["queues"])[0]["things"] == 0


RULES = {
    "children": {"a1", "a2"}, "subtree": {"a1", "a2", "a11"}, "siblings": {"b"},
    "parent": {"root"}, "a11": {"a11"}, "b": {"b"},
}  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
def test_the_owner_of_a_queue_decides_on_its_users(world: World, rule: str) -> None:
    """An agent without any right on the queue gets NotFound (attack 41)."""
    world.call("a", "open_queue", name="q", may_put=[rule], may_take=["a1"])
    everybody = {"root", "a", "a1", "a11", "a2", "b", "b1", "operator"}
    answers = {who: world.fault(who, "put", queue="a/q", body="x") for who in sorted(everybody)}
    may = RULES[rule] | {"a", "operator"}
    assert {who for who, error in answers.items() if not error} == may
    sees = {"a1"} - may
    assert {who for who, error in answers.items() if error == "NotAllowed"} == sees
    assert {who for who, error in answers.items() if error == "NotFound"} == everybody - may - sees
    listed = {who: names(world.call(who, "list_queues")["queues"], "queue") for who in everybody}
    assert {who for who, queues in listed.items() if queues} == may | sees


def test_unknown_and_unseen_answer_alike(jobs: World) -> None:
    for queue in ("a/jobs", "a/none", "none", "nobody/jobs", "b1/", "/", ""):
        with pytest.raises(NotFound, match=f"^no queue {queue}$"):
            jobs.call("b1", "put", queue=queue, body="x")


def test_an_agent_that_may_only_take_is_told_so(world: World) -> None:
    world.call("a", "open_queue", name="q", may_put=[], may_take=["children"])
    with pytest.raises(NotAllowed, match="put into a queue of a: its owner does not let you put"):
        world.call("a1", "put", queue="a/q", body="x")
    assert world.fault("a1", "close_queue", queue="a/q") == "NotAllowed"


def test_a_task_puts_into_its_parents_queue_only(jobs: World) -> None:
    """K18: a queue does not lift `task -> parent only`."""
    jobs.grow("a1/job:task")
    for owner, rule in (("a", "subtree"), ("a1", "children"), ("root", "subtree")):
        jobs.call(owner, "open_queue", name="open", may_put=[rule], may_take=[rule])
    assert jobs.fault("job", "open_queue", name="own") == "NotAllowed"
    answers = {
        queue: jobs.fault("job", "put", queue=queue, body="x")
        for queue in ("a/open", "a1/open", "root/open")
    }
    assert answers == {"a/open": "NotFound", "a1/open": "", "root/open": "NotFound"}
    assert jobs.fault("job", "take", queue="a/open") == "NotFound"


def test_a_rule_follows_the_tree_of_now(jobs: World) -> None:
    assert jobs.fault("a1", "put", queue="a/jobs", body="x") == ""
    jobs.call("operator", "move", agent="a1", parent="b")
    assert jobs.fault("a1", "put", queue="a/jobs", body="x") == "NotFound"


def test_names_in_a_rule_are_agents_that_see_the_owner_and_are_seen_by_it(world: World) -> None:
    assert world.fault("a", "open_queue", name="q", may_put=["b1"]) == "NotFound"
    assert world.fault("a", "open_queue", name="q", may_put=["nobody"]) == "NotFound"
    world.call("operator", "allow", agent="a", other="b1")
    with pytest.raises(InvalidArgument) as caught:
        world.call("a", "open_queue", name="q", may_take=["b1"])
    assert caught.value.field == "may_take"


def test_an_agent_with_an_old_name_does_not_have_the_old_rights(world: World) -> None:
    """Attack 40."""
    world.call("a", "open_queue", name="q", may_put=["a2"], may_take=[])
    world.call("operator", "destroy", agent="a2")
    world.call("a", "spawn", name="a2")
    assert world.fault("a2", "put", queue="a/q", body="x") == "NotFound"


def test_urgent_things_go_first_and_age(jobs: World) -> None:
    """As mail does; how urgent they may be follows from who puts them."""
    put(jobs, "low", priority=3)
    put(jobs, "usual")
    put(jobs, "clamped", priority=0)
    put(jobs, "urgent", who="a", priority=0)
    assert bodies(take(jobs, max=10)) == ["urgent", "usual", "clamped", "low"]
    put(jobs, "low", priority=3)
    jobs.advance(31)
    put(jobs, "usual")
    assert bodies(take(jobs, max=10)) == ["low", "usual"]


def test_a_filter_loses_nothing_and_leaves_the_order(jobs: World) -> None:
    for number in range(6):
        put(jobs, str(number), kind="even" if number % 2 == 0 else "odd")
    assert bodies(take(jobs, kind="odd", max=2)) == ["1", "3"]
    assert take(jobs, kind="none") == []
    assert bodies(take(jobs, max=10)) == ["0", "2", "4", "5"]


def test_a_bound_on_urgency_leaves_the_rest(jobs: World) -> None:
    put(jobs, "low", priority=3)
    put(jobs, "usual")
    assert bodies(take(jobs, min_priority=2, max=10)) == ["usual"]
    assert take(jobs, min_priority=2) == []
    assert bodies(take(jobs)) == ["low"]


def test_a_waiter_for_one_kind_is_not_asked_again_for_others(jobs: World) -> None:
    """HiveKernel put what did not match back and popped it again without a pause."""
    waiting = jobs.ask("a2", "take", queue="a/jobs", kind="odd", wait=50)
    parked = waiting.line.unpark
    put(jobs, "x", kind="even")
    assert waiting.pending
    assert waiting.line.unpark is parked  # made anew each time that it is asked
    put(jobs, "y", kind="odd")
    assert bodies(rows(waiting.result()["things"])) == ["y"]


def test_a_waiting_take_ends_with_nothing_after_its_time(jobs: World) -> None:
    waiting = jobs.ask("a2", "take", queue="a/jobs", wait=10)
    jobs.advance(10.1)
    assert waiting.result() == {"things": []}


def test_an_item_comes_back_when_its_lease_ends_also_to_a_waiting_caller(jobs: World) -> None:
    put(jobs, "x")
    take(jobs, "a1", lease=5)
    waiting = jobs.ask("a2", "take", queue="a/jobs", wait=50)
    jobs.advance(5.1)
    (thing,) = rows(waiting.result()["things"])
    assert thing["attempt"] == 2


def test_only_the_agent_that_took_it_acks_and_a_late_ack_counts(jobs: World) -> None:
    (id_,) = put(jobs, "x")
    take(jobs, "a1", lease=5)
    assert jobs.call("a2", "ack", ids=[id_, "q0", "nonsense"]) == {"acked": 0}
    jobs.advance(6)
    jobs.call("a2", "take", queue="a/jobs", kind="none")
    assert jobs.call("a1", "ack", ids=[id_]) == {"acked": 1}
    assert take(jobs) == []


def test_what_is_given_back_is_ready_at_once(jobs: World) -> None:
    (id_,) = put(jobs, "x")
    take(jobs, "a1")
    waiting = jobs.ask("a2", "take", queue="a/jobs", wait=50)
    jobs.call("a1", "nack", ids=[id_])
    assert bodies(rows(waiting.result()["things"])) == ["x"]


def test_an_abandoned_item_stays_for_the_owner_and_the_owner_is_told(small: World) -> None:
    (id_,) = put(small, "x")
    for _ in range(2):
        take(small, lease=5)
        small.advance(6)
    assert take(small) == []
    (letter,) = small.mail("a")
    assert (letter["kind"], id_ in str(letter["body"])) == ("queue_dead_letter", True)
    with pytest.raises(InvalidArgument):
        small.call("a2", "take", queue="a/jobs", dead=True)
    assert bodies(take(small, "a", dead=True)) == ["x"]
    assert small.call("a", "ack", ids=[id_]) == {"acked": 1}


def test_a_nack_can_give_up_at_once(jobs: World) -> None:
    (id_,) = put(jobs, "x")
    take(jobs)
    assert jobs.call("a2", "nack", ids=[id_], dead=True) == {"dead": [id_]}
    assert [row["kind"] for row in jobs.mail("a")] == ["queue_dead_letter"]
    assert rows(jobs.call("a", "list_queues")["queues"])[0]["dead"] is True


def test_a_queue_is_bounded_in_things_and_bytes_and_says_so(small: World) -> None:
    put(small, "1", "2", "3")
    with pytest.raises(LimitReached, match="the queue jobs is full"):
        small.call("a1", "put", queue="a/jobs", body="4")
    (thing,) = take(small)
    small.call("a2", "ack", ids=[thing["id"]])
    put(small, "4")
    assert small.fault("a", "open_queue", name="big", limit=6) == "InvalidArgument"
    small.call("a", "open_queue", name="big", limit=5)
    small.call("a1", "put", queue="a/big", body="x" * 65_535)
    assert small.fault("a1", "put", queue="a/big", body="xx") == "LimitReached"
    assert small.fault("a", "open_queue", name="third") == "LimitReached"
    assert small.fault("a1", "open_queue", name="jobs") == ""


def test_a_name_is_used_once_by_an_owner(jobs: World) -> None:
    assert jobs.fault("a", "open_queue", name="jobs") == "AlreadyExists"
    jobs.call("a", "close_queue", queue="jobs")
    assert jobs.fault("a", "open_queue", name="jobs") == ""


def test_a_flood_into_a_queue_meets_the_limit_of_sends(jobs: World) -> None:
    """Attack 37."""
    put(jobs, *["x"] * 200)
    assert jobs.fault("a1", "put", queue="a/jobs", body="x") == "LimitReached"
    assert jobs.fault("a2", "put", queue="a/jobs", body="x") == ""


def test_a_producer_of_a_closed_queue_hears_of_items_that_were_not_taken(jobs: World) -> None:
    ids = [*put(jobs, "1"), *put(jobs, "2", who="a2")]
    waiting = jobs.ask("a1", "take", queue="a/jobs", kind="none", wait=50)
    assert jobs.call("a", "close_queue", queue="jobs") == {"left": 2}
    jobs.advance(0.1)
    result = {who: [str(row["body"]) for row in jobs.mail(who)] for who in ("a1", "a2")}
    assert [ids[0] in result["a1"][0], ids[1] in result["a2"][0]] == [True, True]
    assert jobs.ledger.connection.value("SELECT COUNT(*) FROM things") == 0
    assert jobs.ledger.connection.value("SELECT COUNT(*) FROM queues") == 0
    with pytest.raises(NotFound):
        waiting.result()


def test_a_large_closed_queue_is_emptied_in_parts(jobs: World) -> None:
    for _ in range(13):
        put(jobs, *["x"] * 200, who="a2")
        jobs.advance(4)
        jobs.ledger.connection.begin()
        jobs.ledger.connection.run("UPDATE queues SET most = 9999")
        jobs.ledger.connection.commit()
    jobs.call("a", "close_queue", queue="jobs")
    jobs.advance(1)
    assert jobs.ledger.connection.value("SELECT COUNT(*) FROM lines") == 0
    assert len(jobs.mail("a2")) == 3


def test_the_end_of_an_owner_is_the_end_of_its_queues(jobs: World) -> None:
    put(jobs, "x")
    jobs.call("operator", "destroy", agent="a")
    jobs.advance(0.1)
    assert [row["kind"] for row in jobs.mail("a1")][-1] == "queue_closed"
    assert jobs.fault("a1", "put", queue="a/jobs", body="x") == "NotFound"
    assert jobs.ledger.connection.value("SELECT COUNT(*) FROM lines") == 0


def test_what_a_taker_had_is_free_when_it_ends(jobs: World) -> None:
    put(jobs, "x")
    take(jobs, "a2", lease=3600)
    waiting = jobs.ask("a1", "take", queue="a/jobs", wait=50)
    jobs.call("operator", "destroy", agent="a2")
    assert bodies(rows(waiting.result()["things"])) == ["x"]


def test_leases_move_with_a_clock_that_is_set(jobs: World) -> None:
    put(jobs, "x")
    take(jobs, lease=60)
    with jobs.ledger.transaction():
        jobs.ledger.shifts.move(1000.0, jobs.clock.now() + 1000, 9.0)
    jobs.advance(100)
    assert take(jobs) == []


def test_the_operator_has_no_queues_but_sees_and_serves_all(jobs: World) -> None:
    assert jobs.fault("operator", "open_queue", name="q") == "InvalidArgument"
    put(jobs, "x")
    (row,) = rows(jobs.call("operator", "list_queues")["queues"])
    assert (row["queue"], row["things"], row["mine"]) == ("a/jobs", 1, ["close", "put", "take"])
    assert len(rows(jobs.call("operator", "take", queue="a/jobs")["things"])) == 1


def test_queues_are_listed_in_pages(jobs: World) -> None:
    for number in range(4):
        jobs.call("b", "open_queue", name=f"hidden{number}")
        jobs.call("a", "open_queue", name=f"q{number}")
    names_seen: list[object] = []
    page: Reply = {"next": None}
    while True:
        page = jobs.call("a1", "list_queues", limit=2, after=page["next"])
        names_seen += names(page["queues"], "queue")
        if page["next"] is None:
            break
    assert names_seen == ["a/jobs", "a/q0", "a/q1", "a/q2", "a/q3"]


def test_a_repeated_put_is_one_thing(jobs: World) -> None:
    """Attack 42."""
    first = jobs.call("a1", "put", queue="a/jobs", body="x", idempotency_key="k")
    assert jobs.call("a1", "put", queue="a/jobs", body="x", idempotency_key="k") == first
    assert len(take(jobs, max=10)) == 1
