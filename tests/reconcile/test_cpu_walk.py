"""Random walks of one machine: its CPU time is counted once, and completely."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from itertools import count

import pytest
from fixtures.reconciler import ReconcilerHarness
from hypothesis import given, settings
from hypothesis import strategies as st
from long import times
from reconcile.test_meter import cpu_used, destroy, meter, story

from hive_core.model.agents.machine import Cpu, DesiredState, Exit

NEXT = count(1)


@dataclass
class Walk:
    """`made`: how many groups this boot has seen; each boot begins anew."""

    harness: ReconcilerHarness
    boot: int = 0
    made: int = 0
    total: int = 0
    _run: str = ""

    @property
    def bob(self) -> str:
        return self.harness.uuid("bob")

    def burn(self, millis: int) -> None:
        """It works if it runs; a replaced machine has another control group."""
        host, unit = self.harness.host, self.harness.host.units.get(self.bob)
        if unit is None:
            return
        if unit.invocation != self._run:
            self._run, self.made = unit.invocation, self.made + 1
        before = host.used.get(self.bob, Cpu("", 0)).used
        group = f"{self.boot}/{self.made}"
        host.used[self.bob] = Cpu(group, before + millis * 1000)
        self.total += millis

    async def is_measured(self) -> None:
        await meter(self.harness).record_all()

    async def is_stopped(self) -> None:
        await self.harness.want(DesiredState.STOPPED, "bob")

    async def is_started(self) -> None:
        await self.harness.want(DesiredState.RUNNING, "bob", fresh=True)

    async def crashes(self) -> None:
        if self.bob in self.harness.host.units:
            self.harness.host.crash(self.bob)
            await self.harness.settle()
        await self.harness.advance(1000)

    async def crashes_unseen(self) -> None:
        self.harness.host.forget_watchers()
        if self.bob in self.harness.host.units:
            self.harness.host.crash(self.bob)
        await self.daemon_restarts()

    async def reboots_unseen(self) -> None:
        """The guest: systemd starts its machine again, and the daemon finds that one."""
        host, unit = self.harness.host, self.harness.host.units.get(self.bob)
        if unit is None:
            return
        host.forget_watchers()
        host.end(self.bob, Exit(unit.invocation, "exit-code", "exited", "133", unit.nonce))
        host.units[self.bob] = replace(unit, invocation=f"again{next(NEXT)}")
        self.burn(7)
        await self.daemon_restarts()

    async def daemon_restarts(self) -> None:
        self.harness.restart()
        await self.harness.settle()

    async def host_reboots(self) -> None:
        """CPU time that was not measured before the reboot is lost, as the guide says."""
        await self.is_measured()
        self.harness.host.reboot()
        self.harness.host.used.clear()
        self.boot, self.made = self.boot + 1, 0
        await self.daemon_restarts()


Step = Callable[[Walk], Awaitable[None]]
STEPS: Mapping[str, Step] = {
    step.__name__: step
    for step in (
        Walk.is_measured, Walk.is_stopped, Walk.is_started, Walk.crashes, Walk.crashes_unseen,
        Walk.reboots_unseen, Walk.daemon_restarts, Walk.host_reboots,
    )
}  # fmt: skip
WALKS = st.lists(st.tuples(st.integers(0, 3000), st.sampled_from([*STEPS])), max_size=10)


@pytest.mark.sized
@settings(max_examples=times(6, 80), deadline=None)
@given(WALKS)
def test_all_that_a_machine_used_is_counted_once(
    tmp_path_factory: pytest.TempPathFactory, walk: list[tuple[int, str]]
) -> None:
    async def tell(harness: ReconcilerHarness) -> None:
        there, bob = Walk(harness), harness.uuid("bob")
        for millis, step in walk:
            there.burn(millis)
            await STEPS[step](there)
            assert cpu_used(harness, bob) <= there.total
        there.burn(5)
        await destroy(harness, "bob")
        assert cpu_used(harness, bob) == there.total

    story(tmp_path_factory.mktemp("walk"), tell)
