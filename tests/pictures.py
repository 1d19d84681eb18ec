"""`scripts/pictures`: a picture of each page of the dashboard, of the same small hive each time.

The hive is the whole broker with its ledger, behind hive-web; Debian's Chromium draws its pages.
"""

from __future__ import annotations

import base64
import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from fixtures.approvals import ask, judge, line
from fixtures.chromium import Browser, add_authenticator, chromium
from fixtures.dashboard import RunningDashboard, free_socket, origin_of, running_dashboard
from fixtures.login_server import login_server
from fixtures.logins import open_login
from fixtures.model_calls import MODELS, TIERS, reserve
from fixtures.model_calls import finish as end_model_call
from fixtures.tasks import finish, give
from fixtures.world import World, rows

from hive_core.model.agents.machine import Cpu, Reading, State
from hive_core.model.config.settings import Settings
from hive_core.model.config.web import WebSettings

FOLDER: Final = Path(__file__).parents[1] / "docs/pictures"
BYTES_MOST: Final = 128 * 1024
_WIDTH, _HEIGHT = 1120, 640
PHONE: Final = (412, 800)
_EDGES: Final = (
    "root/press:lead", "press/writer:worker", "press/editor:worker", "press/printer:worker",
    "root/lab:lead", "lab/bench-1:worker", "lab/bench-2:worker", "lab/bench-10:worker",
    "root/clerk:worker",
)  # fmt: skip
_HOURS: Final = 5400.0  # in seconds, in which the tasks of the hive come and go
_DAY: Final = 86_400.0
_NOON: Final = _DAY / 2  # so that the day of the hive is one day, whatever its clock says first


@dataclass(frozen=True, slots=True)
class Picture:
    """A page of the dashboard. `{question}` and the like in its path are ids of the seeded hive.

    `typed` is what is written into fields of the page, `press` what is clicked then, in this order;
    `shows` has to be there before the picture is taken.
    """

    name: str
    path: str
    schemes: tuple[str, ...] = ("light",)
    size: tuple[int, int] = (_WIDTH, _HEIGHT)
    typed: tuple[tuple[str, str], ...] = ()
    press: tuple[str, ...] = ()
    shows: str = "main"

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
    Picture("confirm", "/approvals/{approval}", typed=(("#digits", "1a1a1a1a"),),
            press=("input[name=gives0]", "#approve button"), shows="#passkey-confirm"),
    Picture("agent", "/agents/writer/talk", shows="#running article"),
    Picture("plan-of-agent", "/agents/clerk/tasks"),
    Picture("stop", "/agents/lab/ask/stop"),
    Picture("move", "/agents/bench-2/move?parent=press"),
    Picture("new", "/new?parent=press"),
    Picture("selected", "/selected/stop?agents=bench-1,bench-2"),
    Picture("tasks", "/tasks"),
    Picture("task", "/tasks/{task}", size=(_WIDTH, 900)),
    Picture("task-graph", "/tasks/graph"),
    Picture("timeline", "/timeline?window=6h"),
    Picture("cost", "/cost"),
    Picture("figures", "/agents/writer/figures"),
    Picture("more", "/more/settings"),
    Picture("fires", "/more/triggers/{trigger}"),
    Picture("audit", "/audit"),
    Picture("why", "/audit/why?caller=writer&operation=stop&target=editor"),
    Picture("login", "/login"),
    Picture("passkey", "/passkey"),
    Picture("link", "/link/{link}"),
    Picture("phone-attention", "/", size=PHONE),
    Picture("phone-tree", "/tree", size=PHONE),
    Picture("phone-agent", "/agents/writer/talk", size=PHONE, shows="#running article"),
)  # fmt: skip


def main(names: list[str]) -> int:
    """Make these pictures, all where none is named."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder, picture_hive(Path(folder)) as hive:
        for picture in PICTURES:
            if not names or picture.name in names:
                take(picture, hive)
    return 0


@dataclass(frozen=True, slots=True)
class PictureHive:
    """The seeded hive, and a browser that has logged in and made a passkey."""

    web: RunningDashboard
    browser: Browser
    ids: Mapping[str, str]

    def address(self, picture: Picture) -> str:
        return self.web.origin + picture.path.format(**self.ids)


@contextmanager
def picture_hive(folder: Path) -> Iterator[PictureHive]:
    listening = free_socket()
    settings = Settings(models=TIERS, web=WebSettings(origins=(origin_of(listening),)))
    with login_server(folder, *_EDGES, settings=settings, models=MODELS) as hived:
        ids = hived.do(seed)
        now = hived.do(lambda world: world.clock.now())
        with (
            running_dashboard(hived, listening, lambda: now) as web,
            chromium(folder / "profile") as browser,
        ):
            browser.command("Emulation.setScrollbarsHidden", {"hidden": True})
            add_authenticator(browser)
            browser.open(f"{web.origin}/login#{hived.link()}")
            browser.until_path("/passkey")
            browser.find("#passkey-make button").click()
            browser.until_path("/")
            yield PictureHive(web, browser, ids)


def take(picture: Picture, hive: PictureHive) -> None:
    """Make the files of one picture."""
    browser = hive.browser
    for scheme, file in zip(picture.schemes, picture.files(), strict=True):
        browser.use(scheme, *picture.size)
        browser.open(hive.address(picture))
        for selector, text in picture.typed:
            browser.find(selector).send_keys(text)
        for selector in picture.press:
            browser.find(selector).click()
        browser.until("document.querySelector(arguments[0])", picture.shows)
        data = browser.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})["data"]
        file.write_bytes(base64.b64decode(data))
        sys.stdout.write(f"{file.relative_to(FOLDER.parents[1])}: {file.stat().st_size} bytes\n")


def seed(world: World) -> dict[str, str]:
    """A hive in the middle of its work, in the afternoon; the ids of what waits in it."""
    world.advance((_NOON - world.clock.now()) % _DAY)
    _fill_budgets(world)
    _work(world)
    trigger = str(_set_trigger(world)["id"])
    _run_machine(world, "writer")
    _talk(world)
    question = world.call(
        "root", "ask_user", items=[
            {"prompt": "Which paper for the second issue?", "options": ["80 g", "120 g"]}
        ],
    )["question"]  # fmt: skip
    world.seen.states[world.uuid("bench-10")] = State.FAILED
    return {
        "question": str(question), "plan": _plan(world), "approval": _ask_approval(world),
        "trigger": trigger, "link": _offer_link(world), "task": _deliver(world),
    }  # fmt: skip


def _plan(world: World) -> str:
    """A plan that waits; the id of its task."""
    task = give(world, "operator", "clerk", title="Sort the archive", plan_required=True)
    steps = ["list the boxes", "sort them by year", "write the index"]
    world.call("clerk", "create_plan", task=task, steps=steps, note="Two days.")
    return task


def _deliver(world: World) -> str:
    """A task whose result waits for a verdict."""
    task = give(
        world, "operator", "editor", title="Check the table of contents", deadline=0,
        description="Compare each entry with the page that it names.",
        criteria={"text": "Each entry names the right page.", "retries": 2},
    )  # fmt: skip
    plan = world.call(
        "editor", "create_plan", task=task, steps=["read the entries", "read the pages"]
    )["plan"]
    world.call("operator", "approve_plan", task=task, plan=plan)
    for step in (1, 2):
        world.call("editor", "update_plan_step", plan=plan, step=step, status="done")
    _report(world, "editor", task, 9_000)
    summary = "All 24 entries are right.\nThe index has two of them twice."
    finish(world, "editor", task, summary=summary)
    return task


def _ask_approval(world: World) -> str:
    lines = [
        line("You write for readers who are in a hurry.", " ", "prompts/system.md"),
        line("Write as long as you like.", "-", "prompts/system.md"),
        line("Write at most 300 words, and name your sources.", "+", "prompts/system.md"),
    ]
    wishes = {"network": "egress-allowlist"}
    asked = ask(world, "press", "writer", message="shorter texts, with sources")
    return judge(world, asked, wishes, lines)


def _offer_link(world: World) -> str:
    """The secret of a link that a notification would have."""
    client = open_login(world, "notify", ["notifier"])
    link = {"operation": "stop", "parameters": {"agent": "bench-10"}, "label": "Stop bench-10"}
    return str(rows(client.call("offer_links", links=[link])["links"])[0]["url"]).rpartition("/")[2]


def _run_machine(world: World, name: str) -> None:
    """Half an hour of processor time and memory, with calls of a model."""
    used = 0
    for at in range(180):
        used += int(2_000_000 * (1 + math.sin(at / 9)))
        memory = (90 + 30 * (at // 45)) << 20
        world.broker.show_figures({world.uuid(name): Reading(Cpu("run", used), memory)})
        world.advance(10)
        if at % 12 == 0:
            _call_model(world, name, 6000 + 40 * at)


def _call_model(world: World, name: str, tokens: int) -> None:
    used = {"tokens_in": tokens, "tokens_out": tokens // 20, "cost": tokens * 4e-6}
    end_model_call(world, reserve(world, name, bytes=4 * tokens, out_most=tokens), **used)


def _set_trigger(world: World) -> Mapping[str, object]:
    """A trigger that has fired."""
    text = {"kind": "message", "text": "Read the new letters."}
    made = world.call(
        "operator", "set_trigger", agent="clerk", name="letters", when={"every": 600.0}, action=text
    )
    world.advance(1300)
    return made


def _fill_budgets(world: World) -> None:
    for agent, tokens in (("press", 600_000), ("lab", 250_000), ("clerk", 20_000)):
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
    """Two turns that have ended, and one that goes on."""
    for turn, (said, answer) in enumerate((
        ("operator: what is the article about?", "The **new ink**: it dries in 40 seconds."),
        ("operator: who measured that?", "`bench-1`:\n\n- 20 °C: 95 s\n- 60 °C: 40 s"),
    )):  # fmt: skip
        began = world.clock.now()
        world.advance(4)
        _call_model(world, "writer", 1200 + 900 * turn)
        world.call(
            "writer", "keep_turn", conversation="main", turn=turn + 1, status="done", input=said,
            text=answer, began=began, system="" if turn else "You write for readers in a hurry.",
        )  # fmt: skip
        world.advance(60)
    world.call("writer", "stream_turn", conversation="main", turn=3, text="I compare both papers")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
