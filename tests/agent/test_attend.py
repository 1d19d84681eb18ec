"""`hive-agent attend`: hello, and the switch in place, against a socket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.fake_broker import FakeBroker, fake_broker

from hive_core.agent import attend
from hive_core.agent.attend import ConfigWatcher
from hive_core.agent.reconnect import Link
from hive_core.errors import Busy
from hive_core.varlink import Message

COMMIT, NEXT = "c" * 40, "d" * 40


class Guest:
    """A guest below a folder: its prompts, the commands that it runs, and when it is due."""

    def __init__(self, folder: Path, broker: FakeBroker) -> None:
        self.folder, self.broker = folder, broker
        self.due: Message = {"commit": COMMIT, "system": "", "next": "1"}
        self.slept = 0
        broker.answers = {"Hello": lambda _: {}, "WatchConfig": lambda _: self.due}
        self.shows(COMMIT)
        self.current.symlink_to(self.system("old", "exit 0"))
        self.attendant = ConfigWatcher(
            Link(broker.path), config=self.config, current=self.current, sleep=self._sleep
        )

    config = property(lambda self: self.folder / "config")
    current = property(lambda self: self.folder / "current")

    def shows(self, commit: str) -> None:
        self.config.unlink(missing_ok=True)
        self.config.symlink_to(f".configs/{commit}")

    def system(self, name: str, script: str) -> Path:
        made = self.folder / name
        (made / "bin").mkdir(parents=True, exist_ok=True)
        (made / attend.SWITCH).write_text(f"#!/bin/sh\n[ $1 = test ] || exit 9\n{script}\n")
        (made / attend.SWITCH).chmod(0o755)
        return made

    def switches(self, name: str, more: str = "") -> Path:
        """A system whose switch takes effect, whatever it says then."""
        made = self.folder / name
        return self.system(name, f"ln -sfn {made} {self.current}; {more}")

    def step(self, system: Path | None = None) -> None:
        self.due = {**self.due, "system": str(system or "")}
        self.attendant.step()

    def hello(self) -> Message:
        """The next word of the guest."""
        self.attendant.step()
        return self.broker.params_of("Hello")[-1]

    def _sleep(self, _seconds: float) -> None:
        self.slept += 1
        self.shows(str(self.due["commit"]))


@pytest.fixture
def guest(tmp_path: Path) -> Iterator[Guest]:
    with fake_broker(tmp_path / "broker.sock") as broker:
        made = Guest(tmp_path, broker)
        yield made
        made.attendant.link.close()


def test_it_says_what_it_runs_once(guest: Guest) -> None:
    for _ in range(3):
        guest.step()
    (said,) = guest.broker.params_of("Hello")
    assert said["commit"] == COMMIT
    assert said["fault"] == ""
    assert guest.broker.params_of("WatchConfig")[-1] == {"after": "1", "wait": attend.POLL}


def test_it_says_so_when_another_configuration_is_shown(guest: Guest) -> None:
    """The word of it may come before the files do: it looks for a moment."""
    guest.step()
    guest.due = {**guest.due, "commit": NEXT, "next": "2"}
    assert guest.hello()["commit"] == COMMIT
    assert guest.slept == 1
    assert guest.hello()["commit"] == NEXT


def test_a_switch_is_told_when_it_is_done(guest: Guest) -> None:
    new = guest.switches("new")
    guest.step(new)
    assert guest.attendant.system == str(new)
    assert guest.hello()["fault"] == ""
    assert len(guest.broker.params_of("Hello")) == 2


def test_a_switch_that_fails_is_told_and_not_tried_again(guest: Guest) -> None:
    guest.step(guest.system("new", "echo it is broken; exit 1"))
    assert "ended with 1" in str(guest.hello()["fault"])
    assert "it is broken" in str(guest.hello()["fault"])
    guest.step(guest.folder / "new")
    assert len(guest.broker.params_of("Hello")) == 2


def test_one_that_says_it_worked_and_changed_nothing_failed(guest: Guest) -> None:
    guest.step(guest.system("new", "exit 0"))
    assert "ended with 0" in str(guest.hello()["fault"])


def test_there_is_a_way_back_after_a_failure(guest: Guest) -> None:
    old = guest.switches("old")
    guest.step(guest.switches("new", "exit 1"))
    assert guest.hello()["fault"]
    guest.step(old)
    assert guest.attendant.system == str(old)
    assert guest.hello()["fault"] == ""


def test_what_is_not_there_cannot_be_switched_to(guest: Guest) -> None:
    guest.step(guest.folder / "none")
    assert "cannot switch" in str(guest.hello()["fault"])


def test_units_that_fail_by_a_switch_are_named(tmp_path: Path) -> None:
    """nixpkgs issue 378535: the status alone says too much."""
    before = frozenset({"a.service"})
    listed = tmp_path / "failed"
    listed.write_text("a.service loaded failed failed A\nb.service loaded failed failed B\n")
    assert attend.failed_units(("cat", str(listed))) == before | {"b.service"}
    assert attend.failed_units(("false",)) is None
    assert attend.failed_units((str(tmp_path / "none"),)) is None


def test_a_loop_of_messages_does_not_switch(guest: Guest) -> None:
    guest.attendant.switches = False
    guest.step(guest.switches("new"))
    assert guest.attendant.system == str(guest.folder / "old")


def test_a_refusal_is_waited_out(guest: Guest, capsys: pytest.CaptureFixture[str]) -> None:
    class Slept(Exception):
        pass

    def refuse(_: Message) -> Message:
        raise Busy("not now")

    def sleep(_seconds: float) -> None:
        raise Slept

    guest.broker.answers["WatchConfig"] = refuse
    guest.attendant.sleep = sleep
    with pytest.raises(Slept):
        guest.attendant.forever()
    assert "not now" in capsys.readouterr().err
