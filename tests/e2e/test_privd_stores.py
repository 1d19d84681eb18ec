"""Repositories of the daemon's that agents may see: attached live and read-only; and seeds."""

import os
from collections.abc import Iterator

import pytest
from e2e.attackers import as_hive, attack
from e2e.privdhost import Agent, PrivdHost, SharedPrivdHost

from hive_core.errors import HiveError
from hive_core.plan.actions import (
    STORAGE_BASE,
    AdoptRoot,
    JobKind,
    KillUnit,
    RemoveSocketDirectory,
    RunJob,
    ShowStore,
)  # fmt: skip
from hive_core.plan.results import Done

pytestmark = pytest.mark.lab
# All that a root with mounts at hand may try against a store.
ASSAULT = """
import errno
LIBC = ctypes.CDLL(None, use_errno=True)
def said(what, done): print(what, "DONE" if done == 0 else "refused", ctypes.get_errno())
def mount(what, source, target, kind, flags, data=None):
    said(what, LIBC.mount(source, target, kind, flags, data))
RDONLY, REMOUNT, BIND, NOSUID = 1, 32, 4096, 2
mount("remount", b"none", b"/meta", None, REMOUNT)
mount("remount-bind", b"none", b"/meta", None, REMOUNT | BIND)
mount("remount-suid", b"none", b"/meta", None, REMOUNT | BIND | RDONLY)
attr = (ctypes.c_uint64 * 4)(0, RDONLY, 0, 0)
said("setattr", LIBC.syscall(442, -100, b"/meta", 0, attr, 32))
os.makedirs("/tree/state/copy", exist_ok=True)
mount("bind", b"/meta", b"/tree/state/copy", None, BIND)
mount("bind-remount", b"none", b"/tree/state/copy", None, REMOUNT | BIND)
for place in ("/meta", "/tree/state/copy") if os.listdir("/tree/state/copy") else ("/meta",):
    for name, act in (
        ("write", lambda: open(place + "/topology.json", "a")),
        ("make", lambda: open(place + "/new", "w")),
        ("unlink", lambda: os.unlink(place + "/topology.json")),
        ("chmod", lambda: os.chmod(place + "/topology.json", 0o666)),
        ("rename", lambda: os.rename(place, place + ".old")),
    ):
        try:
            act()
            print(place, name, "DONE")
        except OSError as error:
            print(place, name, "refused", errno.errorcode[error.errno])
"""


@pytest.fixture(scope="module")
def host(shared_privd: SharedPrivdHost) -> Iterator[PrivdHost]:
    made = shared_privd.prepare()
    as_hive(
        made,
        "umask 027; mkdir -p /var/lib/hive/meta/.git /var/lib/hive/applied/x.git"
        "; echo '{}' >/var/lib/hive/meta/topology.json"
        "; echo refs >/var/lib/hive/applied/x.git/HEAD"
        "; mkdir /var/lib/hive/secrets; echo key >/var/lib/hive/secrets/key",
    )
    yield made
    as_hive(made, "rm -r /run/hive/seed/host/.git /run/hive/seed/host/*")


@pytest.fixture(scope="module")
def agents(host: PrivdHost) -> dict[str, Agent]:
    return {"plain": host.running(), "booted": host.running(boot=True, command=())}


def show(agent: Agent, store: str = "meta", *, yes: bool = True) -> ShowStore:
    return ShowStore(agent.uuid, store, agent.base, yes)


def inside(host: PrivdHost, agent: Agent, *command: str) -> str:
    return host.enter(agent, *command)


@pytest.mark.parametrize("kind", ["plain", "booted"])
def test_h18_a_store_is_attached_to_and_detached_from_a_running_container(
    host: PrivdHost, agents: dict[str, Agent], kind: str
) -> None:
    """H18: by capability, live, read-only and without set-uid bits or devices."""
    agent = agents[kind]
    assert inside(host, agent, "ls", "-A", "/meta", "/applied") == "/applied:\n\n/meta:"
    assert host.do(show(agent)) == Done(changed=True)
    assert host.do(show(agent)) == Done(changed=False)
    assert inside(host, agent, "cat", "/meta/topology.json") == "{}"
    assert inside(host, agent, "stat", "-c", "%u:%g", "/meta/topology.json") == "0:0"
    assert inside(host, agent, "ls", "-A", "/applied") == ""
    host.do(show(agent, "applied"))
    assert inside(host, agent, "cat", "/applied/x.git/HEAD") == "refs"
    options = inside(host, agent, "findmnt", "-rno", "OPTIONS", "-N1", "/meta").splitlines()[-1]
    assert {"ro", "nosuid", "nodev"} <= set(options.split(","))
    assert host.do(show(agent, yes=False)) == Done(changed=True)
    assert host.do(show(agent, yes=False)) == Done(changed=False)
    assert inside(host, agent, "ls", "-A", "/meta") == ""
    assert inside(host, agent, "cat", "/applied/x.git/HEAD") == "refs"
    host.do(show(agent, "applied", yes=False))


@pytest.mark.parametrize("kind", ["plain", "booted"])
def test_attack_a_root_inside_makes_no_store_writable(
    host: PrivdHost, agents: dict[str, Agent], kind: str
) -> None:
    """Read-only that is set before attaching is locked: a process that may mount cannot lift it."""
    agent = agents[kind]
    host.do(show(agent))
    said = attack(host, agent, ASSAULT)
    allowed = {"bind DONE"} if kind == "booted" else set()  # a copy of what it sees, no more
    done = {line.rpartition("DONE")[0] + "DONE" for line in said.splitlines() if "DONE" in line}
    assert done == allowed, said
    assert said.count("refused") == (15 if kind == "booted" else 11), said
    assert host.lab.path("/var/lib/hive/meta/topology.json").read_text() == "{}\n"
    host.do(show(agent, yes=False))


def test_only_the_repository_is_attached(host: PrivdHost, agents: dict[str, Agent]) -> None:
    """Of other owners nothing opens, and no link in it leads to the host."""
    agent = agents["plain"]
    meta = host.lab.path("/var/lib/hive/meta")
    (meta / "of-root").write_text("root's")
    (meta / "of-root").chmod(0o600)
    (meta / "of-agent").write_text("another's")
    os.chown(meta / "of-agent", STORAGE_BASE, STORAGE_BASE)
    (meta / "of-agent").chmod(0o600)
    as_hive(host, "ln -s /var/lib/hive/secrets/key /var/lib/hive/meta/link")
    host.do(show(agent))
    said = host.say(agent, "cd /meta; cat of-root; cat of-agent; cat link; ls ..", check=False)
    assert "root's" not in said
    assert "another's" not in said
    assert "key\n" not in said
    host.do(show(agent, yes=False))


def test_11_a_swapped_repository_is_not_followed(host: PrivdHost, agents: dict[str, Agent]) -> None:
    agent, meta = agents["plain"], "/var/lib/hive/meta"
    as_hive(host, f"mv {meta} {meta}.old; ln -s /etc {meta}")
    try:
        with pytest.raises(HiveError):
            host.do(show(agent))
    finally:
        as_hive(host, f"rm {meta}; mv {meta}.old {meta}")
    assert inside(host, agent, "ls", "-A", "/meta") == ""


def test_11_hived_cannot_change_the_mount_points_of_a_socket_directory(
    host: PrivdHost, agents: dict[str, Agent]
) -> None:
    agent = agents["plain"]
    directory = f"/run/hive/agents/{agent.uuid}"
    said = as_hive(
        host,
        f"rmdir {directory}/meta && echo REMOVED; mv {directory}/meta {directory}/x && echo MOVED"
        f"; touch {directory}/meta/x && echo MADE; ln -s /etc {directory}/y && echo LINKED"
        "; mv /run/hive/seed /run/hive/other && echo MOVED"
        "; mv /run/hive/seed/host /run/hive/seed/x && echo MOVED"
        "; ln -s /etc /run/hive/seed/x && echo LINKED",
    )
    assert not {"REMOVED", "MOVED", "MADE", "LINKED"} & set(said.split())


def test_a_repository_that_was_replaced_is_attached_anew(
    host: PrivdHost, agents: dict[str, Agent]
) -> None:
    agent, meta = agents["plain"], "/var/lib/hive/meta"
    host.do(show(agent))
    as_hive(host, f"mv {meta} {meta}.old; mkdir {meta}; echo new >{meta}/topology.json")
    assert inside(host, agent, "cat", "/meta/topology.json") == "{}"
    assert host.do(show(agent)) == Done(changed=True)
    assert inside(host, agent, "cat", "/meta/topology.json") == "new"
    as_hive(host, f"rm -r {meta}; mv {meta}.old {meta}")
    host.do(show(agent, yes=False))


def test_a_start_has_no_stores_and_an_end_leaves_none(host: PrivdHost) -> None:
    """Attached before a start they would be locked in, and no revocation could take them away."""
    agent = host.agent(command=("sh", "-c", "ls -A /meta >/tree/state/first; exec sleep 999"))
    host.prepare(agent)
    host.do(show(agent))
    host.do(agent.start)
    host.until(lambda: host.runs(agent), "does not run")
    assert host.lab.path(agent.node / "state/first").read_text() == ""
    host.do(show(agent))
    assert inside(host, agent, "cat", "/meta/topology.json") == "{}"
    host.do(KillUnit(agent.uuid, agent.name))
    host.exit_of(agent)
    left = host.lab.run(["findmnt", "-rno", "TARGET"]).stdout.split()
    assert f"/run/hive/agents/{agent.uuid}/meta" not in left


def test_access_of_a_rebooting_container_can_be_revoked(
    host: PrivdHost, agents: dict[str, Agent]
) -> None:
    """systemd starts it again by itself, without the root helper."""
    agent = agents["booted"]
    host.do(show(agent))
    before = host.show(agent.unit, "InvocationID")
    host.enter(agent, "systemctl", "reboot")
    host.until(
        lambda: host.show(agent.unit, "InvocationID") not in ("", before) and host.runs(agent),
        "does not come back", 30,
    )  # fmt: skip
    assert inside(host, agent, "ls", "-A", "/meta") == ""
    host.do(show(agent))
    assert inside(host, agent, "cat", "/meta/topology.json") == "{}"
    host.do(show(agent, yes=False))
    assert inside(host, agent, "ls", "-A", "/meta") == ""


def test_removing_a_socket_directory_detaches_stores_and_keeps_the_repository(
    host: PrivdHost,
) -> None:
    agent = host.running()
    host.do(show(agent))
    host.do(show(agent, "applied"))
    host.stop(agent)
    host.do(show(agent))
    assert host.do(RemoveSocketDirectory(agent.uuid)) == Done(changed=True)
    assert not host.lab.path(f"/run/hive/agents/{agent.uuid}").exists()
    assert host.lab.path("/var/lib/hive/meta/topology.json").exists()


def test_an_older_root_gets_mount_points_for_stores(host: PrivdHost) -> None:
    host.prepare_tree()
    job, base = host.a_job()
    host.job(RunJob(job, JobKind.COPY_TREE, base, image="plain"))
    root = host.lab.path(f"/var/lib/hive/roots/{job}")
    assert not {"meta", "applied"} & {path.name for path in root.iterdir()}
    agent = host.agent(image="plain", command=("/bin/sleep", "999"))
    host.do(AdoptRoot(job, agent.uuid))
    host.launch(agent)
    host.do(show(agent))
    assert host.enter(agent, "/bin/cat", "/meta/topology.json") == "{}"
    assert host.lab.path(f"/var/lib/hive/roots/{agent.uuid}/meta").stat().st_uid == STORAGE_BASE


def test_a_store_of_an_unknown_agent_is_refused(host: PrivdHost) -> None:
    agent = host.agent()
    with pytest.raises(HiveError):
        host.do(show(agent))
    assert not host.lab.path(f"/run/hive/agents/{agent.uuid}").exists()


SEED = """
umask 022; cd /run/hive/seed/host; mkdir -p .git/refs prompts; echo 'ref: x' >.git/HEAD
printf '[core]\\n' >.git/config; echo key=1 >agent.toml; echo hello >prompts/one; echo no >mine
"""


@pytest.mark.parametrize("boot", [False, True])
def test_h9_an_agent_without_a_configuration_finds_the_template(
    host: PrivdHost, *, boot: bool
) -> None:
    """H9: what lies there already stays, and the second start copies nothing."""
    as_hive(host, SEED)
    agent = host.agent(boot=boot, command=() if boot else ("sleep", "999"))
    host.prepare(agent)
    config = host.lab.path(agent.node / "config")
    (config / "mine").write_text("own")
    os.chown(config / "mine", STORAGE_BASE, STORAGE_BASE)
    host.do(agent.start)
    host.until((config / ".git").exists, "is not seeded")
    assert (config / "prompts/one").read_text() == "hello\n"
    assert (config / "mine").read_text() == "own"
    assert (config / ".git/config").read_text() == (
        f"[core]\n[user]\n\tname = {agent.name}\n\temail = {agent.name}@hive.invalid\n"
    )
    owners = {path.lstat().st_uid for path in (config, *config.rglob("*"))}
    assert owners == {STORAGE_BASE}
    assert not (config / ".git.new").exists()
    host.until(lambda: host.runs(agent), "does not run")
    (config / "agent.toml").write_text("changed")
    host.stop(agent)
    host.launch(agent)
    assert (config / "agent.toml").read_text() == "changed"
    assert not list(config.glob(".git.*"))


def test_an_interrupted_seed_is_copied_again(host: PrivdHost) -> None:
    as_hive(host, SEED)
    agent = host.agent(command=("sleep", "999"))
    host.prepare(agent)
    config = host.lab.path(agent.node / "config")
    (config / ".git.new/refs").mkdir(parents=True)
    (config / ".git.new/half").write_text("half")
    host.lab.run(
        ["chown", "-R", f"{STORAGE_BASE}:{STORAGE_BASE}", str(agent.node / "config/.git.new")]
    )
    host.do(agent.start)
    host.until(lambda: host.runs(agent), "does not run")
    assert (config / ".git/HEAD").read_text() == "ref: x\n"
    assert not (config / ".git/half").exists()


def test_an_agent_starts_although_its_seed_fails(host: PrivdHost) -> None:
    as_hive(host, f"{SEED} chmod 000 .git/HEAD")
    agent = host.running(command=("sleep", "999"))
    config = host.lab.path(agent.node / "config")
    assert not (config / ".git").exists()
    as_hive(host, "chmod 644 /run/hive/seed/host/.git/HEAD")
