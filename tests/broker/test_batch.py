"""Batches: one transaction for all calls that arrived together, and replies only after COMMIT."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from fixtures.broker import BrokerClient, BrokerHarness, open_broker, spec
from fixtures.small_registry import Grown, Noted

from hive_core.broker.call import Call, Change, Record
from hive_core.broker.fair_queue import CHANGES, SHARE, WRITES
from hive_core.errors import Busy, Conflict, InvalidArgument, LimitReached, NotAllowed, StorageFull
from hive_core.host.git.repo import MetaRepo
from hive_core.ledger.core.connection import LedgerBroken
from hive_core.ledger.core.ledger import Ledger
from hive_core.model.agents.hive import Hive
from hive_core.model.agents.machine import DesiredState
from hive_core.model.config.settings import HostLimits, Settings


class Steps:
    """What happened between the parts of a change, in order; may end the process at one."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.die_at = ""

    def __call__(self, step: str) -> None:
        self.seen.append(step)
        if step == self.die_at:
            raise LedgerBroken(f"killed at {step}")


def test_calls_that_arrive_together_share_one_commit(folder: Path) -> None:
    steps = Steps()
    with open_broker(folder, step=steps) as harness:
        steps.seen.clear()
        clients = [harness.client("ann"), harness.client("bob"), harness.client("operator")]
        for client, agent in zip(clients, ("bob", "cat", "dan"), strict=True):
            client.ask("Note", {"agent": agent})
        harness.run()
        assert [client.result()["nonce"] for client in clients] == [1, 1, 1]
        assert steps.seen == ["commit", "committed"]


def test_a_batch_that_only_reads_has_no_transaction(folder: Path) -> None:
    steps = Steps()
    with open_broker(folder, step=steps) as harness:
        steps.seen.clear()
        harness.client("ann").call("Look")
        assert steps.seen == []


def test_a_reader_is_answered_before_the_disk_has_what_others_record(folder: Path) -> None:
    """Attack 37: an agent that floods fills each batch, and a disk takes its time."""
    seen, readers = list[int](), list[BrokerClient]()
    with open_broker(
        folder, step=lambda _: seen.extend(len(r.replies) for r in readers)
    ) as harness:
        writer, reader = harness.client("ann"), harness.client("dan")
        readers.append(reader)
        writer.ask("Note", {"agent": "bob"})
        reader.ask("Look")
        harness.turn()
        assert seen == [1, 1]
        assert writer.result() == {"nonce": 1}


def test_a_line_is_answered_in_order_whatever_it_mixes(harness: BrokerHarness) -> None:
    ann = harness.client("ann")
    for method in ("Look", "Grow", "Look", "Note", "Look"):
        ann.ask(method, {"name": "eve"} if method == "Grow" else {"agent": "bob"})
    harness.run()
    replies = ann.results()
    assert [entry.get("agents") for entry in replies] == [6, None, 7, None, 7]


def test_a_call_that_fails_after_its_effect_takes_back_its_own_only(harness: BrokerHarness) -> None:
    ann = harness.client("ann")
    for then in ("", "limit", "fault", "deny", ""):
        ann.ask("Note", {"agent": "bob", "then": then})
    harness.run()
    assert ann.result() == {"nonce": 1}
    with pytest.raises(LimitReached):
        ann.result()
    ann.replies.pop(0)
    with pytest.raises(NotAllowed):
        ann.result()
    assert ann.result() == {"nonce": 2}


def test_each_call_sees_what_the_one_before_it_changed(harness: BrokerHarness) -> None:
    ann = harness.client("ann")
    ann.ask("Grow", {"name": "eve"})
    ann.ask("Look", {"agent": "eve"})
    ann.ask("Grow", {"name": "fay", "parent": "eve"})
    ann.ask("Grow", {"name": "eve"})
    harness.turn()
    ann.result()
    assert ann.result() == {"name": "eve", "agents": 7}
    ann.result()
    with pytest.raises(Exception, match="taken"):
        ann.result()
    assert harness.hive.topology.parent("fay") == "eve"


def test_a_change_is_a_commit_with_trailers_on_top_of_the_one_before(
    harness: BrokerHarness,
) -> None:
    before = harness.hive.commit
    harness.client("ann").call("Grow", {"name": "eve"})
    after = harness.hive.commit
    assert after == harness.repo.head() == harness.ledger.head != before
    assert harness.repo.read(after).topology.parent("eve") == "ann"
    event = harness.events("change")[-1]
    assert (event.commit, event.operation, event.caller) == (after, "grow", spec("ann").id)
    assert frozenset({"tree", "events"}) in harness.woken


def test_a_change_that_fails_leaves_no_trace_in_the_batch(harness: BrokerHarness) -> None:
    ann = harness.client("ann")
    ann.ask("Grow", {"name": "eve", "then": "limit"})
    ann.ask("Grow", {"name": "fay"})
    harness.turn()
    with pytest.raises(LimitReached):
        ann.result()
    ann.result()
    assert "eve" not in harness.hive.topology
    assert "fay" in harness.repo.read(harness.repo.head()).topology


def test_a_batch_has_at_most_four_changes_and_the_rest_come_next(harness: BrokerHarness) -> None:
    clients = [harness.client("root") for _ in range(7)]
    for number, client in enumerate(clients):
        client.ask("Grow", {"name": f"new{number}"})
    harness.turn()
    assert sum(bool(client.replies) for client in clients) == CHANGES
    harness.run()
    assert all(client.result()["uuid"] for client in clients)


def test_a_change_too_many_holds_up_no_reader(harness: BrokerHarness) -> None:
    for number in range(CHANGES + 1):
        harness.client("root").ask("Grow", {"name": f"new{number}"})
    reader = harness.client("ann")
    reader.ask("Look")
    harness.turn()
    assert reader.result()["name"] == "ann"


def test_one_line_gets_a_share_of_a_batch_and_the_others_theirs(harness: BrokerHarness) -> None:
    busy, other = harness.client("ann"), harness.client("bob")
    for _ in range(SHARE + 10):
        busy.ask("Look")
    other.ask("Look")
    harness.turn()
    assert len(busy.replies) == SHARE
    assert len(other.replies) == 1
    harness.run()
    assert len(busy.replies) == SHARE + 10


def test_what_one_party_records_in_a_batch_is_less_than_what_it_reads(
    harness: BrokerHarness,
) -> None:
    ann = [harness.client("ann") for _ in range(2)]
    for client in ann:
        for _ in range(WRITES):
            client.ask("Note", {"agent": "bob"})
    harness.turn()
    assert sum(len(client.replies) for client in ann) == WRITES
    harness.run()
    assert sum(len(client.replies) for client in ann) == 2 * WRITES


@pytest.mark.parametrize("step", ["objects", "locked", "commit", "committed"])
def test_a_daemon_that_dies_at_a_step_has_answered_nothing(folder: Path, step: str) -> None:
    steps = Steps()
    with open_broker(folder, step=steps) as harness:
        ann = harness.client("ann")
        before, steps.die_at = harness.hive.commit, step
        ann.ask("Grow", {"name": "eve"})
        with pytest.raises(LedgerBroken):
            harness.run()
        assert not ann.replies
        assert harness.repo.head() == before
        steps.die_at = ""
    with closing(Ledger.open(folder / "hive.db")) as ledger:
        repo = MetaRepo.open(folder / "meta")
        recovered = repo.recover(ledger.head)
        assert ("eve" in repo.read(repo.head()).topology) == (step == "committed")
        assert recovered.head == ledger.head == repo.head()


def test_a_hand_commit_is_adopted_before_the_change_that_met_it(harness: BrokerHarness) -> None:
    def adopt() -> None:
        recovered = harness.repo.recover(harness.ledger.head)
        assert recovered.hive is not None
        harness.broker.adopt(recovered.hive, recovered.head, "hand")

    harness.broker.branch_moved = adopt
    by_hand(harness, "eve")
    harness.client("ann").call("Grow", {"name": "fay"})
    tree = harness.repo.read(harness.repo.head()).topology
    assert {"eve", "fay"} <= set(tree)
    assert [item.operation for item in harness.events("adopt")] == ["hand"]


def test_a_branch_that_stays_in_other_hands_makes_changes_busy_and_nothing_else(
    harness: BrokerHarness,
) -> None:
    ann, bob = harness.client("ann"), harness.client("bob")
    by_hand(harness, "eve")
    ann.ask("Grow", {"name": "fay"})
    bob.ask("Note", {"agent": "cat"})
    harness.run()
    with pytest.raises(Busy, match="by hand"):
        ann.result()
    assert bob.result() == {"nonce": 1}


def test_the_others_share_one_commit_beside_a_change_that_cannot_be_made(folder: Path) -> None:
    seen: list[str] = []
    with open_broker(folder, step=seen.append) as harness:
        ann, bob = harness.client("ann"), harness.client("bob")
        by_hand(harness, "eve")
        seen.clear()
        ann.ask("Grow", {"name": "fay"})
        for _ in range(3):
            bob.ask("Note", {"agent": "cat"})
        harness.run()
        with pytest.raises(Busy, match="by hand"):
            ann.result()
        assert [reply["nonce"] for reply in bob.results()] == [1, 2, 3]
        assert seen.count("committed") == 1


def test_a_batch_that_is_run_again_takes_its_tokens_once(folder: Path) -> None:
    limits = HostLimits(change_rate=0.01, change_burst=2)
    with open_broker(folder, settings=Settings(limits=limits)) as harness:
        ann, operator = harness.client("ann"), harness.client("operator")
        ann.ask("Note", {"agent": "bob"})
        operator.ask("Note", {"agent": "bob", "then": "limit"})
        harness.run()
        assert ann.result() == {"nonce": 1}
        assert ann.call("Note", {"agent": "bob"}) == {"nonce": 2}
        with pytest.raises(LimitReached, match="too many calls"):
            ann.call("Note", {"agent": "bob"})


def test_what_the_daemon_does_by_itself_takes_the_same_steps(harness: BrokerHarness) -> None:
    def handler(call: Call) -> Change[Grown]:
        hive = call.hive.with_agent("eve", "root", spec("eve"))
        return Change(Grown(uuid="u"), hive, "grow eve")

    assert harness.broker.perform("ensure", handler) == Grown(uuid="u")
    event = harness.events("change")[-1]
    assert (event.caller, event.operation, event.rule) == ("daemon", "ensure", "daemon")
    assert harness.repo.head() == harness.hive.commit == event.commit

    def failing(call: Call) -> Record[Noted]:
        call.ledger.runs.want(spec("eve").id, DesiredState.RUNNING, call.now)
        raise Conflict("no")

    with pytest.raises(Conflict):
        harness.broker.perform("fail", failing)
    assert harness.ledger.runs.get(spec("eve").id) is None


def test_a_next_hive_that_is_no_forest_is_refused(harness: BrokerHarness) -> None:
    def handler(call: Call) -> Change[Grown]:
        return Change(Grown(uuid="u"), Hive("", call.hive.topology, {}), "lose the specs")

    with pytest.raises(InvalidArgument):
        harness.broker.perform("break", handler)


@pytest.fixture
def own_harness(folder: Path) -> Iterator[BrokerHarness]:
    """With a ledger that no other test uses."""
    with open_broker(folder) as opened:
        yield opened


def full(harness: BrokerHarness) -> None:
    """From now on the file of the ledger cannot grow."""
    harness.ledger.connection.control("VACUUM")
    (pages,) = harness.ledger.connection.control("PRAGMA page_count")[0]
    harness.ledger.connection.control(f"PRAGMA max_page_count = {pages}")


def test_on_a_full_disk_only_the_call_that_does_not_fit_fails(own_harness: BrokerHarness) -> None:
    """The whole transaction is rolled back, so the batch is run again one by one."""
    full(own_harness)
    ann, bob = own_harness.client("ann"), own_harness.client("bob")
    ann.ask("Tell", {"agent": "ann", "text": "x" * 200_000})
    ann.ask("Look")
    bob.ask("Note", {"agent": "cat"})
    own_harness.run()
    with pytest.raises(StorageFull):
        ann.result()
    assert ann.result()["name"] == "ann"
    assert bob.result() == {"nonce": 1}


def test_an_urgent_call_may_use_the_ballast(own_harness: BrokerHarness) -> None:
    spared: list[bool] = []

    def spare() -> bool:
        own_harness.ledger.connection.control("PRAGMA max_page_count = 100000")
        spared.append(True)
        return True

    full(own_harness)
    ann = own_harness.client("ann")
    letter = {"agent": "ann", "text": "x" * 50_000}
    assert isinstance(ann.error("Tell", letter), StorageFull)
    own_harness.broker.release_ballast = spare
    assert isinstance(ann.error("Tell", letter), StorageFull)
    assert not spared
    for number in range(100):
        ann.call("Note", {"agent": "bob", "idempotency_key": f"{number:0>100}"})
    assert spared


def by_hand(harness: BrokerHarness, name: str) -> None:
    """Commit a new agent with git."""
    head = harness.repo.head()
    before = harness.repo.read(head)
    hive = before.with_agent(name, "root", spec(name))
    oid = harness.repo.write(hive, before, f"add {name}", {})
    with harness.repo.hold(head) as move:
        move(oid)


def test_a_late_failure_runs_its_batch_again_and_the_next_ones_with_savepoints(
    folder: Path,
) -> None:
    """Calls begin without savepoints. Who makes calls fail late must not double every batch."""
    steps = Steps()
    with open_broker(folder, step=steps) as harness:
        ann, bob = harness.client("ann"), harness.client("bob")
        for _ in range(2):
            bob.ask("Note", {"agent": "cat"})
            ann.ask("Note", {"agent": "bob", "then": "limit"})
            ann.ask("Note", {"agent": "bob"})
            steps.seen.clear()
            harness.run()
            assert steps.seen == ["commit", "committed"]
        assert harness.broker._batches_with_savepoints > 90
        assert [reply.get("error") is None for reply in ann.replies] == [False, True] * 2
        assert [result["nonce"] for result in bob.results()] == [1, 2]
        assert harness.ledger.events.verify() is None
        assert len(harness.events("record")) == 4
