"""Attacks by a hived that was taken over: all that it may ask for, and where it may write."""

from dataclasses import replace

import pytest
from e2e.attackers import as_hive
from e2e.privdhost import Agent, PrivdHost, SharedPrivdHost

from hive_core.errors import Conflict, HiveError, NotFound
from hive_core.plan.actions import (
    KINDS,
    Action,
    AdoptRoot,
    ArchiveNode,
    DropArchive,
    DropRoot,
    JobKind,
    KillUnit,
    MakeNode,
    MakeSocketDirectory,
    Mount,
    MoveNode,
    ObserveStorage,
    ObserveUnit,
    RemoveSocketDirectory,
    RestoreNode,
    RunJob,
    SetSlice,
    ShowStore,
    StartUnit,
    StopUnit,
    UnitLimits,
    Unmount,
)
from hive_core.plan.results import Done, encode

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def host(shared_privd: SharedPrivdHost) -> PrivdHost:
    return shared_privd.prepare()


def test_11_hived_cannot_replace_what_belongs_to_root(host: PrivdHost) -> None:
    agent = host.agent()
    host.prepare(agent)
    said = as_hive(
        host,
        f"""
for each in tree roots mounts; do
    mv /var/lib/hive/$each /var/lib/hive/old && echo MOVED
    ln -sfn /etc /var/lib/hive/$each/x && echo LINKED
    ls /var/lib/hive/$each && echo READ
done
directory=/run/hive/agents/{agent.uuid}
mv $directory/run $directory/old && echo MOVED
rm -rf $directory/view && echo REMOVED
mv /run/hive/agents /run/hive/old && echo MOVED
rm -f /run/hive/privd.sock && echo REMOVED
echo x >/run/hive/exits/{agent.uuid} && echo WRITTEN
ln -s /etc /run/hive/exits/{agent.uuid}.new && echo LINKED
echo evil /etc >>/etc/hive/images && echo WRITTEN
""",
    )
    done = {"MOVED", "LINKED", "READ", "REMOVED", "WRITTEN"}
    assert done.isdisjoint(said.splitlines())


def test_11_a_socket_directory_full_of_links_leads_nowhere(host: PrivdHost) -> None:
    """What hived puts into a socket directory is not followed, and only that is removed."""
    agent = host.agent()
    host.prepare(agent)
    bait = host.lab.path("/var/lib/decoy")
    bait.mkdir()
    (bait / "canary").write_text("whole")
    directory = f"/run/hive/agents/{agent.uuid}"
    as_hive(
        host,
        f"""
cd {directory}/run; ln -s /var/lib/decoy link; ln -s /etc/passwd identity.json; mkfifo fifo
mkdir -p deep/er; ln -s /var/lib/decoy deep/er/link
(while :; do rm -rf deep; ln -s /var/lib/decoy deep; rm deep; mkdir deep; ln -s / deep/x; done) \\
    >/dev/null 2>&1 & echo $! >/tmp/swapper
""",
    )
    host.do(agent.start)
    host.until(lambda: host.runs(agent), "does not run")
    said = host.say(agent, "cat /run/hive/link/canary /run/hive/link", check=False)
    assert "whole" not in said
    host.stop(agent)
    for _ in range(20):
        try:
            host.do(RemoveSocketDirectory(agent.uuid))
        except HiveError:
            continue  # it was swapped while it was removed
        host.do(MakeSocketDirectory(agent.uuid))
    host.lab.run(["sh", "-c", "kill $(cat /tmp/swapper)"], check=False)
    assert (bait / "canary").read_text() == "whole"
    assert host.lab.path("/etc/passwd").exists()


def test_4_no_agent_starts_with_the_range_or_root_of_another(host: PrivdHost) -> None:
    victim, thief = host.running(), host.agent()
    host.do(MakeNode(thief.lineage))
    with pytest.raises(Conflict):
        host.do(Mount(thief.uuid, thief.lineage, victim.base, "host"))
    with pytest.raises(NotFound):
        host.do(Mount(thief.uuid, thief.lineage, thief.base, "other"))
    with pytest.raises((Conflict, NotFound)):
        host.do(AdoptRoot(victim.uuid, thief.uuid))
    host.do(thief.mount)
    with pytest.raises(Conflict):  # the name is taken, whoever asks for it
        host.do(replace(thief.start, name=victim.name))
    for action in (StopUnit, KillUnit):
        with pytest.raises(NotFound):
            host.do(action(thief.uuid, victim.name))
    assert host.runs(victim)


def test_11_two_jobs_never_share_a_range(host: PrivdHost) -> None:
    """A hived that was started anew does not know which ranges the jobs before it still have."""
    agent = host.running()
    host.stop(agent)
    host.do(Unmount(agent.uuid))
    (job, _), (_, base) = host.a_job(), host.a_job()
    purge = RunJob(job, JobKind.MEASURE, base, uuid=agent.uuid)
    host.do(purge)
    with pytest.raises(Conflict, match="in use"):
        host.do(replace(purge, job=host.a_job()[0]))
    unit = f"hive-job@{job}.service"
    host.until(lambda: host.show(unit, "ActiveState") == "inactive", "the job does not end")
    host.do(Unmount(job))


def test_11_a_job_touches_no_running_agent(host: PrivdHost) -> None:
    agent = host.running()
    _, base = host.a_job()
    for job in (
        RunJob(agent.uuid, JobKind.PURGE_ROOT, base, uuid=agent.uuid),
        RunJob(host.a_job()[0], JobKind.PURGE_ROOT, base, uuid=agent.uuid),
        RunJob(host.a_job()[0], JobKind.PURGE_ARCHIVE, base, uuid=agent.uuid),
        RunJob(agent.uuid, JobKind.COPY_TREE, base, image="none"),
    ):
        with pytest.raises((Conflict, NotFound)):
            host.do(job)
    with pytest.raises((Conflict, NotFound)):
        host.do(ArchiveNode((*agent.lineage[:-1], "00000000"), "00000000" + agent.uuid[8:]))
    assert host.do(DropRoot(agent.uuid)) == Done(changed=False)
    assert host.runs(agent)


def test_32_only_a_store_directory_owned_by_root_is_a_system(host: PrivdHost) -> None:
    """A link in the store, a directory of somebody else's, one that is not there: none starts."""
    name = "/nix/store/0123456789abcdfghijklmnpqrsvwxyz-system"
    made = f"mkdir -p /nix/store /srv/evil {name}-user; ln -s /srv/evil {name}-link"
    host.lab.run(["sh", "-ec", f"{made}; touch {name}-file; chown 1000 {name}-user"])
    agent = host.agent(image="nix", command=())
    host.prepare(agent)
    for leaf in ("link", "user", "file", "none"):
        with pytest.raises((Conflict, NotFound)):
            host.do(replace(agent.start, system=f"{name}-{leaf}"))
    assert host.show(agent.unit, "LoadState") == "not-found"


def test_36_the_helper_survives_what_hived_sends(host: PrivdHost) -> None:
    """Half frames, endless frames, many connections at once, none of it read."""
    host.hang_up()
    before = host.show("hive-privd.service", "MainPID")
    storm = """
import socket
wires = []
for _ in range(300):
    wire = socket.socket(socket.AF_UNIX)
    wire.setblocking(False)
    try:
        wire.connect("/run/hive/privd.sock")
        wire.send(b"{" * 100_000)
    except BlockingIOError:
        pass
    wires.append(wire)
big = socket.socket(socket.AF_UNIX)
big.settimeout(1)
try:
    big.connect("/run/hive/privd.sock")
    for _ in range(100):
        big.sendall(b"[" * 1_000_000)
except OSError:
    pass
"""
    as_hive(host, f"/usr/bin/python3 -Ic '{storm}'")
    host.reconnect()
    assert host.raw({"method": "org.hive.Privd.Apply", "parameters": {}})["error"]
    assert host.show("hive-privd.service", "MainPID") == before


WORDS: tuple[object, ...] = (
    "../../etc", "/etc", "--bind=/:/host", "-p", "$(touch /canary)", "a b", "a\nExecStart=/bin/sh",
    "\0", "%n", "*", -1, 1 << 70, 1.5, True, None, [], ["/etc"], {}, {"path": "/etc"},
)  # fmt: skip
# What may be any word at all, and is rendered as data: the words of an agent's own program. Words
# of a job are plain ones, and their meaning is the job's. A limit that is absent is no limit.
DATA = {("StartUnit", "command"), ("RunJob", "words")}


def every_action(agent: Agent, job: str, base: int) -> list[Action]:
    uuid, lineage, limits = agent.uuid, agent.lineage, UnitLimits()
    return [
        MakeNode(lineage), MoveNode(lineage, ("0000beef", lineage[-1])), ArchiveNode(lineage, uuid),
        RestoreNode(uuid, lineage), DropArchive(uuid), MakeSocketDirectory(uuid),
        RemoveSocketDirectory(uuid),
        AdoptRoot(job, uuid), DropRoot(uuid), agent.mount, Unmount(uuid),
        ShowStore(uuid, "meta", agent.base, shown=True), agent.start, StopUnit(uuid, agent.name),
        KillUnit(uuid, agent.name), SetSlice((), limits),
        ObserveUnit(uuid, agent.name, lineage, agent.base, 2), ObserveStorage(),
        RunJob(job, JobKind.MEASURE, base, uuid=uuid),
    ]  # fmt: skip


def fits(action: Action, field: str, word: object) -> bool:
    """Whether this is one of the values that the field is for."""
    value = getattr(action, field)
    optional = value is None or (type(action), field) in ((StartUnit, "parent"), (KillUnit, "name"))
    return (
        word == value or (optional and word is None)
        or (isinstance(value, bool) and isinstance(word, bool))
        or (field in ("slice", "path") and word == [])
        or (field == "limits" and word == {})
    )  # fmt: skip


def test_attack_59_no_word_of_hived_becomes_a_path_a_flag_or_a_program(host: PrivdHost) -> None:
    """Every field of every action, with everything that could mean more than it should."""
    agent = host.agent()
    job, base = host.a_job()
    actions = every_action(agent, job, base)
    assert {type(action).__name__ for action in actions} == KINDS.keys()
    before = host.lab.run(["sh", "-c", "find /etc /canary -xdev 2>/dev/null | sort | sha256sum"])
    tried = 0
    for action in actions:
        good = encode(action)
        bad = [{**good, key: "/etc"} for key in ("path", "argv", "program", "flags", "unit")]
        bad += [{**good, "kind": word} for word in WORDS]
        for field in good.keys() - {"kind"}:
            if (type(action).__name__, field) not in DATA:
                bad += [{**good, field: word} for word in WORDS if not fits(action, field, word)]
        for wrong in bad:
            reply = host.raw({"method": "org.hive.Privd.Apply", "parameters": {"action": wrong}})
            assert "error" in reply, wrong
            tried += 1
    assert tried > 1000
    after = host.lab.run(["sh", "-c", "find /etc /canary -xdev 2>/dev/null | sort | sha256sum"])
    assert after.stdout == before.stdout


def test_attack_59_a_command_runs_in_the_container_and_nowhere_else(host: PrivdHost) -> None:
    """hived chooses what an agent runs. It runs as the agent, whatever it looks like."""
    agent = host.agent()
    words = (
        "sh", "-c", 'printf "%s\\n" "$@" >/tree/state/words; touch /canary; exec sleep 1000',
        "--bind=/",
        "$(touch /canary)", "`touch /canary`", "${HOME}", "%n", "$$", "a\nExecStart=/bin/sh", "--",
    )  # fmt: skip
    host.prepare(agent)
    host.do(replace(agent.start, command=words))
    host.until(lambda: host.runs(agent), "does not run")
    said = host.lab.path(agent.node / "state/words")
    host.until(lambda: said.exists() and said.read_text().endswith("--\n"), "it says nothing")
    assert said.read_text() == "\n".join((*words[4:], ""))
    assert not host.lab.path("/canary").exists()
    host.stop(agent)
