"""A route with a fault: hive-notify says which one, and sends by the others."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.fake_broker import FakeBroker, fake_broker

from hive_core.errors import InvalidArgument
from hive_core.notify.deliveries import NoticeDelivery, NotifyState
from hive_core.notify.main import NotifyOptions, load_config, run
from hive_core.notify.notices import Notice, RouteState

# Nothing listens there: a notice stays queued.
PHONE = '[notify.routes.phone]\ntype = "ntfy"\nurl = "http://127.0.0.1:1"\ntopic = "t"\n'
HOOK = '[notify.routes.hook]\ntype = "webhook"\nurl = "http://127.0.0.1:1"\n'
WRONG_KEY = '[notify.routes.night]\ntype = "ntfy"\nurl = "http://127.0.0.1:1"\nquiet = "x"\n'


@pytest.fixture(name="hived")
def _hived(tmp_path: Path) -> Iterator[FakeBroker]:
    question = {"kind": "question", "id": "q1", "agent": "ann", "text": "why?"}
    with fake_broker(tmp_path / "login.sock") as made:
        made.answers |= {
            "OpenLogin": lambda _: {"login": "l1"},
            "Todo": lambda _: {"todo": [question], "more": 0},
            "NoteRoutes": lambda _: {},
            "ListEvents": lambda _: {"events": [], "gap": None, "next": None},
        }  # fmt: skip
        yield made


@pytest.fixture(name="options")
def _options(hived: FakeBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NotifyOptions:
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    monkeypatch.setattr("hive_core.notify.notifier.EVERY", 0.01)
    (tmp_path / "notify_login").write_text("token_of_a_test", encoding="utf-8")
    return NotifyOptions(tmp_path / "hive.toml", Path(hived.path), tmp_path)


def delivery_to(route: str) -> NoticeDelivery:
    notice = Notice(kind="new", key="question:q0", notice_class="needs-input", title="a question")
    return NoticeDelivery(id=route, route=route, notice=notice, created=0.0, due=0.0)


def test_the_other_routes_are_used_and_each_fault_is_logged(
    hived: FakeBroker, options: NotifyOptions, caplog: pytest.LogCaptureFixture
) -> None:
    """What is queued for a route with a fault waits; that of a route that is gone does not."""
    options.settings.write_text(PHONE + HOOK + WRONG_KEY, encoding="utf-8")
    state = NotifyState(
        routes={"hook": RouteState(sent=(1.0,)), "gone": RouteState()},
        queue=(delivery_to("hook"), delivery_to("night"), delivery_to("gone")),
    )
    file = options.state / "state.json"
    file.write_text(state.model_dump_json(), encoding="utf-8")

    async def serve() -> None:
        program = asyncio.create_task(run(options))
        await asyncio.to_thread(hived.wait_for, "ListEvents", 2)  # the step before is saved
        signal.raise_signal(signal.SIGTERM)
        await program

    with caplog.at_level(logging.ERROR):
        asyncio.run(serve())
    after = NotifyState.model_validate_json(file.read_text(encoding="utf-8"))
    assert sorted((one.route, one.notice.key) for one in after.queue) == [
        ("hook", "question:q0"), ("night", "question:q0"), ("phone", "question:q1"),
    ]  # fmt: skip
    assert sorted(after.routes) == ["hook", "phone"]
    assert after.routes["hook"].sent == (1.0,)
    faults = [row.getMessage() for row in caplog.records if "Cannot send by" in row.getMessage()]
    night, hook = "Cannot send by route night: ", "Cannot send by route hook: "
    assert faults[0].startswith(f"{night}notify.routes.night.quiet: is not HH:MM-HH:MM ZONE")
    assert faults[1].startswith(f"{hook}/etc/hive/notify/hook: this file is missing or empty")
    assert len(faults) == 2
    names = [name for name, _ in hived.calls]
    assert names.index("NoteRoutes") < names.index("Todo")
    (said,) = hived.params_of("NoteRoutes")
    assert said == {"faults": {
        "night": "notify.routes.night.quiet: is not HH:MM-HH:MM ZONE, such as"
                 " 22:00-07:00 Europe/Berlin",
        "hook": faults[1].removeprefix(hook),
    }}  # fmt: skip


@pytest.mark.parametrize("text", [HOOK, WRONG_KEY, HOOK + WRONG_KEY])
def test_without_any_usable_route_it_does_not_start_and_tells_hived(
    hived: FakeBroker, options: NotifyOptions, text: str
) -> None:
    options.settings.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidArgument, match="no route can be used; `hive config check`"):
        asyncio.run(run(options))
    (said,) = hived.params_of("NoteRoutes")
    assert said["faults"]
    hived.stop()
    with pytest.raises(InvalidArgument, match="no route can be used"):
        asyncio.run(run(options))


def test_no_route_gets_the_token_of_hive_notify(options: NotifyOptions) -> None:
    """It would go to the receiver as the token of ntfy."""
    options.settings.write_text(PHONE.replace("phone", "login"), encoding="utf-8")
    assert list(load_config(options.settings).routes) == ["login"]
    with pytest.raises(InvalidArgument, match="no route can be used"):
        asyncio.run(run(options))
