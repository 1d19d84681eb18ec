"""Triggers and artifacts from inside containers: K21, K31, Q32-Q34; attacks 46 and 47."""

from __future__ import annotations

import base64
import hmac
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from e2e.hivehost import HiveHost, Reply
from e2e.kills import tell_with_kills
from e2e.shared_hosts import LEAD, SharedHost
from e2e.webhook_requests import (
    github_headers,
    hive_headers,
    malformed_requests,
    request,
    send_bytes,
    smuggling_request,
    status,
    unfinished_requests,
)

pytestmark = pytest.mark.lab
HOOKS = "/run/hive/hooks.sock"
SECRET = "a secret of the sender's"  # noqa: S105 - of this test
SAY = {"kind": "message", "text": "look at the queue"}
DO = {"kind": "task", "text": "count the lines"}
PROXY = """[Socket]
ListenStream=127.0.0.1:8787
[Install]
WantedBy=sockets.target
"""


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    made = shared_host.prepare("mail", agents=LEAD)
    made.grow(other={"role": "lead"})
    made.grow(ann={"parent": "lead", "role": "worker"}, bea={"parent": "lead", "role": "worker"})
    return made


def put(host: HiveHost, caller: str, name: str, when: dict[str, object], **more: object) -> Reply:
    words = {"name": name, "when": when, "action": SAY, **more}
    reply = host.call("SetTrigger", **words) if caller == "operator" else host.ask(
        caller, "SetTrigger", **words
    )  # fmt: skip
    assert not reply.error, reply
    return reply


def fires(host: HiveHost, id_: str) -> list[dict[str, Any]]:
    """The oldest first."""
    result: list[dict[str, Any]] = host.call("ListFires", trigger=id_)["fires"]
    return result[::-1]


def state(host: HiveHost, name: str) -> str:
    rows = {agent["name"]: agent["state"] for agent in host.call("ListAgents")["agents"]}
    return str(rows[name])


def test_cron_triggers_fire_and_each_fire_is_an_event(host: HiveHost) -> None:
    """K31, Q32, Q34: what fires at once is one message with the ids of the fires."""
    ids = {
        put(host, "lead", name, {"cron": "* * * * * *", "zone": "Europe/Berlin"})["id"]
        for name in ("one", "two")
    }
    host.until(lambda: all(fires(host, id_) for id_ in ids), "no fire")
    (listed, *_) = host.ask("lead", "ListTriggers")["triggers"]
    assert listed["next"] is not None
    assert listed["explained"] == "Every second (Europe/Berlin)"
    for id_ in ids:
        assert host.ask("lead", "RemoveTrigger", trigger=id_)["name"]
    letters = [message for message in host.mail("lead") if message["kind"] == "trigger"]
    heads = [json.loads(letter["body"].partition("\n")[0])["fires"] for letter in letters]
    assert {fire["trigger"] for head in heads for fire in head} == ids
    assert any(len(head) == 2 for head in heads)
    events = {
        event["fields"]["fire"] for event in host.events(last=200) if event["kind"] == "trigger"
    }
    assert {fire["fire"] for head in heads for fire in head} <= events


@pytest.mark.parametrize(
    ("when", "says"),
    [
        ({"cron": "61 * * * *"}, "bad minute"),
        ({"cron": "0 0 31 2 *"}, "bad day-of-month"),
        ({"cron": "0 0 * * *", "zone": "Mars/Olympus"}, "not a time zone"),
        ({"at": "2020-01-01"}, "not in the next ten years"),
    ],
)
def test_an_invalid_trigger_is_refused(host: HiveHost, when: dict[str, object], says: str) -> None:
    """Q32: an invalid cron is refused, with what is wrong in it."""
    refused = host.ask("lead", "SetTrigger", name="x", when=when, action=SAY)
    assert refused.error == "InvalidArgument"
    assert says in refused.reason


def test_trigger_rights_follow_tree_and_capability(host: HiveHost) -> None:
    """K31: the own subtree, with the capability; others do not exist."""
    words = {"name": "x", "when": {"every": 60.0}, "action": SAY}
    assert host.ask("ann", "SetTrigger", **words).error == "NotAllowed"
    assert host.ask("other", "SetTrigger", agent="ann", **words).error == "NotFound"
    id_ = host.ask("lead", "SetTrigger", agent="ann", **words)["id"]
    assert host.ask("ann", "RemoveTrigger", trigger=id_).error == "NotAllowed"
    assert [trigger["id"] for trigger in host.ask("ann", "ListTriggers")["triggers"]] == [id_]
    assert not host.ask("lead", "RemoveTrigger", trigger=id_).error


def test_triggers_fire_for_stopped_agents_and_wake_sleeping_ones(host: HiveHost) -> None:
    """Q33: durable; a message waits, a wake brings back a sleeper and undoes no stop."""
    id_ = put(host, "lead", "up", {"every": 1.0}, agent="bea",
              action={"kind": "wake", "text": "good morning"})["id"]  # fmt: skip
    host.close_connections("bea")
    assert not host.ask("lead", "Sleep", agent="bea").error
    host.until(lambda: state(host, "bea") == "running"
               and fires(host, id_), "not woken", 30)  # fmt: skip
    host.ask("lead", "RemoveTrigger", trigger=id_)
    own = put(host, "operator", "own", {"every": 1.0}, agent="bea")["id"]
    host.call("Stop", agent="bea", wait=20)
    before = len(fires(host, own))
    host.until(lambda: len(fires(host, own)) > before + 1, "no fire while it is stopped")
    assert state(host, "bea") == "stopped"
    host.call("RemoveTrigger", trigger=own)
    host.call("Start", agent="bea", wait=20)
    host.wait("running", "bea")
    assert (
        len([message for message in host.mail("bea") if message["kind"] == "trigger"]) >= before + 2
    )


def test_a_trigger_spawns_with_the_rights_of_its_creator(host: HiveHost) -> None:
    """K31: action spawn, which was broken in HiveKernel."""
    action = {"kind": "spawn", "text": "sweep", "agent": {"name": "sweeper", "role": "task"}}
    at = str(time.time() + 2)
    id_ = put(host, "lead", "sweep", {"at": at}, action=action)["id"]
    host.until(lambda: fires(host, id_), "no fire")
    (fire,) = fires(host, id_)
    assert (fire["state"], fire["agent"]) == ("open", "sweeper-1")
    assert host.tree()["sweeper-1"] == "lead"
    host.wait("running", "sweeper-1")
    host.mail("sweeper-1")
    reply = host.ask("sweeper-1", "FinishTask", task=fire["ref"], status="success", summary="clean")
    assert not reply.error, reply
    (fire,) = fires(host, id_)
    assert (fire["state"], fire["output"]) == ("done", "clean")
    host.close_connections("sweeper-1")
    host.call("Destroy", agent="sweeper-1", wait=20)


def curl(host: HiveHost, path: str, body: str, *words: str, to: str = "") -> tuple[int, str]:
    """Status and body of a call from outside."""
    where = [to] if to else ["--unix-socket", "/run/hive/hooks.sock", f"http://hive{path}"]
    done = host.run(
        "curl", "-sS", "-o", "/tmp/answer", "-w", "%{http_code}", "--data-binary", "@-", *words,
        *where, text=body,
    )  # fmt: skip
    return int(done.stdout), host.run("cat", "/tmp/answer").stdout


def sign(body: str) -> str:
    return (
        "Hive-Signature: sha256=" + hmac.new(SECRET.encode(), body.encode(), "sha256").hexdigest()
    )


def test_a_webhook_accepts_a_signed_delivery_once(host: HiveHost) -> None:
    """Q32: mandatory secret, idempotency; the body reaches the agent as data."""
    reply = put(host, "lead", "hook", {"webhook": {"secret": SECRET}})
    path, body = reply["path"], '{"push": 1}'
    assert host.run("stat", "-c", "%a %G", "/run/hive/hooks.sock").stdout == "660 hive-operator\n"
    assert curl(host, path, body)[0] == 404
    assert curl(host, path, body + "x", "-H", sign(body))[0] == 404
    first = curl(host, path, body, "-H", sign(body), "-H", "Idempotency-Key: k1")
    again = curl(host, path, body, "-H", sign(body), "-H", "Idempotency-Key: k1")
    other = curl(host, path, body, "-H", sign(body), "-H", "Idempotency-Key: k2")
    assert (first[0], again[0], first[1]) == (202, 200, again[1])
    assert other == again, "a key that nobody signed makes no other fire"
    (letter,) = [message for message in host.mail("lead") if "delivery" in message["body"]]
    assert letter["from"] == "daemon"
    assert letter["body"].endswith("\n" + body)
    log = host.run("journalctl", "-u", "hived", "-o", "cat").stdout
    assert '"push"' not in log
    assert SECRET not in log


def test_webhooks_open_no_port_and_work_behind_systemd_socket_proxyd(host: HiveHost) -> None:
    """K27: as docs/guide/triggers.md has it."""
    path, body = put(host, "lead", "hook", {"webhook": {"secret": SECRET}})["path"], "{}"
    assert ":8787" not in host.run("ss", "-ltn").stdout
    service = ("[Unit]\nRequires=hive-hooks.socket\n[Service]\nUser=root\n"
               "ExecStart=/lib/systemd/systemd-socket-proxyd /run/hive/hooks.sock\n")  # fmt: skip
    for name, text in (("socket", PROXY), ("service", service)):
        host.run("sh", "-c", f"cat >/etc/systemd/system/hive-hooks.{name}", text=text)
    host.run("systemctl", "daemon-reload")
    host.run("systemctl", "start", "hive-hooks.socket")
    status, _ = curl(host, path, body, "-H", sign(body), to=f"http://127.0.0.1:8787{path}")
    host.run("systemctl", "stop", "hive-hooks.socket", "hive-hooks.service")
    assert status == 202


def test_a_webhook_has_the_chosen_address_and_methods(host: HiveHost) -> None:
    """Q32: path and methods; a signature over all of a request is good once."""
    hook = {"secret": SECRET, "path": "ci/push", "methods": ["PUT"], "strict": True}
    reply = put(host, "lead", "chosen", {"webhook": hook})
    socket, path, now = host.lab.path(HOOKS), reply["path"], int(host.run("date", "+%s").stdout)
    assert path == "/hook/lead/ci/push"
    with_all = request(path, hive_headers(SECRET, path, now, "PUT"), method="PUT")
    assert [status(send_bytes(socket, with_all)) for _ in range(2)] == [202, 200]
    old = request(path, hive_headers(SECRET, path, now - 400, "PUT"), method="PUT")
    assert status(send_bytes(socket, old)) == 404
    refused = send_bytes(socket, request(path, hive_headers(SECRET, path, now)))
    assert (status(refused), "allow: put" in refused.lower()) == (405, True)
    assert status(send_bytes(socket, request(path, github_headers(SECRET), method="PUT"))) == 404
    taken = host.call("SetTrigger", name="x", agent="lead", when={"webhook": {"path": "ci/push"}},
                      action=SAY)  # fmt: skip
    assert taken.error == "AlreadyExists"
    host.ask("lead", "RemoveTrigger", trigger=reply["id"])
    assert status(send_bytes(socket, with_all)) == 404


def test_webhooks_withstand_clients_that_break_http(host: HiveHost) -> None:
    """Slow ones, long ones, two lengths, other spellings and a flood: others are served."""
    socket = host.lab.path(HOOKS)
    path = put(host, "other", "in", {"webhook": {"secret": SECRET, "path": "in"}})["path"]
    good, attacks = request(path, github_headers(SECRET)), malformed_requests(path, SECRET)
    with unfinished_requests(socket, 200):
        assert status(send_bytes(socket, good)) == 202
        assert {attack: status(send_bytes(socket, attack)) for attack in attacks} == attacks
        assert send_bytes(socket, smuggling_request(path, SECRET)).count("HTTP/1.1 ") == 1
        assert (
            status(send_bytes(socket, request(path, github_headers("the secret of another"))))
            == 404
        )
        others = [b"[%d]" % number for number in range(110)]
        flood = [
            status(send_bytes(socket, request(path, github_headers(SECRET, b), b))) for b in others
        ]
        assert not host.call("Status").error
    assert (flood.count(202) <= 99, flood[-1]) == (True, 429)  # a hundred a minute, with the first


def store(host: HiveHost, caller: str, name: str, text: str, **more: object) -> Reply:
    return host.ask(caller, "StoreArtifact", name=name, text=text, **more)


def read(host: HiveHost, caller: str, **which: object) -> str:
    """Text of an artifact of one part, or the error."""
    reply = host.ask(caller, "GetArtifact", **which)
    return reply.error or base64.b64decode(reply["data"]).decode()


def test_fires_and_artifacts_outlive_a_kill_of_the_daemon(host: HiveHost) -> None:
    """K21, K31, Q33."""
    tell_with_kills(
        host, _a_trigger_fires_one_task_at_a_time_and_records_its_result(host),
        _artifact_visibility_follows_the_tree_at_the_time_of_storing(host),
        _times_missed_without_a_daemon_fire_once(host),
    )  # fmt: skip


def _times_missed_without_a_daemon_fire_once(host: HiveHost) -> Iterator[float]:
    """Q33: missed policy `latest`; nothing is doubled."""
    id_ = put(host, "lead", "missed", {"cron": "* * * * * *"})["id"]
    host.until(lambda: fires(host, id_), "no fire")
    yield 2  # that is what it is about: so many times pass
    host.until(lambda: any(fire["count"] >= 2 for fire in fires(host, id_)), "nothing was made up")
    host.call("RemoveTrigger", trigger=id_)
    dues = [fire["due"] for fire in fires_of_events(host, id_)]
    assert len(dues) == len(set(dues))


def fires_of_events(host: HiveHost, id_: str) -> list[dict[str, Any]]:
    all_fires = [event["fields"] for event in host.events(last=500) if event["kind"] == "trigger"]
    return [fire for fire in all_fires if fire["trigger"] == id_]


def _a_trigger_fires_one_task_at_a_time_and_records_its_result(host: HiveHost) -> Iterator[None]:
    """No overlap; the last status, output and duration are kept."""
    id_ = put(host, "lead", "count", {"every": 1.0}, agent="ann", action=DO)["id"]
    host.until(lambda: len(fires(host, id_)) > 1, "no fire")
    lost = "/var/lib/hive/secrets/00000009-0000-4000-8000-000000000000"
    script = f"umask 77; mkdir -p {lost}; echo of no trigger >{lost}/0123456789abcdef"
    host.lab.run(["setpriv", "--reuid=hive", "--regid=hive", "--clear-groups", "sh", "-c", script])
    assert host.lab.path(lost).is_dir()
    yield
    first, second, *rest = fires(host, id_)
    assert (first["state"], second["state"], rest) == ("open", "waits", [])
    assert not host.lab.path(lost).exists()
    host.mail("ann")
    done = host.ask("ann", "FinishTask", task=first["ref"], status="success", summary="4 lines")
    assert not done.error, done
    host.until(lambda: len(fires(host, id_)) > 2, "the next one did not come")
    first, _, third, *_ = fires(host, id_)
    assert (first["state"], first["status"], first["output"]) == ("done", "success", "4 lines")
    assert first["duration"] > 0
    assert (third["state"], third["count"] >= 1) == ("open", True)
    host.ask("lead", "RemoveTrigger", trigger=id_)
    host.ask("lead", "CancelTask", task=third["ref"])


def _artifact_visibility_follows_the_tree_at_the_time_of_storing(host: HiveHost) -> Iterator[None]:
    """Private, subtree, user; not to be forged."""
    for visibility in ("private", "subtree", "user"):
        assert not store(host, "ann", visibility, "mine", visibility=visibility).error
    yield
    expected = {"ann": "mine mine mine", "lead": "NotFound mine mine",
                "bea": "NotFound NotFound mine", "other": "NotFound NotFound mine"}  # fmt: skip
    for caller, expected_reads in expected.items():
        names = ("private", "subtree", "user")
        assert (
            " ".join(read(host, caller, name=name, owner="ann") for name in names) == expected_reads
        )
    assert store(host, "bea", "user", "forged", owner="ann").error == "NotAllowed"
    assert store(host, "other", "user", "forged", owner="ann").error == "NotFound"
    assert store(host, "lead", "user", "newer", owner="ann", visibility="user")["version"] == 2
    assert read(host, "other", name="user", owner="ann", version=1) == "mine"
    assert store(host, "ann", "x", "x", visibility="global").error == "NotAllowed"


def test_a_large_file_goes_in_and_out_by_the_client(host: HiveHost) -> None:
    """K21: streamed; a file is written whole, and over no other."""
    inside = "cd /tmp && head -c 3000000 /dev/urandom >big && hive-agent artifact put big"
    id_ = host.inside("ann", "sh", "-c", f"{inside} --visibility subtree").strip()
    host.inside("lead", "hive-agent", "artifact", "get", id_, "/tmp/copy")
    digests = {
        host.inside(agent, "sha256sum", file).split()[0]
        for agent, file in (("ann", "/tmp/big"), ("lead", "/tmp/copy"))
    }
    (row,) = [
        artifact for artifact in host.json("artifact", "list", "big") if artifact["id"] == id_
    ]
    assert digests == {row["digest"]}
    host.run("hive", "artifact", "get", id_, "--to", "/tmp/operators")
    assert host.run("sha256sum", "/tmp/operators").stdout.split()[0] == row["digest"]
    host.fails(1, "artifact", "get", id_, "--to", "/tmp/operators")


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/../b", ".ssh", "a\nb", "x\u202egnp"])
def test_misleading_artifact_names_are_refused(host: HiveHost, name: str) -> None:
    """Attack 47."""
    assert store(host, "ann", name, "x").error == "InvalidArgument"


def test_an_artifact_outlives_its_author(host: HiveHost) -> None:
    """K21: what HiveKernel lost with the author."""
    host.grow(gone={"parent": "lead", "role": "worker"})
    id_ = store(host, "gone", "result", "kept", visibility="subtree")["id"]
    uuid = host.uuid("gone")
    host.close_connections("gone")
    host.call("Destroy", agent="gone", wait=20)
    assert read(host, "lead", id=id_) == read(host, "lead", name="result", owner=uuid) == "kept"
    assert read(host, "other", id=id_) == "NotFound"
    assert host.ask("other", "DeleteArtifact", id=id_).error == "NotFound"
    assert host.ask("lead", "DeleteArtifact", id=id_)["versions"] == [1]


def test_a_damaged_artifact_is_detected_and_reported(host: HiveHost) -> None:
    """K21: the daemon serves no bytes that differ from the stored ones, and raises an alarm."""
    digest = store(host, "ann", "fragile", "x" * 1000)["digest"]
    path = f"/var/lib/hive/artifacts/{digest[:2]}/{digest[2:4]}/{digest}"
    assert host.run("stat", "-c", "%a %U", path).stdout == "600 hive\n"
    host.run("sh", "-c", f"printf y >>{path}")
    assert read(host, "ann", name="fragile") == "Internal"
    assert any(digest in alarm for alarm in host.call("Status")["alarms"])
