"""The lab itself: a host that enforces limits, takes reboots, and leaves nothing behind."""

import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from e2e.cgroups import Groups
from e2e.labhost import CHECKOUT, Lab, in_tree, trixie_tree

pytestmark = pytest.mark.lab("slow")

ROOT = """
mkdir -p {root}/{{etc,proc,sys,dev,run,tmp,usr,var}}
for name in bin sbin lib lib64; do ln -s usr/$name {root}/$name; done
cp -L /etc/os-release {root}/etc/os-release
echo root:x:0:0::/:/bin/sh >{root}/etc/passwd; echo root:x:0: >{root}/etc/group
"""
NSPAWN = (
    "systemd-nspawn --quiet --keep-unit --register=no --settings=no --as-pid2 --machine=guest "
    "--directory={root} --private-users=655360:65536 --private-users-ownership=map "
    "--private-network --link-journal=no --resolv-conf=off --timezone=off --bind-ro=/usr"
).split


def scripts_lab(
    *command: str,
    text: str = "",
    env: dict[str, str] | None = None,
    options: tuple[str, ...] = (),
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [CHECKOUT / "scripts/lab", *options, "--", *command],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=env,
    )


def lab_leftovers(name: str) -> set[str]:
    """What a lab of this name that did not tidy up would leave on the machine."""
    places = [group.parent for group in Groups(name).paths]
    groups = {str(path) for place in places for path in place.glob(f"hive-lab-{name}-*")}
    mounts = {line for line in Path("/proc/mounts").read_text().splitlines() if "hive-lab" in line}
    processes = set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"\0LAB_NAME={name}\0".encode() in b"\0" + path.read_bytes():
                processes.add(str(path.parent))
        except OSError:
            continue
    return groups | mounts | processes


@contextmanager
def no_new_leftovers() -> Iterator[dict[str, str]]:
    """The environment gives a lab a name of its own: others come and go at the same time."""
    name = f"lab-{secrets.token_hex(4)}"
    before = lab_leftovers(name)
    yield {**os.environ, "LAB_NAME": name}
    deadline = time.monotonic() + 10
    while lab_leftovers(name) - before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert lab_leftovers(name) - before == set()


def run_limited(lab: Lab, limits: list[str], *command: str) -> subprocess.CompletedProcess[str]:
    properties = [f"--property={limit}" for limit in limits]
    return lab.run(["systemd-run", "-q", "--wait", "--pipe", *properties, *command], check=False)


def test_exit_status_and_streams_pass_through_and_a_closed_lab_leaves_nothing() -> None:
    script = "cat; echo grumble >&2; sleep 1000 & exit 7"
    with no_new_leftovers() as env:
        done = scripts_lab("sh", "-c", script, text="hello", env=env)
    assert (done.returncode, done.stdout, done.stderr) == (7, "hello", "grumble\n")


def test_a_port_that_cannot_be_published_is_refused_before_a_lab_is_made() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for published in (f"{taken.getsockname()[1]}:80", "80", "x:80"):
            done = scripts_lab("true", options=("--publish", published))
            assert done.returncode == 1
            assert "cannot " in done.stderr
            assert published.partition(":")[0] in done.stderr


def test_a_death_by_signal_is_reported_as_in_a_shell() -> None:
    assert scripts_lab("sh", "-c", "kill -KILL $$").returncode == 128 + signal.SIGKILL


def test_the_host_boots_without_failed_units(lab: Lab) -> None:
    assert lab.run(["systemctl", "is-system-running"]).stdout == "running\n"
    assert lab.run(["cat", "/proc/1/comm"]).stdout == "systemd\n"


def test_memory_is_limited(lab: Lab) -> None:
    eat = ("/usr/bin/python3", "-c", "print(len(bytearray(200 << 20)))")
    assert run_limited(lab, ["MemoryMax=1G"], *eat).stdout == f"{200 << 20}\n"
    killed = run_limited(lab, ["MemoryMax=60M", "MemorySwapMax=0"], *eat)
    assert killed.returncode != 0
    assert killed.stdout == ""


def test_tasks_are_limited(lab: Lab) -> None:
    fork = ("sh", "-c", "for i in 1 2 3 4 5 6 7 8; do sleep 9 & done; echo all")
    assert run_limited(lab, ["TasksMax=50", "KillMode=mixed"], *fork).stdout == "all\n"
    refused = run_limited(lab, ["TasksMax=5"], *fork)
    assert "all" not in refused.stdout
    assert "Cannot fork" in refused.stderr


def test_nspawn_runs_in_a_user_namespace(lab: Lab) -> None:
    root = "/var/lib/hive/guest"
    lab.run(["bash", "-ec", ROOT.format(root=root)])
    command = [word.format(root=root) for word in NSPAWN()]
    show = ("/bin/sh", "-c", "id -u; cat /proc/self/uid_map; ls -ld --numeric-uid-gid /etc")
    done = run_limited(lab, ["Delegate=yes", "Slice=machine.slice"], *command, *show)
    assert done.returncode == 0, done.stderr
    uid, uid_map, etc = done.stdout.splitlines()
    assert (uid, uid_map.split()) == ("0", ["0", "655360", "65536"])
    assert etc.split()[2:4] == ["0", "0"]


def test_mounts_reach_namespaces_made_earlier(lab: Lab) -> None:
    assert lab.run(["findmnt", "-no", "PROPAGATION", "/"]).stdout == "shared\n"


def test_unprivileged_users_can_run_hive(lab: Lab) -> None:
    code = "import hive_core, pydantic, pygit2, systemd.journal; print(hive_core.__file__)"
    run = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "python", "-c", code]
    assert lab.run(run).stdout == "/usr/src/hive/hive_core/__init__.py\n"


def test_commands_are_on_the_path(lab: Lab) -> None:
    for name in ("hive", "hived", "hive-privd", "hive-agent"):
        assert lab.run(["which", name]).stdout == f"/usr/local/bin/{name}\n"


def test_a_reboot_keeps_only_what_is_on_disk() -> None:
    """Whether systemd shuts down before, or a power cut comes."""
    unit = "[Service]\nExecStart=sleep infinity\n[Install]\nWantedBy=multi-user.target\n"
    with Lab() as lab:
        lab.run(["tee", "/etc/systemd/system/stay.service"], input=unit)
        lab.run(["systemctl", "enable", "stay"])
        lab.run(["touch", "/var/lib/hive/kept"])
        identity = lab.run(["cat", "/etc/machine-id"]).stdout
        for power_cut in (False, True):
            lab.run(["touch", "/run/lost"])
            lab.run(["sh", "-c", f"echo before {power_cut} | systemd-cat -t me; journalctl --sync"])
            lab.reboot(power_cut=power_cut)
            assert lab.run(["ls", "/var/lib/hive"]).stdout == "kept\n"
            assert lab.run(["test", "-e", "/run/lost"], check=False).returncode == 1
            assert lab.run(["systemctl", "is-active", "stay"]).stdout == "active\n"
            assert lab.run(["cat", "/etc/machine-id"]).stdout == identity
        said = lab.run(["journalctl", "--identifier=me", "--output=cat"]).stdout
        assert said == "before False\nbefore True\n"


def test_nothing_is_written_to_the_machine(lab: Lab, tmp_path: Path) -> None:
    places = [tmp_path / "new", CHECKOUT / "new-from-lab", Path("/etc/new-from-lab")]
    lab.run(["touch", *map(str, places)])
    assert lab.run(["ls", "/usr/src/hive/new-from-lab"]).returncode == 0
    assert [place for place in places if place.exists()] == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_killed_lab_leaves_nothing(number: signal.Signals) -> None:
    # Programs started in the background may find SIGINT ignored, and a shell keeps it so.
    shell = ("env", "--default-signal=INT", "sh", "-c")
    script = "trap 'echo bye; exit 9' TERM INT; echo up; sleep 1000 & wait"
    with (
        no_new_leftovers() as env,
        subprocess.Popen(
            [CHECKOUT / "scripts/lab", *shell, script],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(number)
        rest, status = process.stdout.read(), process.wait(30)
    assert (rest, status) == (("", -9) if number == signal.SIGKILL else ("bye\n", 9))


def test_two_labs_are_separate(lab: Lab) -> None:
    with Lab("other") as other:
        assert other.run(["hostname"]).stdout == "other\n"
        other.run(["systemd-run", "-q", "--unit=mine", "sleep", "1000"])
        assert lab.run(["systemctl", "is-active", "mine"], check=False).stdout == "inactive\n"
        assert (
            lab.run(["cat", "/etc/machine-id"]).stdout
            != other.run(["cat", "/etc/machine-id"]).stdout
        )


def test_another_systemd_boots_and_its_varlinkctl_is_a_client(lab: Lab) -> None:
    with Lab("trixie", lower=trixie_tree()) as newer:
        assert newer.run(["systemctl", "is-system-running"]).stdout == "running\n"
        assert "systemd 257" in newer.run(["systemctl", "--version"]).stdout
    socket = "/run/systemd/journal/io.systemd.journal"
    method = ["varlinkctl", "call", socket, "io.systemd.Journal.Synchronize", "{}"]
    assert lab.run(in_tree(method, str(Path(socket).parent))).stdout == "{}\n"
