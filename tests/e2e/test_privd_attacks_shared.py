"""Attacks on what agents share: limits, counters, control groups, and what was taken away."""

import time
from contextlib import suppress

import pytest
from e2e.attackers import KINDS, attack, both
from e2e.privdhost import Agent, PrivdHost, SharedPrivdHost
from long import at_most

from hive_core.errors import NotFound
from hive_core.plan.actions import AdoptRoot, JobKind, KillUnit, RunJob, UnitLimits

pytestmark = pytest.mark.lab

BOUND = 100  # inotify instances of one container


@pytest.fixture(scope="module")
def host(shared_privd: SharedPrivdHost) -> PrivdHost:
    return shared_privd.prepare()


@pytest.fixture(scope="module")
def agents(host: PrivdHost) -> dict[str, Agent]:
    return both(host)


@pytest.mark.parametrize("kind", KINDS)
def test_8_control_groups_cannot_be_left_or_loosened(
    host: PrivdHost, agents: dict[str, Agent], kind: str
) -> None:
    said = attack(
        host,
        agents[kind],
        """
os.system("mkdir -p /tmp/g; mount -t cgroup -o memory none /tmp/g 2>/dev/null;"
          "mkdir -p /tmp/h; mount -t cgroup -o pids none /tmp/h 2>/dev/null;"
          "mkdir -p /tmp/i; mount -t cgroup2 none /tmp/i 2>/dev/null")
limits = ("memory.limit_in_bytes", "memory.max", "pids.max", "release_agent", "cgroup.max.depth",
          "cgroup.freeze", "cpu.shares", "devices.allow")
for top in ("/sys/fs/cgroup", "/tmp/g", "/tmp/h", "/tmp/i"):
    places = [top, *(os.path.join(top, name) for name in os.listdir(top))]
    for place in places:
        # Below the root of the delegation everything may be made, so only roots are asked for.
        for name in limits:
            path = os.path.join(place, name)
            if os.path.exists(path) and os.stat(path).st_uid not in range(65534):
                try:
                    with open(path, "w") as file:
                        file.write("1")
                    print("WRITTEN", path)
                except OSError:
                    pass
            elif os.path.exists(path) and "unified" not in path and top != "/tmp/i":
                print("OWNED", path)
""",
    )
    assert [line for line in said.splitlines() if ".slice" not in line] == []


def test_8_an_agent_leaves_inotify_and_namespaces_to_others(host: PrivdHost) -> None:
    """They all count as root's: without a bound one agent kept systemd and the others from any."""
    agent = host.running()
    said = attack(
        host,
        agent,
        """
count = 0
while LIBC.inotify_init1(0) >= 0:
    count += 1
print(count)
held = 0
for _ in range(2000):
    if LIBC.unshare(0x04000000) < 0:  # CLONE_NEWUTS
        break
    os.open("/proc/self/ns/uts", os.O_RDONLY)
    held += 1
print(held)
sys.stdout.flush()
if os.fork() == 0:
    os.setsid()
    null = os.open("/dev/null", os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    time.sleep(60)
""",
    )
    instances, namespaces = map(int, said.split())
    assert instances <= BOUND
    assert namespaces <= 512
    again = "print(LIBC.inotify_init1(0) >= 0, LIBC.unshare(0x04000000))"
    assert attack(host, host.running(), again) == "True 0"
    host.do(KillUnit(agent.uuid, agent.name))
    host.exit_of(agent)


@pytest.mark.parametrize("kind", KINDS)
def test_8_control_groups_have_a_number(
    host: PrivdHost, agents: dict[str, Agent], kind: str
) -> None:
    """165,000, made in 8 s, slowed down the starts of others four times, and ended in 27 s."""
    said = attack(
        host,
        agents[kind],
        """
top = "/sys/fs/cgroup/unified"
os.chdir(top if os.path.isdir(top) else "/sys/fs/cgroup")
made = []
try:
    for number in range(3000):
        os.mkdir(f"x{number}")
        made.append(f"x{number}")
except OSError as error:
    print(error.strerror)
for name in made:
    os.rmdir(name)
print(len(made) <= 1000)
""",
    )
    assert said.splitlines()[-2:] == ["Resource temporarily unavailable", "True"]


def test_8_no_agent_takes_the_terminals_that_others_need_to_boot(host: PrivdHost) -> None:
    """An agent opens as many as it may have files; the machine's number is raised beyond that.

    Here files stand in the place of the machine's own numbers.
    """
    script = """
mkdir -p /run/numbers /run/fake; cd /run/numbers
echo 'exit 1' >/run/fake/systemd-detect-virt; chmod +x /run/fake/systemd-detect-virt
for name in fs/inotify/max_user_instances kernel/pty/max; do
    echo 1 >"${name##*/}"; mount --bind "${name##*/}" /proc/sys/$name
done
PATH=/run/fake:$PATH sh /usr/src/hive/hive_core/privd/hive-prepare
cat max max_user_instances
umount /proc/sys/kernel/pty/max /proc/sys/fs/inotify/max_user_instances
"""
    said = host.lab.run(["sh", "-ec", script]).stdout.split()
    most = 1024 * 4096 // 16  # processes and files of an agent, with memory for a sixteenth of them
    assert [int(number) >= most for number in said] == [True, True]


def test_8_a_booted_agent_cannot_lift_its_bounds(host: PrivdHost, agents: dict[str, Agent]) -> None:
    said = attack(
        host,
        agents["booted"],
        """
os.system("mount -o remount,rw /proc/sys")
for name in os.listdir("/proc/sys/user"):
    try:
        with open("/proc/sys/user/" + name, "w") as file:
            file.write("100000")
        print("LIFTED", name)
    except OSError:
        pass
print(open("/proc/sys/user/max_inotify_instances").read().strip())
""",
    )
    assert said == str(BOUND)


DEEP = """
top = "/sys/fs/cgroup/unified"
os.chdir(top if os.path.isdir(top) else "/sys/fs/cgroup")
for number in range(30):
    os.mkdir(f"{number:02}" + "x" * 240)
    os.chdir(f"{number:02}" + "x" * 240)
"""


def test_8_a_process_in_a_deep_control_group_is_killed(host: PrivdHost) -> None:
    """Its path is longer than a path may be, so systemd does not find what is in it."""
    agent = host.running()
    everybody = """
for pid in filter(str.isdigit, os.listdir("/proc")):
    with open("cgroup.procs", "w") as file:
        file.write(pid)
print(len(open("cgroup.procs").read().split()) > 1)
"""
    assert attack(host, agent, DEEP + everybody) == "True"
    leader = host.facts(agent).leader
    begin = time.monotonic()
    host.do(KillUnit(agent.uuid, agent.name))
    assert host.exit_of(agent)["result"] == "signal"
    assert time.monotonic() - begin < at_most(5)
    assert not host.lab.path(f"/proc/{leader}").exists()
    groups = ["find", "/sys/fs/cgroup", "-maxdepth", "5", "-name", "00xxx*"]
    assert host.lab.run(groups).stdout == ""
    host.launch(agent)  # nothing is in the way of the next start
    host.stop(agent)


def test_8_a_fork_bomb_stays_within_its_bounds(host: PrivdHost) -> None:
    bomb, other = host.running(limits=UnitLimits(tasks_max=64)), host.running()
    # Later: who obeys has to fork once more to say that it did.
    host.say(bomb, "(sleep 1; f() { f | f & f; }; f) >/dev/null 2>&1 &", check=False)
    group = host.show(bomb.unit, "ControlGroup")
    seen = [0]

    def over() -> bool:
        """A fork was refused, or its own shell could not fork any more, which ends it.

        How many there are changes faster than anybody can look.
        """
        now = host.show(bomb.unit, "TasksCurrent")
        seen.append(int(now) if now.isdecimal() else 0)
        refused = host.lab.run(
            ["sh", "-c", f"find /sys/fs/cgroup/*{group} -name pids.events | xargs grep -h max"],
            check=False,
        ).stdout
        hit = any(line.split()[-1] != "0" for line in refused.splitlines())
        return hit or host.show(bomb.unit, "ActiveState") != "active"

    host.until(over, "no bomb")
    assert host.say(other, "echo alive") == "alive"
    with suppress(NotFound):  # it has ended
        host.do(KillUnit(bomb.uuid, bomb.name))
    host.until(lambda: host.show(bomb.unit, "ActiveState") == "inactive", "it does not end", 30)
    assert max(seen) <= 64


def test_45_a_flood_of_log_lines_is_bounded(host: PrivdHost) -> None:
    agent = host.running()
    flood = "python3 -c \"print(('x' * 999 + '\\n') * 300000)\" >/proc/1/fd/1 2>&1"
    host.say(agent, f"({flood}) || true", check=False)
    assert len(host.log("-u", agent.unit)) < 100_000
    assert host.runs(agent)


LISTEN = """
import ctypes, os
fd = LIBC.inotify_init1(0)
assert LIBC.inotify_add_watch(fd, b"/usr/bin", 0x20) >= 0  # IN_OPEN
if os.fork() == 0:
    os.setsid()
    null = os.open("/dev/null", os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    heard = open("heard", "wb", buffering=0)
    while True:
        heard.write(os.read(fd, 65536))
"""


def test_65_shared_views_show_program_names_and_no_agent_files(host: PrivdHost) -> None:
    """It is left open for `/usr` of the machine, with its cost, and closed by a tree of one's own.

    The second holds the page of threats to what it says; who closes the first changes both.
    """
    spy, shares = host.running(), host.running()
    host.prepare_tree()
    job, base = host.a_job()
    apart = host.agent(image="plain")
    host.job(RunJob(job, JobKind.COPY_TREE, base, image="plain"))
    host.do(AdoptRoot(job, apart.uuid))
    host.launch(apart)
    attack(host, spy, LISTEN)
    heard = host.lab.path(spy.node / "state/heard")
    host.say(apart, "stat go")
    host.say(shares, "factor 6")
    host.until(lambda: b"factor\0" in heard.read_bytes(), "the side channel is closed")
    assert b"stat\0" not in heard.read_bytes()
    for agent in (spy, shares, apart):
        host.do(KillUnit(agent.uuid, agent.name))
        host.exit_of(agent)
