"""The table of states: total, ordered, and with the meaning that the contract gives the words."""

from dataclasses import replace
from itertools import product

from each import for_each

from hive_core.model.agents.machine import DesiredRun, DesiredState, FailureHistory, Machine, State
from hive_core.plan.state import TABLE, Facts, Phase, Trouble, facts, phase, state_of, trouble

FLAG = (False, True)
EVERYTHING = [
    Facts(*values)
    for values in product((None, *DesiredState), FLAG, Phase, FLAG, FLAG, Trouble, FLAG)
]
UP = Machine("u", active="active", nonce=3, verified=True, executed=True, mounted=True)
RUN = DesiredRun("u", DesiredState.RUNNING, 3)


def test_every_combination_has_exactly_one_state() -> None:
    for facts_ in EVERYTHING:
        assert state_of(facts_) in State


def test_every_line_of_the_table_decides_something() -> None:
    deciding = {
        next(index for index, (holds, _) in enumerate(TABLE) if holds(facts_))
        for facts_ in EVERYTHING
    }
    assert deciding == set(range(len(TABLE)))


def test_every_state_can_be_reached() -> None:
    assert {state_of(facts_) for facts_ in EVERYTHING} == set(State)


def test_running_needs_an_active_unit_of_this_nonce_verified_and_executed() -> None:
    """Attack 1: a machine whose user namespace was not seen never counts."""
    for facts_ in EVERYTHING:
        if state_of(facts_) in (State.RUNNING, State.DEGRADED):
            assert facts_.phase is Phase.UP
            assert facts_.healthy
            assert facts_.current
            assert facts_.wanted is DesiredState.RUNNING


@for_each(
    "run, machine, state",
    [
        (RUN, UP, State.RUNNING),
        (RUN, replace(UP, mounted=False), State.DEGRADED),
        (RUN, replace(UP, verified=False), State.STARTING),
        (RUN, replace(UP, executed=False), State.STARTING),
        (RUN, replace(UP, nonce=2), State.STOPPING),
        (RUN, replace(UP, active="activating"), State.STARTING),
        (RUN, replace(UP, active="deactivating"), State.STOPPING),
        (RUN, Machine("u"), State.STARTING),
        (RUN, Machine("u", active="failed"), State.STARTING),
        (replace(RUN, wanted=DesiredState.STOPPED), UP, State.STOPPING),
        (replace(RUN, wanted=DesiredState.STOPPED), Machine("u"), State.STOPPED),
        (replace(RUN, wanted=DesiredState.SLEEPING), Machine("u"), State.SLEEPING),
        (None, Machine("u"), State.ABSENT),
        (None, UP, State.STOPPING),
    ],
)
def test_the_state_of_a_machine(run: DesiredRun | None, machine: Machine, state: State) -> None:
    assert state_of(facts(run, machine)) is state


def test_failures_count_until_a_fresh_start_is_wanted() -> None:
    failed = FailureHistory(failures=(1.0,), nonce=3)
    assert trouble(RUN, failed) is Trouble.FAILED
    assert trouble(RUN, replace(failed, parked=True)) is Trouble.PARKED
    assert trouble(replace(RUN, nonce=4), failed) is Trouble.NONE
    assert state_of(facts(RUN, Machine("u"), failed)) is State.FAILED
    assert state_of(facts(RUN, Machine("u"), replace(failed, parked=True))) is State.PARKED


def test_an_unknown_state_of_systemd_counts_as_down() -> None:
    assert phase(Machine("u", active="thawing")) is Phase.DOWN
