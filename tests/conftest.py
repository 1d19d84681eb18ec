"""Two sizes of one suite: the default one for every change, and `scripts/test --long`."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import long
import pytest
from e2e.shared_hosts import shared_name, shared_place
from hypothesis import HealthCheck, settings
from typing_extensions import override
from web.shared_browser import shared_browser
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

# gc.set_threshold(): the default takes a twelfth of the processor time of tests in this process.
_COLLECTIONS = (10_000, 20, 20)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("long", "the long forms")
    group.addoption("--long", action="store_true", help="what is sized takes its long form")
    group.addoption("--seed", type=int, help="start the campaigns from this number again")
    group.addoption("--minutes", type=float, help="how long a soak takes")
    group.addoption("--event-seed", type=int, help="run event handlers in this order again")
    group.addoption("--figures", type=Path, help="append each figure to this file, one JSON a line")


def pytest_configure(config: pytest.Config) -> None:
    # Before any test module is imported: some ask for their size as they are collected.
    long.asked.chosen = config.getoption("--long")
    long.asked.seed = config.getoption("--seed")
    long.asked.minutes = config.getoption("--minutes")
    long.asked.file = config.getoption("--figures")
    # How long an example takes says how busy the machine is. What must be quick has a benchmark.
    settings.register_profile(
        "hive", deadline=None, max_examples=long.times(30, 300),
        suppress_health_check=[HealthCheck.too_slow],
    )  # fmt: skip
    settings.load_profile("hive")


@pytest.fixture(autouse=True)
def _shuffled_event_handlers(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test shuffles the handlers of each event: no handler may depend on the order.

    A failed test prints the seed, and `--event-seed` repeats the order.
    """
    hooks = sys.modules.get("hive_core.broker.hooks")
    if hooks is None:
        yield
        return
    seed: int | None = request.config.getoption("--event-seed")
    if seed is None:
        seed = SystemRandom().randrange(1 << 32)
    print(f"event handlers in the order of --event-seed {seed}")  # noqa: T201 - shown on failure
    registered = {event: list(handlers) for event, handlers in hooks.HANDLERS.items()}
    random = Random(seed)  # noqa: S311 - an order, no secret
    for event in sorted(hooks.HANDLERS, key=lambda event: str(event.__name__)):
        random.shuffle(hooks.HANDLERS[event])
    yield
    for event, handlers in registered.items():
        # A module that the test imported may have registered more handlers: they stay.
        later = [handler for handler in hooks.HANDLERS[event] if handler not in handlers]
        hooks.HANDLERS[event][:] = [*handlers, *later]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of tests stay to the end: not to be looked through for garbage again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*_COLLECTIONS)
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Several processes take files in this order: those with a lab, spread among the others.

    A lab waits for most of its time and other tests compute, so each kind uses what the other one
    leaves. Of each kind those that take longest come first (`slow`, `lab("slow")`, files that
    share a host or a browser), and the last tenth has no lab: a process that is alone at the end
    has only short files.
    """
    if not hasattr(config, "workerinput"):
        return
    files = dict.fromkeys(item.path for item in items)
    markers = {item.path: marker for item in items if (marker := item.get_closest_marker("lab"))}
    labs = sorted(
        markers,
        key=lambda path: (
            not (shared_name(str(path)) or "slow" in markers[path].args), shared_place(str(path))
        ),
    )  # fmt: skip
    slow = {
        item.path
        for item in items
        if item.get_closest_marker("slow") or shared_browser(str(item.path))
    }
    others = [path for path in files if path not in markers]
    others.sort(key=lambda path: path not in slow)
    places = {path: index / len(others) for index, path in enumerate(others)}
    places |= {path: 0.9 * index / len(labs) for index, path in enumerate(labs)}
    items.sort(key=lambda item: places[item.path])


class SharedHostScheduling(LoadFileScheduling):  # type: ignore[misc] # xdist has no types
    """One process takes a file, or all files that share a host or a browser."""

    @override
    def _split_scope(self, nodeid: str) -> str:
        return shared_name(nodeid) or shared_browser(nodeid) or super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    is_by_file = config.getoption("dist") == "loadfile"
    return SharedHostScheduling(config, log) if is_by_file else None


def pytest_sessionfinish(session: pytest.Session) -> None:
    # Only a process that runs tests for another one has an output for it.
    output: dict[str, object] = getattr(session.config, "workeroutput", {})
    output["figures"] = json.dumps(long.asked.figures)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:  # noqa: ANN401 - what xdist made
    long.asked.figures += json.loads(getattr(node, "workeroutput", {}).get("figures", "[]"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if long.asked.figures:
        terminalreporter.section("figures")
        for figure in long.asked.figures:
            terminalreporter.write_line(json.dumps(figure))
