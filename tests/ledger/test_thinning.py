"""Attack 62: of a full audit log the branch with most of it loses, and the chain stays whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from fixtures.messages import UndoRequested, request_undo
from fixtures.seeds import empty_ledger, folder_in_ram
from hypothesis import given, settings
from hypothesis import strategies as st
from long import times

from hive_core.ledger.audit.events import AuditEntry, run_to_end
from hive_core.ledger.core.ledger import Ledger
from hive_core.model.config.settings import MIB, HostLimits
from hive_core.model.wire.record import DAEMON

LIMITS = HostLimits(events=1000, events_bytes=MIB)


def write(
    ledger: Ledger, caller: str, count: int = 1, text: str = "", target: str = ""
) -> None:  # fmt: skip
    with ledger.transaction():
        for _ in range(count):
            ledger.events.append(
                AuditEntry("record", caller, "send", target, None, "", text, "", "r", 1.0)
            )  # fmt: skip


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    empty_ledger().plant(tmp_path)
    with closing(Ledger.open(tmp_path / "hive.db", limits=LIMITS, primed=0)) as result:
        yield result


def callers(ledger: Ledger) -> list[str]:
    return [event.caller for event in ledger.events.page(0, 5000)]


@pytest.mark.parametrize("text", ["", "x" * 3000])
def test_attack_62_an_agent_that_records_as_fast_as_it_can_pushes_out_its_own_trail_alone(
    ledger: Ledger, text: str
) -> None:
    write(ledger, "bob", 100)
    assert ledger.events.verify() is None
    for _ in range(100):
        write(ledger, "eve", 30, text)
        write(ledger, "ann", 1)
    result = callers(ledger)
    assert (result.count("bob"), result.count("ann")) == (100, 100)
    assert 50 < result.count("eve") <= 800
    assert ledger.events.size()[0] == len(result) <= LIMITS.events
    assert ledger.events.size()[1] <= LIMITS.events_bytes
    assert ledger.events.verify() is None
    # The newest of each are there, and who was away is told of the rest.
    assert ledger.events.page(ledger.events.last - 1, 1)[0].caller == "ann"
    assert ledger.events.thinning.last() > 100


def test_attack_62_an_agent_that_makes_others_has_one_share_with_them(ledger: Ledger) -> None:
    ledger.events.thinning.branch_of = lambda party: party[0]
    write(ledger, "bob", 200)
    assert ledger.events.verify() is None
    for number in range(200):
        write(ledger, f"eve{number}", 10)
    result = callers(ledger)
    assert result.count("bob") == 200
    assert len(result) <= LIMITS.events


def test_attack_62_what_the_daemon_writes_of_one_pushes_out_nothing_that_it_wrote_of_others(
    ledger: Ledger,
) -> None:
    """An agent that is idle and busy by turns makes the daemon write as fast as it can ask."""
    write(ledger, DAEMON, 100, target="bob")
    write(ledger, DAEMON, 50)
    assert ledger.events.verify() is None
    for _ in range(100):
        write(ledger, "eve", 15)
        write(ledger, DAEMON, 15, target="eve")
    result = [(event.caller, event.target) for event in ledger.events.page(0, 5000)]
    assert (result.count((DAEMON, "bob")), result.count((DAEMON, ""))) == (100, 50)
    assert result.count((DAEMON, "eve")) + result.count(("eve", "")) <= 850
    assert ledger.events.verify() is None


def test_attack_62_the_loser_is_not_chosen_at_each_commit(ledger: Ledger) -> None:
    """It asks the branch of each party, and agents that were destroyed are parties: a full log of
    20,000 of them held up each COMMIT for 0.2 seconds.
    """
    asked: list[str] = []

    def branch_of(party: str) -> str:
        asked.append(party)
        return party[:3]

    ledger.events.thinning.branch_of = branch_of
    for number in range(200):
        write(ledger, f"bob{number}")
    assert ledger.events.verify() is None
    for _ in range(100):
        write(ledger, "eve", 30)
    assert len(asked) < 201 * 20
    result = callers(ledger)
    assert len({caller for caller in result if caller.startswith("bob")}) == 200
    assert len(result) <= LIMITS.events


def test_until_the_shares_are_known_the_oldest_go(ledger: Ledger) -> None:
    write(ledger, "bob", 100)
    for _ in range(20):
        write(ledger, "eve", 100)
    assert callers(ledger).count("bob") == 0
    assert ledger.events.verify() is None
    assert ledger.events.size()[0] <= LIMITS.events


@pytest.mark.parametrize("edit", ["UPDATE events SET body = replace(body, 'send', 'recv')",
                                  "DELETE FROM events"])  # fmt: skip
def test_an_edit_or_a_deletion_is_found_beside_what_was_thinned_out(
    ledger: Ledger, edit: str
) -> None:
    write(ledger, "bob", 100)
    assert ledger.events.verify() is None
    for _ in range(100):
        write(ledger, "eve", 20)
        write(ledger, "ann", 1)
    with ledger.transaction():
        assert ledger.connection.run(
            f"{edit} WHERE body LIKE '%ann%' AND seq > 1500 AND seq < 1530"
        )
    assert ledger.events.verify() is not None


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ann", "bob", "eve", "eve", "eve"]), st.integers(1, 400),
        st.sampled_from(["", "", "x" * 2000]),
        st.sampled_from(["", "", "back", "walk", "prune", "note"]),
    ), max_size=14,
)  # fmt: skip


def _do(ledger: Ledger, then: str, caller: str, text: str) -> None:
    log = ledger.events
    match then:
        case "back":
            with suppress(UndoRequested), ledger.transaction():
                log.append(AuditEntry("x", caller, "y", "", None, "", text, "", "", 1.0))
                log.seal()
                request_undo()
        case "prune":
            with ledger.transaction():
                log.prune(log.last - 500)
        case "note":
            with ledger.transaction():
                log.append(AuditEntry("own.x", caller, "y", "", None, "", "", "", "", 1.0))
        case _:
            pass


def _compare(ledger: Ledger) -> None:
    log = ledger.events
    assert log.verify() is None
    rows = log.raw(0, 5000)
    assert log.size() == (len(rows), sum(len(row[2]) + 64 for row in rows))
    assert log.thinning.shares is not None
    assert sum(log.thinning.shares.values()) == log.size()[1]


@settings(deadline=None, max_examples=times(15, 200))
@given(STEPS)
def test_the_chain_is_whole_and_counted_whatever_goes(
    steps: list[tuple[str, int, str, str]],
) -> None:
    with folder_in_ram() as folder:
        empty_ledger().plant(folder)
        with closing(Ledger.open(folder / "hive.db", limits=LIMITS, primed=0)) as ledger:
            assert ledger.events.verify() is None
            walk = ledger.events.walk()
            for caller, count, text, then in steps:
                write(ledger, caller, count, text)
                if then == "walk":
                    walk = ledger.events.walk()
                with suppress(StopIteration):
                    next(walk)
                _do(ledger, then, caller, text)
            assert run_to_end(walk) is None
            _compare(ledger)
        with closing(Ledger.open(folder / "hive.db", limits=LIMITS, primed=0)) as ledger:
            assert ledger.events.verify() is None
