"""The sub-agents that run for one call of the session: one, the one that it opened, and so on.

The session starts each of them as the user that the daemon gave it. A sub-agent has one forked
sub-agent at a time, so those that run are a chain; the last one may ask for the next. What it asks
for is judged by what the daemon says of it, never by what the asker says.
"""

from __future__ import annotations

import os
import select
import socket
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hive_core.agent.prompt_context import config_folder
from hive_core.agent.reconnect import Link
from hive_core.agent.session.services import SessionServices, say
from hive_core.agent.session.subagents.channel import (
    OPTION,
    StartRequest,
    open_channel,
    receive_request,
    send_failure,
    send_result,
)
from hive_core.agent.session.subagents.folder import SubagentFolder, checked_result
from hive_core.agent.session.subagents.launch import GrantedSubagent, Launch
from hive_core.agent.session.subagents.process import SubagentProcess
from hive_core.agent.session.subagents.request import Asker, judge_request
from hive_core.agent.session.subagents.runtime import forked_runtime
from hive_core.agent.session.subagents.settings import ForkSettings
from hive_core.errors import Conflict, HiveError, Internal, TimedOut
from hive_core.varlink import Message

_OPENS: Final = 5.0  # seconds that the sockets of a new sub-agent have to appear
_REFUSALS_MOST: Final = 16
_SOCKETS: Final = ("broker.sock", "model.sock")
# Names the socket of a sub-agent to hive-egress in its environment, where it has one.
EGRESS_SOCKET: Final = "HIVE_EGRESS_SOCKET"
_KEPT: Final = ("HIVE_RUNTIME", "HIVE_CONFIG", "LANG")


@dataclass(slots=True, eq=False)
class RunningSubagent:
    """A sub-agent that runs, and the session's end of its channel; None once that is closed.

    `started`: those that it had started so far, each of which may be started once.
    """

    opened: GrantedSubagent
    seconds: int
    folder: SubagentFolder
    process: SubagentProcess
    channel: socket.socket | None
    ends: float
    cleanup: ExitStack
    refusals: int = 0
    started: set[str] = field(default_factory=set)

    def hang_up(self) -> None:
        """Close the channel: serve no further requests of this sub-agent."""
        if self.channel is not None:
            self.channel.close()
        self.channel = None

    def finish(self) -> Message:
        """End all its processes and return its result. HiveError says why there is none."""
        in_time = self.process.wait_for_exit()
        with self.cleanup:
            self.process.end()
            if self.process.stopped:
                raise Conflict("the sub-agent was stopped")
            if not in_time:
                raise TimedOut(f"the sub-agent did not end in {self.seconds} s and was killed")
            return checked_result(self.folder.read_result(), self.opened.name)

    def end(self) -> None:
        """End it whole, whatever it has done."""
        with self.cleanup:
            self.process.end()


class SubagentChain:
    """Runs the sub-agents of one turn of the session, one chain after the other."""

    def __init__(self, services: SessionServices, link: Link) -> None:
        self._services = services
        self._link = link
        self._chain: list[RunningSubagent] = []
        self._first: SubagentProcess | None = None
        self._is_ending = False

    def workspace_of(self, id_: str) -> Path:
        """Where a sub-agent works."""
        return self._folder_of(id_, None).workspace

    def run(self, launch: Launch) -> Message:
        """Start a sub-agent, and return its result once it and all that it opened have ended."""
        try:
            self._chain.append(self._start(launch, time.monotonic() + launch.seconds))
            self._first = self._chain[0].process
            if self._is_ending:
                self._first.kill()
            while (ended := self._serve_until_end()) > 0:
                self._answer_end(ended)
            self._end_from(1)
            return self._chain.pop().finish()
        finally:
            self._first = None
            self._end_from(0)

    def kill(self) -> None:
        """End the sub-agent that runs now, from another thread; none is started after it."""
        self._is_ending = True
        process = self._first
        if process is not None:
            process.kill()

    def _serve_until_end(self) -> int:
        """Serve requests until one of the chain has ended or hung up; its place in the chain."""
        while True:
            ready = self._poll()
            for place, running in enumerate(self._chain):
                has_ended = running.process.handle in ready or time.monotonic() >= running.ends
                if has_ended:
                    return place
                if running.channel is None or running.channel.fileno() not in ready:
                    continue
                if place + 1 < len(self._chain):  # it hung up, and waits no longer
                    running.hang_up()
                    return place + 1
                self._serve(running)
                break

    def _poll(self) -> set[int]:
        """The descriptors that have something to say, after as long as the chain may run."""
        poll = select.poll()
        for place, running in enumerate(self._chain):
            poll.register(running.process.handle, select.POLLIN)
            if running.channel is not None:  # who waits for an answer is not read before it
                is_last = place + 1 == len(self._chain)
                poll.register(running.channel.fileno(), select.POLLIN if is_last else 0)
        left = min(running.ends for running in self._chain) - time.monotonic()
        return {descriptor for descriptor, _ in poll.poll(max(0.0, left) * 1000 + 1)}

    def _serve(self, running: RunningSubagent) -> None:
        """Take one request of the last one of the chain, and start what it asks for."""
        assert running.channel is not None  # noqa: S101 - for the type
        try:
            request = receive_request(running.channel)
            if request is None:
                running.hang_up()
                return
            launch = self._judge(running, request)
            running.started.add(launch.opened.id)
            ends = min(running.ends, time.monotonic() + launch.seconds)
            self._chain.append(self._start(launch, ends))
        except HiveError as error:
            self._refuse(running, error)

    def _judge(self, running: RunningSubagent, request: StartRequest) -> Launch:
        """What the daemon and the configuration allow of a request, at this time."""
        services = self._services
        rows = services.ask(self._link, "list_subagents").get("subagents")
        asker = Asker(
            services.name, running.opened.id, running.started, bool(services.place.uid)
        )  # fmt: skip
        settings = ForkSettings.read(config_folder() / "agent.toml")
        return judge_request(asker, request, rows if isinstance(rows, list) else [], settings)

    def _refuse(self, running: RunningSubagent, error: HiveError) -> None:
        """Answer a refused request with the reason; close the channel after too many of them."""
        running.refusals += 1
        say(f"refused a request of sub-agent {running.opened.id}: {error.reason}")
        if running.refusals >= _REFUSALS_MOST:
            say(
                f"sub-agent {running.opened.id} made {_REFUSALS_MOST} refused requests:"
                " no more are served"
            )
            running.hang_up()
            return
        self._answer(running, error)

    def _answer_end(self, place: int) -> None:
        """End those from this place on, and give the result of the first of them to its opener."""
        self._end_from(place + 1)
        ended, opener = self._chain.pop(), self._chain[-1]
        try:
            answer: Message | HiveError = ended.finish()
        except HiveError as error:
            answer = error
        self._answer(opener, answer)

    def _answer(self, running: RunningSubagent, answer: Message | HiveError) -> None:
        if running.channel is None:
            return
        try:
            if isinstance(answer, HiveError):
                send_failure(running.channel, answer)
            else:
                send_result(running.channel, answer)
        except OSError:  # it is gone, or reads none of its answers
            running.hang_up()

    def _end_from(self, place: int) -> None:
        """End all from this place on, the last one first."""
        while len(self._chain) > place:
            self._chain.pop().end()

    def _folder_of(self, id_: str, uid: int | None) -> SubagentFolder:
        """The files of a sub-agent. The tools of the agent read the workspaces of them all."""
        return SubagentFolder(self._services.folder.parent, id_, uid, self._services.place.uid)

    def _start(self, launch: Launch, ends: float) -> RunningSubagent:
        """Start the process of a sub-agent; the program and the environment are the session's."""
        opened = launch.opened
        folder = self._folder_of(opened.id, opened.uid)
        sockets = [Path(self._services.socket).parent / "sub" / opened.id / name
                   for name in _SOCKETS]  # fmt: skip
        with ExitStack() as stack:
            if not launch.keeps_files:
                stack.callback(folder.remove)
            try:
                folder.make(launch.hydration)
                ours, theirs = open_channel()
            except OSError as error:
                raise Internal(f"cannot start a sub-agent: {error.strerror}") from None
            stack.callback(ours.close)
            _wait_for(sockets)
            runtime = stack.enter_context(
                forked_runtime(self._services, launch.order, opened.uid, sockets[1])
            )
            with theirs:
                process = SubagentProcess(
                    [*self._services.place.command, *_options(folder), *runtime.words, OPTION,
                     str(theirs.fileno())],
                    folder.workspace, self._environment(launch, folder, sockets), opened.uid,
                    [*runtime.descriptors, theirs.fileno()],
                )  # fmt: skip
            runtime.give()
            return RunningSubagent(
                opened, launch.seconds, folder, process, ours, ends, stack.pop_all()
            )

    def _environment(
        self, launch: Launch, folder: SubagentFolder, sockets: list[Path]
    ) -> dict[str, str]:
        """Facts for the sub-agent. None of them gives it a right: its sockets know what it is."""
        opened, services = launch.opened, self._services
        egress = sockets[0].with_name("egress.sock")
        return {
            **({EGRESS_SOCKET: str(egress)} if egress.is_socket() else {}),
            **{key: os.environ[key] for key in _KEPT if key in os.environ},
            "PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder.workspace),
            "HIVE_NAME": f"{services.name}/{opened.id}", "HIVE_AGENT_NAME": opened.name,
            "HIVE_SOCKET": str(sockets[0]), "HIVE_MODEL_SOCKET": str(sockets[1]),
            "HIVE_WORKSPACE": str(folder.workspace),
            "HIVE_PARENT_WORKSPACE": str(services.place.workspace),
            "HIVE_DEPTH": str(opened.depth), "HIVE_CLONE_DEPTH": str(opened.clone_depth),
        }  # fmt: skip


def _wait_for(sockets: list[Path]) -> None:
    ends = time.monotonic() + _OPENS
    while not all(socket.exists() for socket in sockets):
        if time.monotonic() > ends:
            raise Internal("the sockets of the sub-agent did not appear")
        time.sleep(0.005)


def _options(folder: SubagentFolder) -> list[str]:
    return [
        "ask", "--child", "--hydrate-from", str(folder.hydration), "--result", str(folder.result),
    ]  # fmt: skip
