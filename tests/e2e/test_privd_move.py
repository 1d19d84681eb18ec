"""Moves that take effect in running containers, inodes of their own for files, and archives."""

from dataclasses import replace

import pytest
from e2e.privdhost import Agent, PrivdHost, SharedPrivdHost

from hive_core.errors import Conflict, Internal, NotFound
from hive_core.plan.actions import (
    STORAGE_BASE,
    AdoptRoot,
    ArchiveNode,
    DropArchive,
    DropRoot,
    JobKind,
    MakeNode,
    MoveNode,
    ObserveStorage,
    RestoreNode,
    RunJob,
    Unmount,
)
from hive_core.plan.results import Done, StorageFacts

pytestmark = pytest.mark.lab
WORK = "/var/lib/hive/work"


@pytest.fixture(scope="module")
def host(shared_privd: SharedPrivdHost) -> PrivdHost:
    return shared_privd.prepare()


def move(agent: Agent, above: Agent) -> Agent:
    return replace(agent, lineage=(*above.lineage, agent.lineage[-1]))


def test_a_move_is_seen_live_in_both_containers(host: PrivdHost) -> None:
    one, two = host.running(), host.running()
    child = host.running(one)
    short = child.lineage[-1]
    host.say(child, "echo mine >note")
    assert host.say(one, f"cat /tree/kids/{short}/state/note") == "mine"
    there = move(child, two)
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
    assert host.has_mounts(there)
    assert not host.facts(child).tree
    assert host.do(MoveNode(child.lineage, there.lineage)) == Done(changed=False)


def test_an_invalid_move_is_refused(host: PrivdHost) -> None:
    one, two = host.agent(), host.agent()
    host.do(MakeNode(one.lineage))
    with pytest.raises(NotFound):
        host.do(MoveNode(two.lineage, move(two, one).lineage))
    host.do(MakeNode(two.lineage))
    host.do(MakeNode(move(two, one).lineage))
    with pytest.raises(Conflict):
        host.do(MoveNode(two.lineage, move(two, one).lineage))
    with pytest.raises(NotFound):
        host.do(MakeNode(("deadbeef", "00000001")))


def test_a_booted_agent_keeps_its_own_bind_mounts_until_it_is_restarted(host: PrivdHost) -> None:
    """Why hived restarts who loses access: no rename takes away what was bound before."""
    loser, winner = host.running(boot=True, command=()), host.agent()
    child = host.agent(loser)
    host.do(MakeNode(winner.lineage))
    host.do(MakeNode(child.lineage))
    short = child.lineage[-1]
    host.enter(
        loser, "sh", "-c", f"mkdir /mnt; mount --bind /tree/kids/{short} /mnt; echo 1 >/mnt/state/x"
    )
    there = move(child, winner)
    host.do(MoveNode(child.lineage, there.lineage))
    assert host.enter(loser, "cat", "/mnt/state/x") == "1"
    host.stop(loser)
    host.launch(loser)
    assert host.enter(loser, "sh", "-c", "ls /mnt /tree/kids; echo $?") == "/tree/kids:\n2"


def test_attack_58_a_job_gives_linked_files_inodes_of_their_own(host: PrivdHost) -> None:
    """In a node and below it, whoever owns them; the job sees nothing of where else they are."""
    one, two = host.agent(), host.agent()
    for agent in (one, two):
        host.do(MakeNode(agent.lineage))
    below = host.agent(one)
    host.do(MakeNode(below.lineage))
    make = f"""
    cd /var/lib/hive/tree; one={one.node}/state; below={below.node}/state; two={two.node}/state
    echo text >$two/a; chown {STORAGE_BASE + 1000}:{STORAGE_BASE + 5} $two/a; chmod 4600 $two/a
    mkdir $one/deep; chmod 0 $one/deep; ln $two/a $one/deep/a; ln $two/a $below/a
    echo own >$one/own; ln $one/own $below/own
    chown {STORAGE_BASE}:{STORAGE_BASE} $one/own $one/deep
    """
    host.lab.run(["sh", "-ec", make])
    job, base = host.a_job()
    folder = f"{WORK}/{job}"
    host.lab.run(["sh", "-ec", f"mkdir -p {folder}/in {folder}/out; chown -R hive: {WORK}"])
    record = host.job(RunJob(job, JobKind.OWN_INODES, base, uuid=one.uuid, lineage=one.lineage))
    said = host.lab.run(["cat", f"{folder}/out/said.json"]).stdout
    assert record["status"] == "0", said
    assert '"links": 2' in said
    names = [f"{two.node}/state/a", f"{one.node}/state/deep/a", f"{below.node}/state/a"]
    stat = host.lab.run(["stat", "-c", "%h %a %u %g %i", *names]).stdout.splitlines()
    facts = f"4600 {STORAGE_BASE + 1000} {STORAGE_BASE + 5}"
    assert [line.rpartition(" ")[0] for line in stat] == [f"1 {facts}", f"2 {facts}", f"2 {facts}"]
    assert stat[1] == stat[2] != stat[0]
    own = host.lab.run(["stat", "-c", "%h %i", f"{one.node}/state/own", f"{below.node}/state/own"])
    first, second = own.stdout.splitlines()
    assert first == second
    assert first.startswith("2 ")


def test_archive_restore_and_deletion(host: PrivdHost) -> None:
    listed = ["ls", "-A", "/var/lib/hive/tree/.archive"]
    archives = host.lab.run(listed).stdout
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
    assert host.lab.run(listed).stdout == archives


def test_a_prepared_tree_is_copied_and_mapped(host: PrivdHost) -> None:
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


def test_an_image_that_cannot_be_mapped_is_named(host: PrivdHost) -> None:
    host.lab.run(["sh", "-c", "mkdir -p /etc/hive; echo 'layer /usr/lib' >>/etc/hive/images"])
    job, base = host.a_job()
    with pytest.raises(Internal) as refused:
        host.do(RunJob(job, JobKind.COPY_TREE, base, image="layer"))
    assert refused.value.reason == (
        "cannot map the ids of /usr/lib, whose file system may not allow it: Invalid argument"
    )
    host.do(Unmount(job))


def test_swapped_symlinks_lead_nowhere(host: PrivdHost) -> None:
    """The agent swaps all it owns for links to the host while the helper works on its node."""
    one, two = host.running(), host.agent()
    host.do(MakeNode(two.lineage))
    bait = host.lab.path("/var/lib/lure")
    bait.mkdir()
    (bait / "state").mkdir()
    (bait / "state/canary").write_text("whole")
    before = host.lab.run(["find", "/var/lib/lure", "-printf", "%p %u %m %T@\n"]).stdout
    swap = """
mkdir -p real; (while :; do ln -sfn /var/lib/lure link; mv -T link trap 2>/dev/null
rm -f trap; mkdir trap; rmdir trap; ln -sfn ../../../../lure /tree/config/kids
done) >/dev/null 2>&1 &
for name in state config kids; do mv /tree/$name /tree/old; ln -s /var/lib/lure /tree/$name; done
"""
    host.say(one, swap, check=False)
    there = move(one, two)
    for _ in range(100):
        host.do(MoveNode(one.lineage, there.lineage))
        host.do(MakeNode(there.lineage))
        host.do(MoveNode(there.lineage, one.lineage))
        host.do(one.mount)
    assert host.lab.run(["find", "/var/lib/lure", "-printf", "%p %u %m %T@\n"]).stdout == before
    assert host.has_mounts(one)


def test_a_link_in_the_tree_is_refused(host: PrivdHost) -> None:
    """Only root can put one there, and the helper still does not follow it."""
    agent = host.agent()
    host.lab.run(["ln", "-s", "/etc", f"/var/lib/hive/tree/{agent.lineage[0]}"])
    for lineage in (agent.lineage, (*agent.lineage, "00000000")):
        with pytest.raises((Conflict, Internal)):
            host.do(MakeNode(lineage))
