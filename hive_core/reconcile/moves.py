"""Taking away what a move takes from the agents above: written down first, then done (RUNTIME 9).

Who loses is known only while the node still lies in its old place, so it goes into the progress of
the move's job before the rename. A daemon that dies in between goes on from there.
"""

from __future__ import annotations

from collections.abc import Mapping

from hive_core.ledger.store import Ledger
from hive_core.model.machine import Run, Wanted
from hive_core.model.record import DAEMON, Job
from hive_core.plan.actions import MoveNode
from hive_core.plan.place import Place, Places
from hive_core.plan.results import Ended
from hive_core.reconcile.wishes import DONE, PENDING, losers

MOVED = "moved"


def losing(places: Places, action: MoveNode) -> list[str]:
    """Those above the old place that are not above the new one; who was destroyed has lost all."""
    lost = [short for short in action.source[:-1] if short not in action.target]
    known = {uuid[:8]: uuid for uuid in places.by_uuid}
    return [known[short] for short in lost if short in known]


def announce(
    ledger: Ledger, jobs: Mapping[str, Job], uuid: str, lost: list[str], now: float
) -> None:
    """Inside a transaction, before the rename."""
    job = next((job for job in jobs.values() if job.goals.get(uuid) == MOVED), None)
    if job is None:
        job = ledger.jobs.create("move", DAEMON, {uuid: MOVED}, now)
    marks = {**dict.fromkeys(lost, PENDING), **losers(job)}
    ledger.jobs.progress(job.id, {"ended": [], **job.progress, "losers": marks})


def scanned(ledger: Ledger, jobs: Mapping[str, Job], place: Place, found: Ended) -> set[str]:
    """Inside a transaction: the holders of one agent are ended. Jobs that are further now."""
    ended = [f"pid {each.pid} ({each.command}) of {place.name}" for each in found.holders]
    return _mark(ledger, jobs, place.uuid, DONE, ended)


def renewed(
    ledger: Ledger, jobs: Mapping[str, Job], place: Place, run: Run, now: float
) -> set[str]:
    """Inside a transaction: an agent that may have mounted what moved away starts afresh."""
    if run.wanted is not Wanted.RUNNING:
        return _mark(ledger, jobs, place.uuid, DONE, [])
    reason = "what it could see has moved away"
    fresh = ledger.runs.want(
        place.uuid, Wanted.RUNNING, now, grace=run.grace, reason=reason, fresh=True
    )
    return _mark(ledger, jobs, place.uuid, str(fresh.nonce), [f"all of {place.name}"])


def _mark(
    ledger: Ledger, jobs: Mapping[str, Job], uuid: str, mark: str, ended: list[str]
) -> set[str]:
    touched = set()
    for job in jobs.values():
        if losers(job).get(uuid) != PENDING:
            continue
        before = job.progress.get("ended", [])
        known = before if isinstance(before, list) else []
        marks = {**losers(job), uuid: mark}
        ledger.jobs.progress(job.id, {**job.progress, "losers": marks, "ended": [*known, *ended]})
        touched.add(f"job:{job.id}")
    return touched
