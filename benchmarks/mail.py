"""Messages through the sockets: by many agents at once, into one agent, and out of containers.

Every message is on disk (/var/tmp) before its sender hears of it. The daemon is a process of its
own and the agents come from this one, but for those in containers, which are a process each and
speak through the sockets in their containers.
"""

import json
import selectors
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from e2e import wire
from e2e.hivehost import HiveHost
from e2e.labhost import Lab
from fuzz.served import serve_in_process

from benchmarks.calls import Line, Load
from benchmarks.report.rows import Row, with_aim
from hive_core.varlink import Client

SECONDS, ROUNDS = 2.0, 2
AGENTS = (1, 50, 1_000)
CALLERS = 32
INSIDE = 50
SETTINGS = """\
[limits]
send_rate = 1e9
send_burst = 1000000
change_rate = 1e9
change_burst = 1000000
children = 100
inbox_count = 10000000
inbox_bytes = 1000000000000
"""


def run() -> list[Row]:
    return [*_sockets(), *_deliveries(), *_containers()]


# By many agents.


def _sockets() -> Iterator[Row]:
    for agents in AGENTS:
        with serving(agents) as folder:
            value = max(_rate(folder, agents) for _ in range(ROUNDS))
        name = f"messages sent by {_many(agents, 'agent')}, one at a time each"
        row: Row = {"name": name, "value": value, "unit": "messages/s"}
        yield with_aim(row, "at least 5,000/s", at_least=5_000) if agents > 1 else row


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' if count > 1 else ''}"


@contextmanager
def serving(agents: int) -> Iterator[Path]:
    """A daemon with so many agents, on disk."""
    with (
        TemporaryDirectory(dir="/var/tmp") as folder,
        serve_in_process(Path(folder), max(agents, 2)),
    ):
        yield Path(folder)


def to_next(agents: int) -> Load:
    def call(number: int) -> bytes:
        to = f"a{(number + 1) % max(agents, 2)}"
        return call_frame("Send", {"to": to, "body": "How is the build?"})

    return Load(agents, 1, call)


def call_frame(method: str, parameters: object) -> bytes:
    message = {"method": f"org.hive.Broker.{method}", "parameters": parameters}
    return json.dumps(message).encode() + b"\0"


def _rate(folder: Path, agents: int) -> float:
    load = to_next(agents)
    lines = [Line(folder, number, load) for number in range(agents)]
    start = time.perf_counter()
    with selectors.DefaultSelector() as ready:
        for line in lines:
            ready.register(line.socket, selectors.EVENT_READ, line)
            line.ask()
        while time.perf_counter() - start < SECONDS:
            for key, _ in ready.select(1):
                key.data.take()
    spent = time.perf_counter() - start
    for line in lines:
        line.socket.close()
    return sum(line.done for line in lines) / spent


# Into one agent, which takes and acknowledges each.


def _deliveries() -> Iterator[Row]:
    for name, value in deliveries().items():
        yield {"name": name, "value": value, "unit": "messages/s"}


def deliveries() -> dict[str, float]:
    """Messages a second that one agent has got and acked, sent one after the other or by many."""
    return {
        "into one agent, the next one when it has acked": max(_in_turn() for _ in range(ROUNDS)),
        f"into one agent, {CALLERS} callers, acked": max(_crowd(CALLERS) for _ in range(ROUNDS)),
    }


def _in_turn() -> float:
    with (
        serving(2) as folder,
        Client(str(folder / "a0.sock")) as caller,
        Client(str(folder / "a1.sock")) as agent,
    ):
        done, start = 0, time.perf_counter()
        while time.perf_counter() - start < SECONDS:
            send(caller, "a1")
            done += take(agent)
        return done / (time.perf_counter() - start)


def _crowd(callers: int) -> float:
    """So many callers with one message under way each; the agent takes what there is."""
    with serving(callers + 1) as folder:
        ends = time.perf_counter() + SECONDS

        def call(number: int) -> None:
            with Client(str(folder / f"a{number}.sock")) as caller:
                while time.perf_counter() < ends:
                    send(caller, "a0")

        threads = [threading.Thread(target=call, args=(index + 1,)) for index in range(callers)]
        start, done = time.perf_counter(), 0
        for thread in threads:
            thread.start()
        with Client(str(folder / "a0.sock")) as agent:
            while time.perf_counter() < ends:
                done += take(agent)
            spent = time.perf_counter() - start
        for thread in threads:
            thread.join()
        return done / spent


def send(caller: Client, to: str) -> None:
    caller.call("org.hive.Broker.Send", {"to": to, "body": "How is the build?"})


def take(agent: Client) -> int:
    messages = agent.call("org.hive.Broker.Recv", {"wait": 0.2, "max": 100})["messages"]
    assert isinstance(messages, list)
    if messages:
        agent.call("org.hive.Broker.Ack", {"ids": [entry["id"] for entry in messages]})
    return len(messages)


# Out of containers.


def _containers() -> Iterator[Row]:
    with Lab() as lab:
        host = HiveHost(lab)
        host.settings(SETTINGS)
        host.setup()
        host.grow(top={"command": ["sleep", "infinity"], "max_children": INSIDE})
        names = [f"c{number}" for number in range(INSIDE)]
        program = ["/usr/bin/python3", "-Ic", Path(wire.__file__).read_text()]
        held: dict[str, object] = {"parent": "top", "command": ["sleep", "infinity"]}
        host.grow(**dict.fromkeys(names, held))
        for count in (1, INSIDE):
            value = _inside(lab, [[*program, _next(names, index), names[index], ""]
                                  for index in range(count)], names)  # fmt: skip
            yield {
                "name": f"messages sent out of {_many(count, 'container')}",
                "value": value, "unit": "messages/s",
            }  # fmt: skip


def _next(names: list[str], number: int) -> str:
    """A sibling; its box is not the one that all the others fill."""
    return names[(number + 1) % len(names)]


def _inside(lab: Lab, programs: list[list[str]], names: list[str]) -> float:
    """Acknowledged sends a second of programs that run in the containers of the first agents."""
    counts = [0] * len(programs)
    over = threading.Event()

    def follow(number: int, line: Callable[[], str]) -> None:
        while not over.is_set() and line():
            counts[number] += 1

    running = [
        lab.popen(["hive", "shell", names[number], "--", *program], stdout=-1)
        for number, program in enumerate(programs)
    ]
    threads = [
        threading.Thread(target=follow, args=(number, item.stdout.readline), daemon=True)
        for number, item in enumerate(running)
        if item.stdout is not None
    ]
    for thread in threads:
        thread.start()
    _until(lambda: all(counts), "they do not send")
    before, start = sum(counts), time.perf_counter()
    time.sleep(SECONDS)
    values = (sum(counts) - before) / (time.perf_counter() - start)
    over.set()
    for item in running:
        item.kill()
        item.communicate()
    return values


def _until(holds: Callable[[], object], label: str) -> None:
    ends = time.monotonic() + 30
    while not holds():
        if time.monotonic() > ends:
            raise RuntimeError(label)
        time.sleep(0.05)
