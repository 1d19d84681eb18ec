"""Work in a tree by one daemon after another, each of which is ended by SIGKILL at a random step.

A life is a forked process with the real broker, ledger and git on the disk that the last one left.
It says what it asks before it asks, and what it was answered. The next life asks again, with the
same key, what was not answered.
"""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from fixtures.world import World, rows

from hive_core.errors import HiveError
from hive_core.ledger.core.ledger import nothing
from hive_core.model.config.models import ModelsFile
from hive_core.model.config.settings import HostLimits, Settings
from hive_core.model.wire.record import OPERATOR
from hive_core.model.work.budget import BudgetKind
from hive_core.model.work.task import TaskState
from hive_core.testing import ManualClock

Row = dict[str, Any]
SETTINGS = Settings(
    limits=HostLimits(attempts=10_000, inbox_count=100_000, change_burst=10**6, send_burst=10**6)
)
WORKERS = ("wa", "wb", "wc")
TREE = ("root", "root/lead:lead", *(f"lead/{name}:worker" for name in WORKERS), "root/bell")
QUEUE, EVERY, GIVEN = "lead/jobs", 30.0, 10**9
# Before COMMIT, after it and before the branch moves, and before the answer is written.
STEPS = ("commit", "committed", "answered")


@dataclass
class History:
    """All calls and replies of the earlier lives, as their clients saw them."""

    time: float = 1_700_000_000.0
    steady: float = 1000.0
    asked: list[Row] = field(default_factory=list)
    answers: dict[int, Row] = field(default_factory=dict)
    got: list[Row] = field(default_factory=list)
    kills: Counter[str] = field(default_factory=Counter)

    def hear(self, row: Row) -> None:
        match row:
            case {"clock": [time, steady]}:
                self.time, self.steady = time, steady
            case {"asked": _}:
                self.asked.append(row)
            case {"answered": number, "result": result}:
                self.answers[number] = result
            case {"got": _}:
                self.got.append(row)
            case {"killed": step}:
                self.kills[step] += 1
            case _:
                raise AssertionError(row)

    @property
    def open(self) -> Row | None:
        """The last call, if it was not answered."""
        last = self.asked[-1] if self.asked else None
        return last if last is not None and last["asked"] not in self.answers else None

    def answered_calls(self, operation: str) -> list[tuple[Row, Row]]:
        """Allowed calls of an operation, with their replies."""
        return [
            (row, self.answers[row["asked"]]) for row in self.asked
            if row["operation"] == operation and "refused" not in self.answers[row["asked"]]
        ]  # fmt: skip


class RestartedWorld(World):
    """The next daemon, at the time at which the last one ended."""

    def __init__(self, folder: Path, history: History) -> None:
        self.settings, self.folder, self.models = SETTINGS, folder, ModelsFile()
        self.skills = {}
        self.clock = ManualClock(history.time, history.steady)
        self.step = nothing
        self._open()

    def repeat_call(self, row: Row) -> Row:
        """Make a call, again with the same key where it was made before, and return its result."""
        try:
            return self.call(row["caller"], row["operation"], **row["params"])
        except HiveError as error:
            return {"refused": type(error).__name__}


class RandomWork:
    """Random work in a separate process, until the chosen step kills it."""

    def __init__(
        self, folder: Path, history: History, chance: Random, tell: Callable[[Row], None]
    ) -> None:
        self._tell, self._chance, self._next = tell, chance, len(history.asked)
        self._left, self._at = chance.randint(1, 40), chance.choice(STEPS)
        self.world = RestartedWorld(folder, history)
        self.world.ledger._step = self._step
        self._history = history

    def run_until_killed(self) -> None:
        self.world.run()
        if (open_ := self._history.open) is not None:
            self._ask_again(open_)
        acts = (
            self.assign, self.assign, self.finish, self.finish, self.ask, self.answer, self.remind,
            self.send, self.read, self.put, self.take, self.report, self.give, self.store,
            self.plan, self.approve, self.wait, self.pass_time, self.pass_time,
        )  # fmt: skip
        while True:
            self._chance.choice(acts)()

    def _step(self, name: str) -> None:
        if name != self._at:
            return
        self._left -= 1
        if self._left <= 0:
            self._tell({"killed": name})
            os.kill(os.getpid(), signal.SIGKILL)

    def do(self, caller: str, operation: str, **params: object) -> Row:
        number, self._next = self._next, self._next + 1
        row = {
            "asked": number, "caller": caller, "operation": operation,
            "params": {**params, "idempotency_key": f"k{number}"},
        }  # fmt: skip
        self._tell(row)
        return self._ask_again(row)

    def _ask_again(self, row: Row) -> Row:
        result = self.world.repeat_call(row)
        self._step("answered")
        self._tell({"answered": row["asked"], "result": result})
        return result

    # What agents do.

    @property
    def worker(self) -> str:
        return self._chance.choice(WORKERS)

    def assign(self) -> None:
        words: Row = {"plan_required": True} if self._chance.random() < 0.2 else {}
        deadline = self._chance.choice((0.0, 0.0, 150.0))
        text = f"job {self._next}"
        self.do("lead", "assign_task", agent=self.worker, description=text, title=text,
                deadline=deadline, **words)  # fmt: skip

    def _task(self, name: str, *, locked: bool) -> str:
        tasks = self.world.ledger.tasks.open_tasks(self.world.uuid(name))
        fit = [task.id for task in tasks if task.state is TaskState.IN_PROGRESS
               and bool(task.locked) == locked]  # fmt: skip
        return self._chance.choice(fit) if fit else ""

    def finish(self) -> None:
        name = self.worker
        if task := self._task(name, locked=False):
            summary = f"did {self._next}"
            self.do(name, "finish_task", task=task, status="success", summary=summary, tokens=3)

    def plan(self) -> None:
        name = self.worker
        if task := self._task(name, locked=True):
            self.do(name, "create_plan", task=task, steps=[{"title": f"step {self._next}"}])

    def approve(self) -> None:
        tasks = self.world.ledger.tasks.open_tasks(self.world.uuid(self.worker))
        for task in tasks:
            plan = self.world.ledger.plans.newest(task.id)
            if task.state is TaskState.AWAITING_PLAN_APPROVAL and plan:
                self.do("lead", "approve_plan", task=task.id, plan=plan)
                return

    def wait(self) -> None:
        if task := self._task(self.worker, locked=False):
            self.do("lead", "wait_for", tasks=[task], deadline=200.0)

    def ask(self) -> None:
        deadline = self._chance.choice((None, 100.0))
        self.do(self.worker, "ask", items=[f"what {self._next}?"], to="parent", deadline=deadline)

    def answer(self) -> None:
        held = self.world.ledger.questions.open_of_holder(self.world.uuid("lead"))
        if held:
            question = self._chance.choice(held).id
            self.do("lead", "answer", question=question, answers=[f"so {self._next}"])

    def remind(self) -> None:
        words = {"in": self._chance.uniform(1, 90)}
        self.do(self.worker, "remind", body=f"mind {self._next}", **words)

    def send(self) -> None:
        self.do(self.worker, "send", to=self._chance.choice(("lead", *WORKERS)),
                body=f"note {self._next}")  # fmt: skip

    def read(self) -> None:
        name = self._chance.choice(("lead", *WORKERS))
        result = rows(self.world.call(name, "recv", max=5)["messages"])
        for message in result:
            self._tell({"got": message["id"], "who": name, "body": message["body"],
                        "wait": message.get("wait_id")})  # fmt: skip
        if result:
            self.do(name, "ack", ids=[message["id"] for message in result])

    def put(self) -> None:
        self.do("lead", "put", queue=QUEUE, body=f"thing {self._next}")

    def take(self) -> None:
        name = self.worker
        result = rows(self.world.call(name, "take", queue=QUEUE, max=2)["things"])
        if result:
            self.do(name, "ack", ids=[message["id"] for message in result])

    def report(self) -> None:
        self.do(self.worker, "report_usage", tokens_in=self._chance.randint(1, 50))

    def give(self) -> None:
        self.do("lead", "allocate_budget", agent=self.worker, kind=BudgetKind.TOKENS.value,
                amount=self._chance.choice((50, 400, -10)))  # fmt: skip

    def store(self) -> None:
        number = self._next
        self.do(self.worker, "store_artifact", name=f"made/{number}", text=f"made {number}")

    def pass_time(self) -> None:
        """Said before, as what became due on the way may be done."""
        seconds, clock = self._chance.uniform(0, 25), self.world.clock
        self._tell({"clock": [clock.time + seconds, clock.steady + seconds]})
        self.world.advance(seconds)


def begin(folder: Path, history: History) -> str:
    """The tree, its budget, its queue and its bell; the id of the trigger."""
    world = RestartedWorld(folder, history)
    world.grow(*TREE)
    world.call(OPERATOR, "allocate_budget", agent="root", kind="tokens", amount=GIVEN)
    world.call("root", "allocate_budget", agent="lead", kind="tokens", amount=GIVEN // 2)
    world.call("lead", "open_queue", name="jobs", may_take=list(WORKERS), limit=10_000)
    bell = world.call(
        "bell", "set_trigger", name="bell", when={"every": EVERY}, missed="all",
        action={"kind": "message", "text": "ding"},
    )  # fmt: skip
    world.close()
    return str(bell["id"])


def live(folder: Path, history: History, chance: Random) -> None:
    """Run one life to its end, in a process of its own; its output is in `history`."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)

        def tell(row: Row) -> None:
            os.write(writing, json.dumps(row).encode() + b"\n")

        try:
            RandomWork(folder, history, chance, tell).run_until_killed()
        except BaseException as error:  # noqa: BLE001 - told to who waits
            tell({"fault": repr(error)})
        os._exit(1)
    os.close(writing)
    with os.fdopen(reading) as said:
        for line in said:
            row = json.loads(line)
            assert "fault" not in row, row
            history.hear(row)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "a life ended by itself"
