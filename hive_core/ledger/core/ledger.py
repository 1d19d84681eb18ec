"""The ledger: one SQLite file that records what was sent, requested, allowed and done.

It has one connection in one thread. A batch of calls is one transaction, and each call is a
savepoint in it. COMMIT returns when the disk has the data. Each noun has a small class and module.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final

from hive_core.errors import HiveError
from hive_core.ledger.accounts.confirmations import ConfirmationStore
from hive_core.ledger.accounts.links import OfferedLinkStore
from hive_core.ledger.accounts.logins import LoginStore
from hive_core.ledger.accounts.storage import AccountStore
from hive_core.ledger.agents.archives import Archives
from hive_core.ledger.agents.quarantines import QuarantineStore
from hive_core.ledger.agents.revocations import Revocations
from hive_core.ledger.approvals.deploys import DeployStore
from hive_core.ledger.approvals.generations import Generations
from hive_core.ledger.approvals.rollouts import RolloutStore
from hive_core.ledger.approvals.storage import Approvals
from hive_core.ledger.artifacts.storage import ArtifactStore
from hive_core.ledger.audit.events import AuditLog
from hive_core.ledger.budgets.storage import BudgetStore
from hive_core.ledger.colonies.storage import ColonyStore
from hive_core.ledger.core import opening, orphans
from hive_core.ledger.core.backup import back_up
from hive_core.ledger.core.clock_shift import Shifts
from hive_core.ledger.core.connection import Connection
from hive_core.ledger.core.idempotency_keys import Keys
from hive_core.ledger.core.jobs import COURSE as JOB_COURSE
from hive_core.ledger.core.jobs import JobTable
from hive_core.ledger.core.markers import Markers
from hive_core.ledger.core.retention import HistoryTrimmer
from hive_core.ledger.core.storage_use import StorageUse
from hive_core.ledger.credentials.storage import CredentialStore
from hive_core.ledger.machines.check_ins import CheckInStore
from hive_core.ledger.machines.exits import LifeStore
from hive_core.ledger.machines.runs import RunStore
from hive_core.ledger.machines.start_failures import StartFailureStore
from hive_core.ledger.machines.uid_ranges import UidRanges
from hive_core.ledger.mail.messages import Messages
from hive_core.ledger.mail.queues import QueueStore
from hive_core.ledger.models.storage import ModelCallStore
from hive_core.ledger.phases.storage import PhaseStore
from hive_core.ledger.plans.storage import PlanStore
from hive_core.ledger.questions.storage import QuestionStore
from hive_core.ledger.subagents.storage import SubAgentStore
from hive_core.ledger.tasks.storage import TaskStore
from hive_core.ledger.tools.storage import ToolStore
from hive_core.ledger.triggers.reminders import ReminderStore
from hive_core.ledger.triggers.storage import TriggerStore
from hive_core.ledger.turns.storage import TurnStore
from hive_core.model.agents.exits import Activity
from hive_core.model.agents.revocation import COURSE as REVOCATION_COURSE
from hive_core.model.config.approval import COURSE as APPROVAL_COURSE
from hive_core.model.config.settings import HostLimits
from hive_core.model.states import StateMachine
from hive_core.model.wire.live_text import LiveTurns
from hive_core.model.wire.rates import TokenBuckets
from hive_core.model.work.planning import BATCH, ITEM, PLAN, STEP, WAIT
from hive_core.model.work.question import COURSE as QUESTION_COURSE
from hive_core.model.work.task import COURSE as TASK_COURSE
from hive_core.model.work.trigger import FIRE

LIVE_RATE, LIVE_BURST = 4.0, 8  # live texts of one agent: a second, and in a burst
OPENINGS_A_MINUTE = 5  # logins that one address opens, or fails to
# Confirmations that are begun without a login, to open one by a passkey.
BEGUN_RATE, BEGUN_BURST = 1.0, 60
CODES, CODES_SECONDS = 5, 300  # TOTP codes that an account may try
REPORT_RATE, REPORT_BURST = 2.0, 20  # progress reports of one task: a second, and in a burst
MIGRATIONS: Final = Path(__file__).parents[1] / "migrations"
COURSES: Final[tuple[tuple[str, StateMachine], ...]] = (
    ("jobs", JOB_COURSE), ("approvals", APPROVAL_COURSE), ("questions", QUESTION_COURSE),
    ("tasks", TASK_COURSE),
    ("plans", PLAN), ("plan_steps", STEP), ("waits", WAIT), ("batches", BATCH),
    ("batch_items", ITEM), ("fires", FIRE), ("revocations", REVOCATION_COURSE),
)  # fmt: skip


def nothing(step: str) -> None:
    """The default for `step`: do nothing. Tests end the process there."""


class Transaction:
    """One transaction. An exception rolls the ledger back."""

    __slots__ = ("_ledger",)

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def __enter__(self) -> None:
        self._ledger.connection.begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        """Commit; after an error roll back."""
        if kind is None:
            self._ledger.commit()
        else:
            self._ledger.roll_back()


class Savepoint:
    """One call inside a transaction: all of it or nothing. Savepoints nest."""

    __slots__ = ("_ledger",)

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def __enter__(self) -> None:
        self._ledger.connection.save()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if kind is not None:
            self._ledger.connection.back()
        else:
            self._ledger.connection.release()


class Ledger:
    """Open it with `Ledger.open`; every change happens inside `transaction()`."""

    def __init__(
        self, connection: Connection, limits: HostLimits, step: Callable[[str], None]
    ) -> None:
        self.connection = connection
        self._step = step
        self._transaction = Transaction(self)
        self._savepoint = Savepoint(self)
        self.stored = StorageUse(connection)
        self.events = AuditLog(connection, limits)
        self._create_agent_stores(connection)
        self._create_change_stores(connection)
        self._create_work_stores(connection, limits)
        self._create_login_stores(connection)
        self.history = HistoryTrimmer(connection, self.stored)
        self._create_memory(limits)

    def _create_agent_stores(self, connection: Connection) -> None:
        """What an agent is and has."""
        self.keys = Keys(connection)
        self.ranges = UidRanges(connection)
        self.archives = Archives(connection)
        self.quarantines = QuarantineStore(connection)
        self.lives = LifeStore(connection)
        self.phases = PhaseStore(connection)
        self.colonies = ColonyStore(connection)
        self.subagents = SubAgentStore(connection)
        self.credentials = CredentialStore(connection)

    def _create_change_stores(self, connection: Connection) -> None:
        """What runs, and what is to be changed on the host."""
        self.runs = RunStore(connection)
        self.jobs = JobTable(connection)
        self.starts = StartFailureStore(connection)
        self.revocations = Revocations(connection)
        self.shifts = Shifts(connection)
        self.approvals = Approvals(connection)
        self.generations = Generations(connection)
        self.rollouts = RolloutStore(connection)
        self.deploys = DeployStore(connection)
        self.hellos = CheckInStore(connection)
        self.marks = Markers(connection)

    def _create_work_stores(self, connection: Connection, limits: HostLimits) -> None:
        """What agents do, and what it costs."""
        self.messages = Messages(connection, limits, self.stored)
        self.tasks = TaskStore(connection)
        self.plans = PlanStore(connection)
        self.questions = QuestionStore(connection)
        self.reminders = ReminderStore(connection)
        self.triggers = TriggerStore(connection)
        self.artifacts = ArtifactStore(connection)
        self.queues = QueueStore(connection)
        self.budgets = BudgetStore(connection, self.events)
        self.tools = ToolStore(connection)
        self.turns = TurnStore(connection)
        self.models = ModelCallStore(connection)

    def _create_login_stores(self, connection: Connection) -> None:
        """Stores of accounts, logins and confirmations."""
        self.accounts = AccountStore(connection)
        self.logins = LoginStore(connection)
        self.confirmations = ConfirmationStore(connection)
        self.offered_links = OfferedLinkStore(connection)

    def _create_memory(self, limits: HostLimits) -> None:
        """What is in memory only; a restart forgets it."""
        self.live = LiveTurns()
        self.live_rate = TokenBuckets(LIVE_RATE, LIVE_BURST)
        self.reports = TokenBuckets(REPORT_RATE, REPORT_BURST)
        self.egress_refusals = TokenBuckets(limits.refusals_kept / 60, limits.refusals_kept)
        self.unrecorded_egress = Counter[str]()  # refusals of each agent since the last event
        self.sends = TokenBuckets(limits.send_rate, limits.send_burst)
        self.changes = TokenBuckets(limits.change_rate, limits.change_burst)
        self.commits = TokenBuckets(limits.commit_rate, limits.commit_burst)
        self.openings = TokenBuckets(OPENINGS_A_MINUTE / 60, OPENINGS_A_MINUTE)
        self.begun = TokenBuckets(BEGUN_RATE, BEGUN_BURST)
        self.codes = TokenBuckets(CODES / CODES_SECONDS, CODES)
        # A batch that is run again must not be charged twice.
        self._charged = (
            self.sends, self.reports, self.changes, self.commits, self.openings, self.begun,
            self.codes, self.egress_refusals,
        )  # fmt: skip

    @classmethod
    def open(
        cls,
        path: Path,
        migrations: Path = MIGRATIONS,
        limits: HostLimits | None = None,
        step: Callable[[str], None] = nothing,
        primed: int = opening.PRIME_BYTES,
    ) -> Ledger:
        """Open the ledger in `path`; create it if absent.

        Raises Damaged, TooNew, Busy or LedgerBroken if it cannot be used. `step` is called by name
        between the parts of a COMMIT; tests end the process there. `primed` is the size in bytes to
        which the WAL is grown, for a process that runs for long.
        """
        connection = Connection(path)
        try:
            opening.configure(connection)
            opening.check(connection)
            opening.migrate(connection, migrations, step)
            opening.prime(connection, primed)
            return cls.start(connection, limits, step)
        except BaseException:
            connection.close()
            raise

    @classmethod
    def start(
        cls,
        connection: Connection,
        limits: HostLimits | None = None,
        step: Callable[[str], None] = nothing,
    ) -> Ledger:
        """Read from a checked file of this schema what a ledger keeps in memory."""
        ledger = cls(connection, limits or HostLimits(), step)
        with ledger.transaction():
            ledger._guard_states()
            ledger.messages.start()
            ledger.budgets.usage.open()
            ledger.quarantines.open()
            ledger.logins.load()
            ledger.stored.start()
        return ledger

    def close(self) -> None:
        """Close the file. Counts that no transaction has written are written first."""
        try:
            with self.transaction():
                self.events.reads.keep_counts()
                self.budgets.usage.flush(now=True)
        except HiveError:
            pass  # counts are not worth a failed stop
        self.connection.close()

    def transaction(self) -> Transaction:
        """A context: BEGIN IMMEDIATE ... COMMIT, with the fsync."""
        return self._transaction

    def savepoint(self) -> Savepoint:
        """A context inside a transaction: its changes are rolled back on any exception."""
        return self._savepoint

    def activity(self, agent: str) -> str:
        """The activity of an agent: from its tasks, waits and questions, or a delivered message."""
        activity = self.lives.activity(agent)
        idle = activity == Activity.IDLE.value
        return Activity.RUNNING.value if idle and self.messages.under_way(agent) else activity

    @property
    def schema(self) -> int:
        """The number of the last migration."""
        return int(self.connection.control("PRAGMA user_version")[0][0])

    @property
    def head(self) -> str:
        """The commit of the meta repository in force; empty before the first."""
        return self.connection.value("SELECT value FROM meta WHERE key = 'head'") or ""

    @head.setter
    def head(self, oid: str) -> None:
        self.connection.run("INSERT OR REPLACE INTO meta VALUES ('head', ?)", (oid,))

    def commit(self) -> None:
        """Commit the transaction: the changes are on disk when this returns."""
        try:
            self.messages.seal()
            self.budgets.usage.flush()
            self.logins.record_use()
            self.events.seal()
            self._step("commit")
            self.connection.commit()
        except BaseException:
            self.roll_back()
            raise
        self._step("committed")
        for buckets in self._charged:
            if buckets.changed:
                buckets.commit()

    def roll_back(self) -> None:
        for buckets in self._charged:
            buckets.roll_back()
        self.connection.roll_back()

    def back_up(self, path: Path) -> None:
        """Write a complete copy of the ledger. Call in a thread."""
        back_up(self.connection, path)

    def forget_leavings(self, before: float) -> int:
        """Delete unreferenced rows of agents that were destroyed before a time; return how many."""
        return orphans.forget(self.connection, self.events.base, before)

    def alarms(self) -> list[str]:
        """Faults for the operator: damage, a WAL that does not get shorter (attack 52)."""
        alarms = [self.connection.damage] if self.connection.damage else []
        log = self.connection.path.with_name(self.connection.path.name + "-wal")
        size = log.stat().st_size if log.exists() else 0
        if size > opening.WAL_LIMIT:
            alarms.append(f"the write-ahead log of the ledger has grown to {size >> 20} MiB")
        return alarms

    def checkpoint(self) -> None:
        """Move the WAL into the file. Useful when idle.

        Otherwise a commit does it when necessary.
        """
        self.connection.control("PRAGMA wal_checkpoint(PASSIVE)")

    def _guard_states(self) -> None:
        """Create triggers that abort illegal state changes, generated from the state machines."""
        stored: dict[str, str] = dict(
            self.connection.rows("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")
        )
        for table, course in COURSES:
            for name, sql in course.sql_triggers(table).items():
                if stored.get(name) != sql:
                    self.connection.run(f"DROP TRIGGER IF EXISTS {name}")
                    self.connection.run(sql)
