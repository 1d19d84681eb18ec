"""A sub-agent that asks its session for what it may not have, in place of `hive-agent`.

Its task is the name of a function below, and words for it. The content of its result is what each
of its requests was answered.
"""

import json
import os
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[2]))

from hive_core.agent.reconnect import Link
from hive_core.agent.session.subagents import channel
from hive_core.agent.session.subagents.folder import result_of, write_result
from hive_core.agent.session.subagents.order import ForkOrder, encode_hydration, read_order
from hive_core.errors import HiveError

Answers = list[str]


class ForkingProgram:
    """One sub-agent: its connection to the daemon, and its channel to the session."""

    def __init__(self, words: list[str]) -> None:
        options = dict(zip(words[2::2], words[3::2], strict=True))
        self.result = Path(options["--result"])
        self.order = read_order(Path(options["--hydrate-from"]).read_bytes())
        self.channel = socket.socket(fileno=int(options[channel.OPTION]))
        self.link = Link(os.environ["HIVE_SOCKET"])

    def open(self) -> str:
        """Have the daemon open a sub-agent of this one; its id."""
        tools = ["hive_fork_subagent"]
        return str(self.link.change(
            "open_subagent", kind="named", name="echo", tools=tools, timeout_seconds=60,
        )["id"])  # fmt: skip

    def order_for(self, id_: str, text: str) -> ForkOrder:
        """What an opened sub-agent is to do; all that it says is true."""
        return replace(self.order, subagent=id_, depth=self.order.depth + 1, text=text)

    def ask(self, id_: str, order: ForkOrder, seconds: int = 60) -> str:
        """Have a sub-agent started; its content, or why there is none."""
        request = channel.StartRequest(id_, seconds, encode_hydration(b"", order))
        try:
            return str(channel.ask_start(self.channel, request)["content"])
        except HiveError as error:
            return error.reason

    def send(self, words: object, *files: int) -> str:
        """Send what is no request, and return the answer."""
        socket.send_fds(self.channel, [json.dumps(words).encode()], list(files))
        data, (file,), _, _ = socket.recv_fds(self.channel, 4096, 1)
        os.close(file)
        return str(json.loads(data)["reason"])


def echo(_: ForkingProgram) -> Answers:
    return ["echo"]


def sleep(program: ForkingProgram) -> Answers:
    program.result.write_text(str(os.getpid()))
    time.sleep(600)
    return []


def delegate(program: ForkingProgram, task: str) -> Answers:
    """Have another one do the task, for longer than this one may run."""
    id_ = program.open()
    return [program.ask(id_, program.order_for(id_, task), seconds=900)]


def grow(program: ForkingProgram) -> Answers:
    """Fork as deep as the daemon allows; each says its depth and what the next one said."""
    try:
        id_ = program.open()
    except HiveError as error:
        return [error.reason]
    depth = os.environ["HIVE_DEPTH"]
    return [f"{depth}: {program.ask(id_, program.order_for(id_, 'grow'))}"]


def lie(program: ForkingProgram, foreign: str) -> Answers:
    """Name other depths and other parties; the last but one of the requests is honest."""
    id_ = program.open()
    order = program.order_for(id_, "echo")
    lies = [{"depth": 0}, {"clone_depth": False}, {"clone_depth": -1}, {"name": "root"},
            {"kind": "clone"}, {"subagent": foreign}, {"model": {"alias": "m", "wire": "x" * 99,
            "context": 1}}]  # fmt: skip
    return [
        *(program.ask(id_, replace(order, **lie)) for lie in lies),  # type: ignore[arg-type]  # lies
        program.ask(foreign, program.order_for(foreign, "echo")),
        program.ask(program.order.subagent, program.order),
        program.ask("../root", replace(order, subagent="../root")),
        program.ask(id_, order),
        program.ask(id_, order),
    ]


def garble(program: ForkingProgram) -> Answers:
    """Send what is no request: other fields, other files."""
    id_ = program.open()
    good = {"id": id_, "seconds": 60}
    read_end, _ = os.pipe()
    plain, sealed = os.memfd_create("plain"), os.memfd_create("empty", os.MFD_ALLOW_SEALING)
    channel.seal(sealed)
    return [
        program.send(good, read_end), program.send(good, plain),
        program.send(good, os.open("/proc/self/exe", os.O_RDONLY)),
        program.send(good), program.send(good, sealed), program.send([good], sealed),
        *(program.send({**good, **more}, sealed)
          for more in ({"uid": 0}, {"seconds": True}, {"seconds": 0}, {"environment": {"A": "b"}},
                       {"command": ["sh"]}, {"id": "x" * 5000})),
    ]  # fmt: skip


def flood(program: ForkingProgram) -> Answers:
    """Send requests and read no answer until the session hangs up, then ask for what is due."""
    id_ = program.open()
    order = program.order_for(id_, "echo")
    sent = 0
    try:
        while True:
            program.channel.send(b"{}")
            sent += 1
    except ConnectionError:
        pass
    return [program.ask(id_, order), "many" if sent > 1 else "few"]


def nag(program: ForkingProgram) -> Answers:
    """Ask in vain again and again, and read each answer; then ask for what is due."""
    id_ = program.open()
    order = program.order_for(id_, "echo")
    vain = [program.ask(id_, replace(order, depth=0)) for _ in range(16)]
    return [vain[14], vain[15], program.ask(id_, order)]


def hang_up(program: ForkingProgram) -> Answers:
    """Start one that sleeps, and wait for no answer."""
    id_ = program.open()
    data = encode_hydration(b"", program.order_for(id_, "sleep"))
    channel.send_request(program.channel, channel.StartRequest(id_, 60, data))
    place = program.result.parent.parent / f"{id_}.files" / "result"
    while not (place.exists() and place.read_text()):
        time.sleep(0.01)
    pid = place.read_text()
    program.channel.close()
    while Path(f"/proc/{pid}").exists():
        time.sleep(0.01)
    return ["it has ended", pid]


def die(program: ForkingProgram) -> Answers:
    """End without a result while the one that it started runs."""
    id_ = program.open()
    data = encode_hydration(b"", program.order_for(id_, "sleep"))
    channel.send_request(program.channel, channel.StartRequest(id_, 60, data))
    place = program.result.parent.parent / f"{id_}.files" / "result"
    while not (place.exists() and place.read_text()):
        time.sleep(0.01)
    os._exit(3)


TASKS: Final[dict[str, Callable[..., Answers]]] = {
    task.__name__: task
    for task in (echo, sleep, delegate, grow, lie, garble, flood, nag, hang_up, die)
}  # fmt: skip


def run() -> None:
    """Do the task, and write what came of it."""
    program = ForkingProgram(sys.argv[1:])
    task, *words = program.order.text.split()
    answers = TASKS[task](program, *words)
    content = answers[0] if len(answers) == 1 else json.dumps(answers)
    write_result(
        program.result, result_of(status="success", content=content, error="", metadata={})
    )


run()
