"""What systemd is asked, word by word."""

import itertools
import shlex
from dataclasses import replace

import pytest
from each import for_each
from hypothesis import given
from hypothesis import strategies as st

from hive_core.plan.actions import (
    AGENT_BASES,
    JOB_BASES,
    JobKind,
    RunJob,
    SetSlice,
    StartUnit,
    UnitLimits,
)  # fmt: skip
from hive_core.plan.render import (
    HostFacts,
    agent_argv,
    harness,
    job_argv,
    set_slice,
    systemd_run,
)

UUID = "0123abcd-0000-4000-8000-000000000001"
JOB = "00000001-0000-4000-9000-000000000001"
HOST = HostFacts("/opt/hive_core", ("/usr", "/etc/ssl/certs"))
SYSTEM = "/nix/store/0123456789abcdfghijklmnpqrsvwxyz-nixos-system-bob"
MOUNTS = f"/var/lib/hive/mounts/{UUID}"
NSPAWN = f"""
systemd-nspawn --quiet --keep-unit --register=no --settings=no
--machine={UUID} --uuid={UUID} --hostname=bob
--directory={MOUNTS}/root --private-users=589824:65536 --private-users-ownership=off
--timezone=off --link-journal=no --resolv-conf=off --no-new-privileges=yes
--drop-capability=CAP_MKNOD,CAP_AUDIT_CONTROL,CAP_AUDIT_WRITE,CAP_LINUX_IMMUTABLE,CAP_SYS_TTY_CONFIG,CAP_NET_RAW,CAP_LEASE,CAP_SYS_RESOURCE
--kill-signal=SIGRTMIN+3 --rlimit=RLIMIT_NOFILE=4096 --rlimit=RLIMIT_CORE=0
"""
SHARED = "--bind-ro=/usr --bind-ro=/etc/ssl/certs"
BINDS = f"""
--private-network --bind-ro=/opt/hive_core/privd/guest/bin:/opt/hive/bin
--bind-ro=/opt/hive_core:/opt/hive/hive_core
--bind-ro=/opt/hive_core/runtime/templates:/opt/hive/prompts
--bind={MOUNTS}/tree:/tree --bind-ro=/run/hive/agents/{UUID}/view:/agents
--bind-ro=/run/hive/agents/{UUID}/run:/run/hive --bind-ro=/run/hive/seed/SEED:/run/hive-seed
--bind-ro=/run/hive/agents/{UUID}/meta:/meta --bind-ro=/run/hive/agents/{UUID}/applied:/applied
"""
OF_HOST = f"{NSPAWN} {SHARED} {BINDS}".replace("SEED", "host")
PATH = "PATH=/opt/hive/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ENVIRONMENT = f"""
--setenv=HIVE_NAME=bob --setenv=HIVE_PARENT=alice --setenv=HIVE_SOCKET=/run/hive/broker.sock
--setenv={PATH} --setenv=HOME=/tree/state
--setenv=CREDENTIALS_DIRECTORY=/run/hive/credentials
"""
BOOT = f"""
--setenv=SYSTEMD_UNIT_PATH=/opt/hive/hive_core/privd/guest/units:/run/hive-units:
--notify-ready=yes --console=read-only '--system-call-filter=~io_uring_setup userfaultfd'
--bind-ro={MOUNTS}/harness:/run/hive-units/hive-harness.service
"""
WORDS = f"""
systemd.setenv=HIVE_NAME=bob systemd.setenv=HIVE_PARENT=alice
systemd.setenv=HIVE_SOCKET=/run/hive/broker.sock
systemd.setenv={PATH}:/run/current-system/sw/bin
systemd.setenv=PYTHONPATH=/opt/hive/hive_core/agent/python
systemd.mask=console-getty.service systemd.mask=ldconfig.service systemd.show_status=no
systemd.journald.forward_to_console=1 systemd.journald.max_level_console=info
systemd.wants=hive-seed.service systemd.wants=hive-attend.service
systemd.wants=hive-harness.service
"""
CLOSED = "--as-pid2 --console=pipe '--system-call-filter=~io_uring_setup userfaultfd @mount'"


def start(*command: str, boot: bool = False, image: str = "host") -> StartUnit:
    return StartUnit(
        UUID, "bob", 7, "abc", AGENT_BASES[1], ("0123abcd", "89abcdef"), UnitLimits(),
        image, boot, "alice", command, 120_000, SYSTEM if image == "nix" else None,
    )  # fmt: skip


def properties(argv: list[str]) -> list[str]:
    return [value for flag, value in itertools.pairwise(argv) if flag == "-p"]


def test_a_plain_agent() -> None:
    words = ("sh", "-c", "echo $$ %i")
    assert agent_argv(HOST, start(*words)) == [
        *shlex.split(f"{OF_HOST} {ENVIRONMENT} {CLOSED} --chdir=/tree/state --"),
        "/opt/hive/bin/hive-start", *words,
    ]  # fmt: skip


def test_what_a_session_imports_is_bound_where_the_host_has_it() -> None:
    argv = agent_argv(HOST._replace(runtime="/usr/local/lib/hive-runtime"), start("sh"))
    assert "--bind-ro=/usr/local/lib/hive-runtime:/opt/hive/runtime" in argv
    assert not any("/opt/hive/runtime" in word for word in agent_argv(HOST, start("sh")))


def test_only_an_agent_with_this_runtime_has_the_files_of_a_cli() -> None:
    host = HOST._replace(clis=("/usr/local/lib/hive-clis/claude", "/usr/local/lib/hive-clis/codex"))
    with_cli = replace(start("sh"), cli="claude")
    assert "--bind-ro=/usr/local/lib/hive-clis/claude:/opt/hive/clis" in agent_argv(host, with_cli)
    for argv in (
        agent_argv(host, start("sh")), agent_argv(HOST, with_cli),
        agent_argv(host, replace(start("sh"), cli="opencode")),
    ):  # fmt: skip
        assert not any("/opt/hive/clis" in word for word in argv)


@for_each("cli", ["claude", "codex", "opencode"])
def test_a_session_whose_cli_the_host_lacks_is_not_started(cli: str) -> None:
    session = replace(start("hive-agent", "session"), cli=cli)
    for clis in ((), ("/usr/local/lib/hive-clis/other",)):
        with pytest.raises(FileNotFoundError, match=f"not there: run `hive runtime install {cli}`"):
            agent_argv(HOST._replace(clis=clis), session)
    there = f"/usr/local/lib/hive-clis/{cli}"
    argv = agent_argv(HOST._replace(clis=(there,)), session)
    assert f"--bind-ro={there}:/opt/hive/clis" in argv


def test_a_program_or_a_tree_of_its_own_is_started_without_a_cli_of_the_host() -> None:
    session = replace(start("hive-agent", "session"), cli="codex")
    for other in (
        replace(session, cli=None), replace(session, image="own"),
        replace(session, command=("sh", "-c", "hive-agent session")),
    ):  # fmt: skip
        assert agent_argv(HOST, other)[0] == "systemd-nspawn"


def test_an_agent_without_a_command_holds() -> None:
    assert agent_argv(HOST, start())[-2:] == ["sleep", "infinity"]


def test_a_prepared_tree_has_its_own_usr() -> None:
    argv = agent_argv(HOST, start(image="debian"))
    assert [word for word in argv if word.startswith("--bind-ro=/usr")] == []
    assert f"--bind={MOUNTS}/tree:/tree" in argv


def test_a_booted_agent() -> None:
    argv = agent_argv(HOST, start("sh", boot=True))
    assert argv == shlex.split(f"{OF_HOST} {BOOT} --boot -- {WORDS}")
    without = agent_argv(HOST, start(boot=True))
    assert set(argv) - set(without) == {"systemd.wants=hive-harness.service"}


def test_an_agent_of_the_image_nix_boots_its_system_from_the_store() -> None:
    """It sees only the store of the host, and runs the init of its own system."""
    of_nix = f"{NSPAWN} --bind-ro=/nix/store {BINDS}".replace("SEED", "nix")
    words = WORDS.replace("alice", f"alice systemd.setenv=HIVE_SYSTEM={SYSTEM}", 1)
    expected = shlex.split(f"{of_nix} {BOOT} -- {SYSTEM}/init {words}")
    for boot in (True, False):
        assert agent_argv(HOST, start("sh", boot=boot, image="nix")) == expected


def test_the_unit_of_an_agent() -> None:
    limits = UnitLimits(memory_max=1 << 26, cpu_quota=150, tasks_max=99)
    argv = systemd_run(HOST, replace(start("sh"), limits=limits))
    assert argv[:5] == [
        "systemd-run", "--quiet", "--no-block", "--collect", "--unit=hive-agent@bob.service"
    ]  # fmt: skip
    run = ["--", "/usr/bin/env", "bash", "/opt/hive_core/privd/hive-run", UUID]
    assert argv[-7:] == [*run, str(AGENT_BASES[1]), "exec"]
    assert properties(argv) == [
        f"Description=hive agent {UUID} 7 abc",
        "Slice=hive-0123abcd-89abcdef.slice",
        "SyslogIdentifier=bob",
        "TimeoutStartSec=120000ms",
        "TimeoutStopSec=60",
        "Restart=no",
        "RestartForceExitStatus=133",
        "SuccessExitStatus=133",
        "TasksMax=1024",  # of an agent that sets none
        "CPUWeight=50",
        "IOWeight=50",
        "MemoryMax=67108864",
        "TasksMax=99",
        "CPUQuota=150%",
        f"ExecStopPost=/bin/sh /opt/hive_core/privd/hive-stopped {UUID} 7 hive-agent@bob.service",
        "Type=notify",
        "NotifyAccess=all",
        "Delegate=yes",
        "KillMode=mixed",
        "MemorySwapMax=0",
        "OOMPolicy=continue",
        "OOMScoreAdjust=500",
        f"LogExtraFields=HIVE_UUID={UUID}",
        "DevicePolicy=closed",
        "DeviceAllow=char-pts rw",
        "LogRateLimitIntervalSec=30s",
        "LogRateLimitBurst=10000",
        "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK",
        "SystemCallArchitectures=native",
        "Environment=PATH=/usr/sbin:/usr/bin",
    ]


def test_a_newer_systemd_gets_the_device_it_opens() -> None:
    argv = systemd_run(HostFacts("/opt/hive_core", (), tun=True), start())
    assert properties(argv)[-1] == "DeviceAllow=/dev/net/tun rwm"


def test_no_word_of_an_agent_stands_in_its_unit() -> None:
    """systemd expands variables and specifiers in the argv of a unit."""
    argv = systemd_run(HOST, start("evil;$HOME%n"))
    assert not [word for word in argv if "evil" in word or "$" in word or "%" in word]


def test_a_slice_gets_and_loses_its_limits() -> None:
    argv = set_slice(SetSlice(("0123abcd",), UnitLimits(memory_max=1 << 30, cpu_quota=50)))
    assert argv == [
        "systemctl", "set-property", "--runtime", "hive-0123abcd.slice", "MemoryMax=1073741824",
        "MemoryHigh=", "TasksMax=", "CPUWeight=", "CPUQuota=50%", "IOWeight=",
    ]  # fmt: skip
    assert set_slice(SetSlice((), UnitLimits()))[3] == "hive.slice"


AGENTS = {"config", "state", "archive", "root", "nodes"}
SH = ["/bin/sh", "/opt/hive/hive_core/privd/guest/job"]
PYTHON = ["/usr/bin/python3", "-I", "/opt/hive/hive_core/jobs/main.py"]
AT = f"/var/lib/hive/mounts/{JOB}"
# What each kind may read and write, and how much it may take; a second opinion to the table.
SEEN = {
    "purge_archive": ("", "out", "1G", 600),
    "purge_root": ("", "out", "1G", 600),
    "copy_tree": ("in", "out", "1G", 600),
    "measure": ("in", "", "1G", 600),
    "fetch": ("in agent", "out", "1G", 90),
    "fetch_clone": ("in agent", "out", "1G", 90),
    "review": ("in", "out", "1G", 90),
    "receive": ("in", "out", "1G", 90),
    "seed": ("in", "out agent", "1G", 90),
    "evaluate": ("in", "out", "4G", 150),
    "build": ("in", "out", "1G", 1900),
    "lock": ("in", "out", "2G", 600),
    "import_state": ("in in2", "out agent", "1G", 1800),
    "own_inodes": ("in", "out node", "1G", 3600),
}


@for_each("work", list(JobKind))
def test_a_job_is_bounded_and_sees_its_few_places_only(work: JobKind) -> None:
    job = RunJob(JOB, work, JOB_BASES[0], words=("a", "b=c"))
    argv = job_argv(HOST, job)
    reads, writes, memory, seconds = SEEN[work]
    exchanges = work not in ("purge_archive", "purge_root", "copy_tree", "measure")
    assert argv[argv.index("--") + 1 :] == [*(PYTHON if exchanges else SH), work, "a", "b=c"]
    assert f"--private-users={JOB_BASES[0]}:65536" in argv
    assert "--system-call-filter=~io_uring_setup userfaultfd @mount" in argv
    again = [f"--bind={AT}/out:/var/lib/hive/work/{JOB}/out"] if exchanges else []
    assert [word for word in argv if word.startswith("--bind=")] == (
        [f"--bind={AT}/{leaf}:/{leaf}" for leaf in writes.split()] + again
    )
    assert [word for word in argv if word.startswith(f"--bind-ro={AT}")] == (
        [f"--bind-ro={AT}/{leaf}:/{leaf}" for leaf in reads.split()]
    )
    unit = systemd_run(HOST, job)
    assert f"--unit=hive-job@{JOB}.service" in unit
    bounds = {f"MemoryMax={memory}", "TasksMax=64", f"RuntimeMaxSec={seconds}"}
    assert bounds | {"Slice=hive-jobs.slice"} <= set(properties(unit))


@for_each("work", list(JobKind))
def test_only_a_lock_has_a_network_and_only_nix_the_store(work: JobKind) -> None:
    argv = job_argv(HOST, RunJob(JOB, work, JOB_BASES[0]))
    assert ("--private-network" in argv) == (work is not JobKind.LOCK)
    nix = work in (JobKind.EVALUATE, JobKind.BUILD, JobKind.LOCK)
    shown = {"--bind-ro=/nix/store", "--bind-ro=/nix/var/nix/daemon-socket/socket"}
    assert shown & set(argv) == (shown if nix else set())
    if nix or work is JobKind.REVIEW:
        assert AGENTS.isdisjoint({*work.job.reads.values(), *work.job.writes.values()})


def test_where_there_is_no_usr_a_tree_of_the_store_stands_for_it() -> None:
    host = HostFacts("/nix/store/x/hive_core", ("/nix/store/y-usr:/usr", "/nix/store"), path="/p")
    for argv in (
        agent_argv(host, start()),
        job_argv(host, RunJob(JOB, JobKind.BUILD, JOB_BASES[0])),
    ):
        binds = [word for word in argv if word.startswith("--bind-ro=/nix/store")]
        assert binds[:2] == ["--bind-ro=/nix/store/y-usr:/usr", "--bind-ro=/nix/store"]
        assert binds.count("--bind-ro=/nix/store") == 1
    assert properties(systemd_run(host, start()))[-1] == "Environment=PATH=/p"


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"))))
def test_a_harness_is_one_unit_file_whatever_the_words(words: list[str]) -> None:
    lines = harness(("sh", *words)).split("\n")
    assert len(lines) == 10
    assert lines[8].startswith('ExecStart=:/usr/bin/env "sh"')
    assert "%" not in lines[8].replace("%%", "")
