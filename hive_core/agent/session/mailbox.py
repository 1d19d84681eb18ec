"""Receives mail: each letter is on disk in a log before it is acknowledged, and never twice."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from hive_core.agent.letter import ReceivedLetter
from hive_core.agent.prompt_context import save_definition
from hive_core.agent.reconnect import Link
from hive_core.agent.session.context import read_credentials
from hive_core.agent.session.inheritance import keep_segment
from hive_core.agent.session.log import MAIN, can_write, task_conversation
from hive_core.agent.session.router import SEGMENT, SKILL, RoutedLetter, input_record, route
from hive_core.agent.session.services import POLL, SessionServices, describe_fault, say
from hive_core.agent.session.session import AgentSession
from hive_core.agent.session.skill_files import install_skill
from hive_core.agent.session.state import task_mark
from hive_core.agent.session.tasks import IN_PROGRESS, SessionTasks
from hive_core.agent.task_run import mapping

_BACK: Final = 1.0
# A letter is logged as soon as it is there. After a kill in between it stays away for so long; one
# that comes again although it was logged is only acknowledged.
_LEASE: Final = 10.0
_AT_ONCE: Final = 10
_LOGGED: Final = 200


class Mailbox:
    """Two threads that receive, and what they do with a letter."""

    def __init__(self, services: SessionServices, session: AgentSession) -> None:
        self._services = services
        self._session = session

    def start(self) -> list[threading.Thread]:
        """Receive from now on."""
        threads = [
            threading.Thread(target=self._loop, args=(receive,), name=name, daemon=True)
            for name, receive in (("mail", self._receive_mail), ("work", self._receive_work))
        ]
        for thread in threads:
            thread.start()
        return threads

    def resume_tasks(self, link: Link) -> None:
        """Begin a turn for each task that was begun and of which no log is left."""
        rows = self._services.ask(link, "list_tasks", only=True, open=True).get("tasks")
        for row in map(mapping, rows if isinstance(rows, list) else []):
            task, attempt = str(row.get("id")), row.get("attempt")
            if row.get("state") != IN_PROGRESS or self._session.has_seen(task_mark(task, attempt)):
                continue
            whole = self._services.ask(link, "get_task", task=task)
            body = f"task: {task}\nattempt: {attempt}\n\n{whole.get('description')}"
            letter = ReceivedLetter("", "daemon", "daemon", body, "task", "", "")
            record = {
                **input_record({}, letter), "kind": "task", "task": task, "attempt": attempt,
                "reply": False,
            }  # fmt: skip
            self._session.add_input(task_conversation(task), record)

    def take_waiting(self, link: Link) -> None:
        """Take the mail that came first: the definition is to be in the first system prompt."""
        self._receive(link, only="other", most=_AT_ONCE, wait=0.0)

    def take(self, link: Link, message: object) -> None:
        """Log a letter and acknowledge it."""
        letter = route(message)
        is_new = not self._session.has_seen(letter.id)  # else it was logged before a crash
        if is_new and letter.action == "task":
            self._take_task(link, letter)
            return
        if is_new:
            self._handle(link, letter)
        self._ack(link, letter)

    def _handle(self, link: Link, letter: RoutedLetter) -> None:
        match letter.action:
            case "task":
                pass  # _take_task acknowledges it when there is room for it
            case "stop":
                self._stop(link, letter)
            case "wake" | "judge":
                self._wake(letter)
            case "define":
                self._keep_text(link, letter)
            case "remind":
                self._session.remind(read_credentials(self._services, link))
            case "drop":
                say(letter.text[:_LOGGED])
            case "input":
                name = self._session.conversation_for(letter)
                self._session.add_input(name, letter.record, urgent=letter.urgent)

    def _wake(self, letter: RoutedLetter) -> None:
        """Have a result judged, or the turns go on that wait for a budget."""
        if letter.action == "judge":
            self._session.judge.note(letter.task)
        else:
            self._session.note_budget()

    def _keep_text(self, link: Link, letter: RoutedLetter) -> None:
        """Keep the definition of the agent, or its skill and its conversation as a colony."""
        if letter.kind == SEGMENT:
            keep_segment(self._services, link, letter.text)
        elif letter.kind == SKILL:
            install_skill(self._services, link, letter.text)
        else:
            save_definition(self._services.folder.parent, letter.text)

    def _take_task(self, link: Link, letter: RoutedLetter) -> None:
        """Begin the turn of a task, if there is room for it now; else the letter comes again.

        Another letter about the same attempt offers it again: the turn of an earlier letter may
        have been abandoned when the daemon had withdrawn it.
        """
        if not self._session.has_room:
            self._services.try_ask(link, "nack", ids=[letter.id], why="another turn runs")
        else:
            name = letter.conversation
            if name == MAIN and self._session.is_open(MAIN):
                name = task_conversation(letter.task)
            self._session.add_input(name, letter.record)
            self._ack(link, letter)

    def _stop(self, link: Link, letter: RoutedLetter) -> None:
        """Stop the turn of a task; where none runs, the daemon waits for a word about it."""
        for name in (letter.conversation, MAIN):
            if self._session.stop_turn(name, letter.task, letter.text):
                return
        self._session.forget_pause(letter.task)
        tasks = SessionTasks(self._services, link)
        if tasks.state(letter.task) == "stopping":
            tasks.finish(letter.task, "stopped", "no turn was open for it", f"stop:{letter.id}")

    def _ack(self, link: Link, letter: RoutedLetter) -> None:
        self._services.try_ask(link, "ack", ids=[letter.id])

    def _receive_mail(self, link: Link) -> None:
        self._receive(link, only="other", most=_AT_ONCE)

    def _receive_work(self, link: Link) -> None:
        if self._session.wait_for_room():
            self._receive(link, only="work", most=1)

    def _receive(self, link: Link, only: str, most: int, wait: float = POLL) -> None:
        reply = link.ask("recv", wait=wait, max=most, only=only, lease=_LEASE)
        messages = reply.get("messages")
        for message in messages if isinstance(messages, list) else []:
            self.take(link, message)

    def _loop(self, receive: Callable[[Link], None]) -> None:
        with self._services.open_link() as link:
            while not self._services.stop.is_set():
                try:
                    receive(link)
                except Exception as error:  # noqa: BLE001 - a fault of ours ends no thread
                    link.close()
                    if not self._services.stop.is_set():
                        say(f"cannot receive: {describe_fault(error)}")
                        self._wait(for_log=isinstance(error, OSError))

    def _wait(self, *, for_log: bool) -> None:
        """Wait before the next letter; `for_log`, until a log can be written.

        A letter that cannot be logged comes again, but only so often.
        """
        while not self._services.stop.wait(_BACK):
            if not for_log or can_write(self._services.folder):
                return
