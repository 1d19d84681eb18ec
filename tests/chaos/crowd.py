"""Several clients of one agent at once, with its mail and its children; plain Python only.

The program runs in the container of the agent, or on the host for the operator. It prints each
reply as one JSON object a line at once: a later check takes these as acknowledged. When its input
ends, every client finishes its call and the program ends.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any

from e2e.wire import Wire

Reply = dict[str, Any]
# Errors that any caller may get.
FAIR = {"InboxFull", "LimitReached", "NotFound", "Busy", "StorageFull"}
# The call had no effect: the client repeats it.
LATER = {"Busy", "StorageFull"}
PATIENCE = 60.0
PETS = 2


@dataclass
class ClientProcess:
    """The caller, its socket and its bounds, shared by its clients."""

    name: str
    socket: str
    seed: int
    pace: float  # seconds between two calls of one client, on the average
    peers: list[str]  # to whom it may send
    homes: list[str]  # under whom it may keep pets; none: it keeps none
    command: list[str]  # what a pet runs
    going: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def say(self, who: str, kind: str, **values: object) -> None:
        row = {"at": time.monotonic(), "who": who, "what": kind, **values}
        with self._lock:
            sys.stdout.write(json.dumps(row) + "\n")
            sys.stdout.flush()


class Client:
    """One connection, made again when it breaks."""

    def __init__(self, process: ClientProcess, role: str) -> None:
        self.process, self.who = process, f"{process.name}/{role}"
        self.random = Random(f"{process.seed} {self.who}")  # noqa: S311 - a schedule, no secret
        self._wire: Wire | None = None

    @property
    def going(self) -> bool:
        """Thinks a moment; whether there is to be another call."""
        time.sleep(self.random.expovariate(1 / self.process.pace))
        return self.process.going.is_set()

    def say(self, kind: str, **values: object) -> None:
        self.process.say(self.who, kind, **values)

    def call(self, method: str, /, **parameters: object) -> Reply | None:
        """The reply; None if the connection broke, so that the outcome is unknown."""
        try:
            if self._wire is None:
                self._wire = Wire(self.process.socket, PATIENCE)
            reply = self._wire.ask(method, parameters)
        except OSError as error:
            if isinstance(error, TimeoutError):
                self.say("stuck", method=method, parameters=parameters)
            self.close()
            return None
        if name := reply.get("error", "").rpartition(".")[2]:
            if job := reply["parameters"].get("job"):
                return {"job": job}  # the order was taken; how its job ended is told by the job
            self.say(
                "refused" if name in FAIR else "wrong", method=method, parameters=parameters,
                error=reply,
            )  # fmt: skip
            return {"error": name}
        result: Reply = reply["parameters"]
        return result

    def call_until_answered(self, method: str, key: str, /, **parameters: object) -> Reply:
        """With a key, again and again until it is answered; sometimes once more after that."""
        reply, since = None, time.monotonic()
        while reply is None:
            reply = self.call(method, **parameters, idempotency_key=key)
            if time.monotonic() > since + 2 * PATIENCE:
                self.say("stuck", method=method, parameters=parameters)
                return {"error": "stuck"}
        if "error" not in reply and self.random.random() < 0.1:
            again = self.call(method, **parameters, idempotency_key=key)
            late = again is None or again.get("error") in LATER
            if again is not None and not late and _result(again) != _result(reply):
                self.say("wrong", method=method, first=reply, second=again)
        return reply

    def close(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None
        else:
            time.sleep(0.02)  # nobody listens for a moment, and nothing tells when somebody does


def _result(reply: Reply) -> Reply:
    """What a repeat must give again: not how far a job has come, which `ended` tells."""
    return {key: value for key, value in reply.items() if key != "ended"}


def letters(client: Client) -> Iterator[tuple[str, str, dict[str, object]]]:
    """To whom, and a body that says from whom it is and the how manieth of this pair it is."""
    numbers: Counter[str] = Counter()
    while client.going:
        to = client.random.choice(client.process.peers)
        mark = f"{client.who}>{to}#{numbers[to]}"
        numbers[to] += 1
        filling = "x" * int(client.random.expovariate(1 / 200))
        yield to, mark, {"to": to, "body": f"{mark} {filling}"}


def send_keyed(client: Client) -> None:
    for to, mark, parameters in letters(client):
        reply = client.call_until_answered("Send", mark, **parameters)
        if "id" in reply:
            client.say("sent", to=to, mark=mark, id=reply["id"], key=mark)


def send_plain(client: Client) -> None:
    for to, mark, parameters in letters(client):
        reply = client.call("Send", **parameters, priority=1)
        if reply is None:
            client.say("unknown", method="send", mark=mark)
        elif "id" in reply:
            client.say("sent", to=to, mark=mark, id=reply["id"], key="")


def read_mail(client: Client) -> None:
    """Take mail, ack most of it, give some back, and forget some until its lease ends."""
    for number in count():
        if not client.going:
            return
        reply = client.call(
            "Recv", max=client.random.randint(1, 20), lease=client.random.choice((1, 2, 60)),
            wait=client.random.choice((0, 0.2)),
        )  # fmt: skip
        mail = (reply or {}).get("messages", [])
        for message in mail:
            mark = message["body"].partition(" ")[0]
            client.say("got", id=message["id"], sender=message["from_uuid"], mark=mark)
        _answer(client, [message["id"] for message in mail], f"{client.who}-{number}")


def _answer(client: Client, ids: list[str], key: str) -> None:
    kinds: dict[str, list[str]] = {"ack": [], "nack": [], "forget": []}
    for id_ in ids:
        (kind,) = client.random.choices(tuple(kinds), (90, 6, 4))
        kinds[kind].append(id_)
    if nack := kinds["nack"]:
        reply = client.call_until_answered("Nack", f"{key}-nack", ids=nack)
        if "error" not in reply:
            client.say("nacked", ids=nack)
    if not (nack := kinds["ack"]):
        return
    if client.random.random() < 0.5:
        result: Reply | None = client.call_until_answered("Ack", f"{key}-ack", ids=nack)
    else:
        client.say("acking", ids=nack)
        result = client.call("Ack", ids=nack)
    if result is None:
        client.say("unknown", method="ack")
    elif "error" not in result:
        client.say("acked", ids=nack)


def list_and_wait(client: Client) -> None:
    """Make calls that list and wait; keep only their errors."""
    calls: list[tuple[str, dict[str, object]]] = [
        ("Whoami", {}), ("ListAgents", {}), ("ListJobs", {"limit": 20}),
        ("ListMessages", {"limit": 50}), ("ListMessages", {"limit": 50, "dead": True}),
    ]  # fmt: skip
    if client.process.name == "operator":
        names = [peer for peer in client.process.peers if peer != "operator"]
        wait = {"agents": names, "states": ["parked"], "wait": 0.3}
        calls[:1] = [("Status", {}), ("ListEvents", {"limit": 100}), ("WaitAgents", wait)]
    while client.going:
        method, parameters = client.random.choice(calls)
        client.call(method, **parameters)


def manage_pets(client: Client) -> None:
    """Children come, stop, start, move and go; most are waited for before the next is asked."""
    pets: dict[str, str] = {}  # name -> parent
    for number in count():
        if not client.going:
            break
        pet = client.random.choice(sorted(pets)) if pets else ""
        if len(pets) < PETS:
            pet = f"{client.process.name}-{number}"
            _change_pet(client, pets, "Spawn", pet, number)
        else:
            method = client.random.choice(("Stop", "Start", "Kill", "Restart", "Move", "Destroy"))
            _change_pet(client, pets, method, pet, number)
    for pet in sorted(pets):
        _change_pet(client, pets, "Destroy", pet, f"end-{pet}")


def _change_pet(
    client: Client, pets: dict[str, str], method: str, pet: str, number: object
) -> None:
    words: dict[str, object] = {"agent": pet}
    home = client.random.choice([home_ for home_ in client.process.homes if home_ != pets.get(pet)])
    if method == "Spawn":
        words = {"name": pet, "parent": home, "command": client.process.command}
    elif method == "Move":
        words["parent"] = home
    wait = client.random.choice((0, 5))
    reply = client.call_until_answered(method, f"{client.who}-{number}", **words, wait=wait)
    if "error" in reply:
        return
    if method in {"Spawn", "Move"}:
        pets[pet] = home
    elif method == "Destroy":
        del pets[pet]
    key, job = f"{client.who}-{number}", reply.get("job")
    client.say("did", method=method, pet=pet, key=key, uuid=reply.get("uuid"), job=job)
    if job and (isinstance(number, str) or client.random.random() < 0.8):
        _wait_for_job(client, method, pet, job)


def _wait_for_job(client: Client, method: str, pet: str, job: str) -> None:
    """Wait until the job ends, across whatever breaks."""
    since = time.monotonic()
    while time.monotonic() < since + 2 * PATIENCE:
        reply = client.call("WaitJob", id=job, wait=5)
        if reply is not None and reply.get("state") != "running":
            client.say("job", method=method, pet=pet, job=job, state=reply.get("state", "gone"),
                       error=reply.get("error", ""))  # fmt: skip
            return
    client.say("stuck", method=method, parameters={"job": job})


WORK: dict[str, Callable[[Client], None]] = {
    "keyed": send_keyed, "plain": send_plain, "reader": read_mail, "looker": list_and_wait,
    "gardener": manage_pets, "other": send_keyed,
}  # fmt: skip


def main() -> None:
    process = ClientProcess(**json.loads(sys.argv[1]))
    process.going.set()
    last = "gardener" if process.homes else "other"
    roles = ("keyed", "plain", "reader", "looker", last)
    threads = [threading.Thread(target=WORK[role], args=(Client(process, role),)) for role in roles]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    process.going.clear()
    for thread in threads:
        thread.join()
    process.say(process.name, "ended")


if __name__ == "__main__":
    main()
