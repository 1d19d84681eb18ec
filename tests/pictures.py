"""`scripts/pictures`: a picture of each page of the dashboard, of the same small hive each time.

The hive is the whole broker with its ledger, behind hive-web; Debian's Chromium draws its pages.
"""

from __future__ import annotations

import base64
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from fixtures.approvals import ask, judge, line
from fixtures.chromium import Browser, chromium
from fixtures.dashboard import RunningDashboard, free_socket, origin_of, running_dashboard
from fixtures.login_door import login_door
from fixtures.tasks import finish, give
from fixtures.world import World

from hive_core.model.agents.machine import Cpu, Reading, State
from hive_core.model.config.settings import Settings
from hive_core.model.config.web import WebSettings
from hive_core.testing.clock import TIME

FOLDER: Final = Path(__file__).parents[1] / "docs/pictures"
BYTES_MOST: Final = 128 * 1024
_WIDTH, _HEIGHT = 1120, 640
_EDGES: Final = (
    "root/press:lead", "press/writer:worker", "press/editor:worker", "press/printer:worker",
    "root/lab:lead", "lab/bench-1:worker", "lab/bench-2:worker", "lab/bench-10:worker",
    "root/clerk:worker",
)  # fmt: skip
_HOURS: Final = 5400.0  # in seconds, in which the tasks of the hive come and go


@dataclass(frozen=True, slots=True)
class Picture:
    """A page of the dashboard. `{question}` and the like in its path are ids of the seeded hive."""

    name: str
    path: str
    schemes: tuple[str, ...] = ("light",)

    def files(self) -> list[Path]:
        return [
            FOLDER / f"{self.name}{'' if scheme == 'light' else '-' + scheme}.png"
            for scheme in self.schemes
        ]


PICTURES: Final = (
    Picture("tree", "/tree", ("light", "dark")),
    Picture("attention", "/"),
    Picture("question", "/questions/{question}"),
    Picture("plan", "/plans/{plan}"),
    Picture("approval", "/approvals/{approval}"),
    Picture("agent", "/agents/writer/talk"),
    Picture("stop", "/agents/lab/ask/stop"),
    Picture("move", "/agents/bench-2/move?parent=press"),
    Picture("new", "/new?parent=press"),
    Picture("selected", "/selected/stop?agents=bench-1,bench-2"),
    Picture("tasks", "/tasks"),
    Picture("task-graph", "/tasks/graph"),
    Picture("timeline", "/timeline?window=6h"),
    Picture("cost", "/cost"),
    Picture("figures", "/agents/writer/figures"),
    Picture("more", "/more/settings"),
    Picture("fires", "/more/triggers/{trigger}"),
    Picture("audit", "/audit"),
    Picture("why", "/audit/why?caller=writer&operation=stop&target=editor"),
    Picture("passkey", "/passkey"),
)


def main(names: list[str]) -> int:
    """Make these pictures, all where none is named."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    listening = free_socket()
    settings = Settings(web=WebSettings(origins=(origin_of(listening),)))
    with (
        TemporaryDirectory() as folder,
        login_door(Path(folder), *_EDGES, settings=settings) as door,
        running_dashboard(door, listening, lambda: TIME + _HOURS) as web,
        chromium(Path(folder) / "profile") as browser,
    ):
        ids = door.do(seed)
        browser.command("Emulation.setScrollbarsHidden", {"hidden": True})
        browser.open(f"{web.origin}/login#{door.link()}")
        browser.until_path("/passkey")
        for picture in PICTURES:
            if not names or picture.name in names:
                take(picture, web, browser, ids)
    return 0


def take(picture: Picture, web: RunningDashboard, browser: Browser, ids: Mapping[str, str]) -> None:
    """Make the files of one picture."""
    for scheme, file in zip(picture.schemes, picture.files(), strict=True):
        browser.use(scheme, _WIDTH, _HEIGHT)
        browser.open(web.origin + picture.path.format(**ids))
        data = browser.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})["data"]
        file.write_bytes(base64.b64decode(data))
        sys.stdout.write(f"{file.relative_to(FOLDER.parents[1])}: {file.stat().st_size} bytes\n")


def seed(world: World) -> dict[str, str]:
    """A hive in the middle of its work; the ids of what waits in it."""
    _fill_budgets(world)
    _work(world)
    _talk(world)
    question = world.call(
        "root", "ask_user", items=[
            {"prompt": "Which paper for the second issue?", "options": ["80 g", "120 g"]}
        ],
    )["question"]  # fmt: skip
    plan = give(world, "operator", "clerk", title="Sort the archive", plan_required=True)
    steps = ["list the boxes", "sort them by year", "write the index"]
    world.call("clerk", "create_plan", task=plan, steps=steps, note="Two days.")
    lines = [
        line("You write for readers who are in a hurry.", " ", "prompts/system.md"),
        line("Write as long as you like.", "-", "prompts/system.md"),
        line("Write at most 300 words, and name your sources.", "+", "prompts/system.md"),
    ]
    wishes = {"network": "egress-allowlist"}
    asked = ask(world, "press", "writer", message="shorter texts, with sources")
    approval = judge(world, asked, wishes, lines)
    world.seen.states[world.uuid("bench-10")] = State.FAILED
    _run_machine(world, "writer")
    trigger = str(_set_trigger(world)["id"])
    return {"question": str(question), "plan": plan, "approval": approval, "trigger": trigger}


def _run_machine(world: World, name: str) -> None:
    """Half an hour of processor time and memory."""
    used = 0
    for at in range(180):
        used += int(2_000_000 * (1 + math.sin(at / 9)))
        memory = (90 + 30 * (at // 45)) << 20
        world.broker.show_figures({world.uuid(name): Reading(Cpu("run", used), memory)})
        world.advance(10)


def _set_trigger(world: World) -> Mapping[str, object]:
    """A trigger that has fired."""
    text = {"kind": "message", "text": "Read the new letters."}
    made = world.call(
        "operator", "set_trigger", agent="clerk", name="letters", when={"every": 600.0}, action=text
    )
    world.advance(1300)
    return made


def _fill_budgets(world: World) -> None:
    for agent, tokens in (("press", 400_000), ("lab", 250_000), ("clerk", 20_000)):
        world.call("operator", "allocate_budget", agent=agent, kind="tokens", amount=tokens)


def _work(world: World) -> None:
    """Tasks that have ended, that go on, and that wait for one another."""
    issue = give(world, "operator", "press", title="Print the second issue", deadline=0)
    wish: dict[str, object] = {"part_of": issue, "deadline": 0}
    write = give(world, "press", "writer", title="Write the leading article", **wish)
    edit = give(world, "press", "editor", title="Edit it", needs=[write], **wish)
    give(world, "press", "printer", title="Set and print it", needs=[edit], **wish)
    benches = ("bench-1", "bench-2", "bench-10")
    samples = [
        give(world, "lab", bench, title=f"Weigh a sample of {bench}", deadline=0)
        for bench in benches
    ]
    for bench, sample in zip(benches, samples, strict=True):
        world.advance(_HOURS / 8)
        finish(world, bench, sample, summary="weighed")
    measure = give(world, "operator", "bench-1", title="Measure the new ink", deadline=0)
    world.advance(_HOURS / 6)
    _report(world, "bench-1", measure, 41_000)
    finish(world, "bench-1", measure, summary="It dries in 40 s")
    dry = give(world, "operator", "bench-2", title="Dry it faster", needs=[measure], deadline=0)
    world.advance(_HOURS / 6)
    world.call("bench-2", "report_progress", task=dry, text="at 60 degrees", percent=35)
    _report(world, "bench-2", dry, 18_000)
    world.call("writer", "report_progress", task=write, text="second draft", percent=60)
    _report(world, "writer", write, 122_000)
    world.advance(_HOURS / 6)


def _report(world: World, agent: str, task: str, tokens: int) -> None:
    world.call(
        agent, "report_usage", task=task, model="small-1", tokens_in=tokens, context=tokens // 4,
        tokens_out=tokens // 6, cost=tokens * 10,
    )  # fmt: skip


def _talk(world: World) -> None:
    for turn, (said, answer) in enumerate((
        ("operator: what is the article about?", "The **new ink**: it dries in 40 seconds."),
        ("operator: who measured that?", "`bench-1`:\n\n- 20 °C: 95 s\n- 60 °C: 40 s"),
    )):  # fmt: skip
        world.call(
            "writer", "keep_turn", conversation="main", turn=turn, status="done", input=said,
            text=answer, began=world.clock.now() - 4,
        )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
