"""Moves that take effect in running containers, the end of those that hold on, and archives."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from e2e.labhost import Lab
from e2e.privdhost import Agent, Host

from hive_core.errors import Conflict, Internal, NotFound
from hive_core.plan.actions import (
    AdoptRoot,
    ArchiveNode,
    DropArchive,
    DropRoot,
    EndHolders,
    JobKind,
    MakeNode,
    MoveNode,
    ObserveStorage,
    RestoreNode,
    RunJob,
    Unmount,
)
from hive_core.plan.results import Done, Ended, StorageFacts

pytestmark = pytest.mark.lab

HOLDERS = {
    "fd": "exec 5<kids/{id}/state/note; sleep 999",
    "directory": "exec 5<kids/{id}/kids; sleep 999",
    "cwd": "cd kids/{id}/state; exec sleep 999",
    "exe": "cp /usr/bin/sleep kids/{id}/state/; exec kids/{id}/state/sleep 999",
    "mapping": "exec python3 -c \"import mmap, time; f = open('kids/{id}/state/note', 'r+b'); "
    'm = mmap.mmap(f.fileno(), 0); f.close(); time.sleep(999)"',
    "deleted": "exec 5<>kids/{id}/state/gone; rm kids/{id}/state/gone; sleep 999",
    "thread": 'exec python3 -c "import os, threading, time; '
    "t = threading.Thread(target=lambda: (ctypes.CDLL(None).unshare(0x600), "
    "os.chdir('kids/{id}/state'), time.sleep(999))); import ctypes; t.start()\"",
    "deep": "mkdir -p kids/{id}/state/a/b; exec 5<kids/{id}/state/a/b; sleep 999",
}


@pytest.fixture(scope="module")
def host(lab: Lab) -> Iterator[Host]:
    with Host(lab) as made:
        yield made


def moved(agent: Agent, above: Agent) -> Agent:
    return replace(agent, lineage=(*above.lineage, agent.lineage[-1]))


def test_a_move_is_seen_live_in_both_containers(host: Host) -> None:
    one, two = host.running(), host.running()
    child = host.running(one)
    short = child.lineage[-1]
    host.say(child, "echo mine >note")
    assert host.say(one, f"cat /tree/kids/{short}/state/note") == "mine"
    there = moved(child, two)
    assert host.do(MoveNode(child.lineage, there.lineage)) == Done(changed=True)
    assert (
        host.say(two, f"cat /tree/kids/{short}/state/note; echo new >/tree/kids/{short}/state/note")
        == "mine"
    )
    assert host.say(
        one, f"ls /tree/kids; cat /tree/kids/{short}/state/note", check=False
    ).startswith("cat:")
    assert host.say(there, "cat note; id -u") == "new\n0"
    assert host.facts(there).tree
    assert host.mounted(there)
    assert not host.facts(child).tree
    assert host.do(MoveNode(child.lineage, there.lineage)) == Done(changed=False)


def test_a_move_that_makes_no_sense_is_refused(host: Host) -> None:
    one, two = host.agent(), host.agent()
    host.do(MakeNode(one.lineage))
    with pytest.raises(NotFound):
        host.do(MoveNode(two.lineage, moved(two, one).lineage))
    host.do(MakeNode(two.lineage))
    host.do(MakeNode(moved(two, one).lineage))
    with pytest.raises(Conflict):
        host.do(MoveNode(two.lineage, moved(two, one).lineage))
    with pytest.raises(NotFound):
        host.do(MakeNode(("deadbeef", "00000001")))


@pytest.fixture(scope="module")
def parents(host: Host) -> tuple[Agent, Agent]:
    """Who loses children, one after the other, and who gets them."""
    return host.running(), host.running()


@pytest.mark.parametrize("kind", HOLDERS)
def test_who_holds_on_to_a_moved_node_is_ended(
    host: Host, parents: tuple[Agent, Agent], kind: str
) -> None:
    loser, winner = parents
    child = host.agent(loser)
    host.do(MakeNode(child.lineage))
    short = child.lineage[-1]
    host.say(loser, f"echo secret >/tree/kids/{short}/state/note")
    script = HOLDERS[kind].format(id=short)
    host.say(loser, f"cd /tree; ({script}) >/dev/null 2>&1 & echo $! >/tree/state/pid; sleep 0.5")
    host.say(loser, "sleep 998 >/dev/null 2>&1 & echo $! >/tree/state/bystander")
    assert host.do(EndHolders(loser.uuid, loser.name)) == Ended((), 2)
    host.do(MoveNode(child.lineage, moved(child, winner).lineage))
    ended = host.do(EndHolders(loser.uuid, loser.name))
    assert isinstance(ended, Ended)
    assert ended.holders, kind
    assert ended.passes >= 3
    check = "kill -0 $(cat bystander) && ! kill -0 $(cat pid) && echo right"
    assert host.say(loser, check, check=False).endswith("right")
    assert host.do(EndHolders(loser.uuid, loser.name)) == Ended((), 2)
    assert host.do(EndHolders(winner.uuid, winner.name)) == Ended((), 2)


def test_who_forks_all_the_time_does_not_get_away(host: Host) -> None:
    """No process of the chain lives for long; each hands the descriptor to the next."""
    loser, winner = host.running(), host.agent()
    child = host.agent(loser)
    host.do(MakeNode(winner.lineage))
    host.do(MakeNode(child.lineage))
    path = f"/tree/kids/{child.lineage[-1]}/state"
    chain = f"""
import os, time
os.open('{path}', os.O_RDONLY)
open('/tree/state/began', 'w')
start = time.time()
while time.time() < start + 60:
    if os.fork():
        os._exit(0)
open('/tree/state/survived', 'w')
"""
    until_it_began = "until [ -e /tree/state/began ]; do sleep 0.02; done"
    host.say(loser, f'python3 -c "{chain}" >/dev/null 2>&1 & {until_it_began}')
    host.do(MoveNode(child.lineage, moved(child, winner).lineage))
    ended = host.do(EndHolders(loser.uuid, loser.name))
    assert isinstance(ended, Ended)
    assert [holder.command for holder in ended.holders] == ["python3"] * len(ended.holders)
    assert ended.holders
    assert host.say(loser, "pgrep python3 || echo none") == "none"


def test_a_booted_agent_keeps_what_it_bound_until_it_is_restarted(host: Host) -> None:
    """Why hived restarts a losing ancestor that can mount instead of scanning it."""
    loser, winner = host.running(boot=True, command=()), host.agent()
    child = host.agent(loser)
    host.do(MakeNode(winner.lineage))
    host.do(MakeNode(child.lineage))
    short = child.lineage[-1]
    host.enter(
        loser, "sh", "-c", f"mkdir /mnt; mount --bind /tree/kids/{short} /mnt; echo 1 >/mnt/state/x"
    )
    there = moved(child, winner)
    host.do(MoveNode(child.lineage, there.lineage))
    assert host.enter(loser, "cat", "/mnt/state/x") == "1"
    host.stop(loser)
    host.launch(loser)
    assert host.enter(loser, "sh", "-c", "ls /mnt /tree/kids; echo $?") == "/tree/kids:\n2"


def test_archive_restore_and_deletion(host: Host) -> None:
    agent = host.running()
    child = host.agent(agent)
    host.do(MakeNode(child.lineage))
    host.say(
        agent,
        "mkdir -p a/b; echo kept >a/b/note; chmod 0 a/b; chown -R 1000:1000 a; mkfifo p; ln -s / x",
    )
    host.stop(agent)
    host.do(Unmount(agent.uuid))
    with pytest.raises(Conflict):
        host.do(ArchiveNode(agent.lineage, agent.uuid))
    host.do(MoveNode(child.lineage, child.lineage[-1:]))
    assert host.do(ArchiveNode(agent.lineage, agent.uuid)) == Done(changed=True)
    assert host.do(ArchiveNode(agent.lineage, agent.uuid)) == Done(changed=False)
    facts = host.do(ObserveStorage())
    assert isinstance(facts, StorageFacts)
    assert agent.uuid in facts.archives
    assert agent.lineage not in facts.nodes
    host.do(RestoreNode(agent.uuid, agent.lineage))
    note = host.lab.run(["cat", str(agent.node / "state/a/b/note")]).stdout
    assert note == "kept\n"
    host.do(ArchiveNode(agent.lineage, agent.uuid))
    with pytest.raises(Conflict):
        host.do(DropArchive(agent.uuid))
    job, base = host.a_job()
    record = host.job(RunJob(job, JobKind.PURGE_ARCHIVE, base, uuid=agent.uuid))
    assert record["status"] == "0", host.log(f"HIVE_UUID={job}")
    assert host.do(DropArchive(agent.uuid)) == Done(changed=True)
    assert host.do(DropArchive(agent.uuid)) == Done(changed=False)
    assert host.lab.run(["ls", "-A", "/var/lib/hive/tree/.archive"]).stdout == ""


def test_a_prepared_tree_is_copied_and_mapped(host: Host) -> None:
    host.prepare_tree()
    agent = host.agent(image="plain")
    job, base = host.a_job()
    with pytest.raises(NotFound):
        host.do(RunJob(job, JobKind.COPY_TREE, base, image="unknown"))
    record = host.job(RunJob(job, JobKind.COPY_TREE, base, image="plain"))
    assert record["status"] == "0", host.log(f"HIVE_UUID={job}")
    assert host.do(AdoptRoot(job, agent.uuid)) == Done(changed=True)
    host.launch(agent)
    said = host.say(
        agent,
        "stat -c '%u' /root/hi /; cat /root/hi; echo more >/root/more; ls -d /usr/src || true",
    )
    assert said.splitlines()[:3] == ["1000", "0", "hello"]
    assert said.endswith("No such file or directory")  # no /usr of the host's
    disk = host.lab.run(["stat", "-c", "%u", f"/var/lib/hive/roots/{agent.uuid}/root/more"]).stdout
    assert disk == "2147352576\n"
    assert not host.lab.path("/srv/tree/root/more").exists()
    purge = RunJob(host.a_job()[0], JobKind.PURGE_ROOT, base, uuid=agent.uuid)
    with pytest.raises(Conflict):
        host.do(purge)
    host.stop(agent)
    host.do(Unmount(agent.uuid))
    assert host.job(purge)["status"] == "0"
    assert host.do(DropRoot(agent.uuid)) == Done(changed=True)


def test_an_image_that_cannot_be_mapped_is_named(host: Host) -> None:
    host.lab.run(["sh", "-c", "mkdir -p /etc/hive; echo 'layer /usr/lib' >>/etc/hive/images"])
    job, base = host.a_job()
    with pytest.raises(Internal) as refused:
        host.do(RunJob(job, JobKind.COPY_TREE, base, image="layer"))
    assert refused.value.reason == (
        "cannot map the ids of /usr/lib, whose file system may not allow it: Invalid argument"
    )
    host.do(Unmount(job))


def test_swapped_symlinks_lead_nowhere(host: Host) -> None:
    """The agent swaps all it owns for links to the host while the helper works on its node."""
    one, two = host.running(), host.agent()
    host.do(MakeNode(two.lineage))
    bait = host.lab.path("/var/lib/bait")
    bait.mkdir()
    (bait / "state").mkdir()
    (bait / "state/canary").write_text("whole")
    before = host.lab.run(["find", "/var/lib/bait", "-printf", "%p %u %m %T@\n"]).stdout
    swap = """
mkdir -p real; (while :; do ln -sfn /var/lib/bait link; mv -T link trap 2>/dev/null
rm -f trap; mkdir trap; rmdir trap; ln -sfn ../../../../bait /tree/config/kids
done) >/dev/null 2>&1 &
for name in state config kids; do mv /tree/$name /tree/old; ln -s /var/lib/bait /tree/$name; done
"""
    host.say(one, swap, check=False)
    there = moved(one, two)
    for _ in range(100):
        host.do(MoveNode(one.lineage, there.lineage))
        host.do(MakeNode(there.lineage))
        host.do(MoveNode(there.lineage, one.lineage))
        host.do(one.mount)
    assert host.lab.run(["find", "/var/lib/bait", "-printf", "%p %u %m %T@\n"]).stdout == before
    assert host.mounted(one)


def test_a_link_in_the_tree_is_refused(host: Host) -> None:
    """Nobody but root can put one there; the helper does not follow it all the same."""
    agent = host.agent()
    host.lab.run(["ln", "-s", "/etc", f"/var/lib/hive/tree/{agent.lineage[0]}"])
    for lineage in (agent.lineage, (*agent.lineage, "00000000")):
        with pytest.raises((Conflict, Internal)):
            host.do(MakeNode(lineage))
