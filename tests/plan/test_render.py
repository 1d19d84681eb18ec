"""What systemd is asked, word by word."""

import itertools
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_core.plan.actions import (
    AGENT_BASES,
    JOB_BASES,
    JobKind,
    Limits,
    RunJob,
    SetSlice,
    StartUnit,
)  # fmt: skip
from hive_core.plan.render import Host, agent_argv, harness, job_argv, set_slice, systemd_run

UUID = "0123abcd-0000-4000-8000-000000000001"
JOB = "00000001-0000-4000-9000-000000000001"
HOST = Host("/opt/hive_core", ("usr", "etc/ssl/certs"))
MOUNTS = f"/var/lib/hive/mounts/{UUID}"
NSPAWN = f"""
systemd-nspawn --quiet --keep-unit --register=no --settings=no
--machine={UUID} --uuid={UUID} --hostname=bob --private-network
--directory={MOUNTS}/root --private-users-ownership=off --private-users=589824:65536
--timezone=off --link-journal=no --resolv-conf=off --no-new-privileges=yes
--drop-capability=CAP_MKNOD,CAP_AUDIT_CONTROL,CAP_AUDIT_WRITE,CAP_LINUX_IMMUTABLE,CAP_SYS_TTY_CONFIG,CAP_NET_RAW,CAP_LEASE,CAP_SYS_RESOURCE
--kill-signal=SIGRTMIN+3 --rlimit=RLIMIT_NOFILE=4096 --rlimit=RLIMIT_CORE=0
"""
BINDS = f"""
--bind-ro=/usr --bind-ro=/etc/ssl/certs
--bind-ro=/opt/hive_core/privd/guest/bin:/opt/hive/bin --bind-ro=/opt/hive_core:/opt/hive/hive_core
--bind={MOUNTS}/tree:/tree --bind-ro=/run/hive/agents/{UUID}/view:/agents
--bind-ro=/run/hive/agents/{UUID}/run:/run/hive
"""
PATH = "PATH=/opt/hive/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ENVIRONMENT = f"""
--setenv=HIVE_NAME=bob --setenv=HIVE_SOCKET=/run/hive/broker.sock --setenv={PATH}
--setenv=HIVE_PARENT=alice --setenv=HOME=/tree/state
"""
CLOSED = "--as-pid2 --console=pipe '--system-call-filter=~io_uring_setup userfaultfd @mount'"


def start(
    *command: str, boot: bool = False, image: str = "host", limits: Limits | None = None
) -> StartUnit:
    return StartUnit(
        UUID, "bob", 7, "abc", AGENT_BASES[1], ("0123abcd", "89abcdef"), limits or Limits(),
        image, boot, "alice", command,
    )  # fmt: skip


def properties(argv: list[str]) -> list[str]:
    return [value for flag, value in itertools.pairwise(argv) if flag == "-p"]


def test_a_plain_agent() -> None:
    words = ("sh", "-c", "echo $$ %i")
    assert agent_argv(HOST, start(*words)) == [
        *shlex.split(f"{NSPAWN} {BINDS} {ENVIRONMENT} {CLOSED} --chdir=/tree/state --"),
        "/opt/hive/bin/hive-start", *words,
    ]  # fmt: skip


def test_an_agent_without_a_command_holds() -> None:
    assert agent_argv(HOST, start())[-2:] == ["sleep", "infinity"]


def test_a_prepared_tree_has_its_own_usr() -> None:
    argv = agent_argv(HOST, start(image="debian"))
    assert [word for word in argv if word.startswith("--bind-ro=/usr")] == []
    assert f"--bind={MOUNTS}/tree:/tree" in argv


def test_a_booted_agent() -> None:
    argv = agent_argv(HOST, start("sh", boot=True))
    assert argv == shlex.split(f"""{NSPAWN} {BINDS}
        --setenv=SYSTEMD_UNIT_PATH=/opt/hive/hive_core/privd/guest/units:
        --bind-ro={MOUNTS}/harness:/etc/systemd/system/hive-harness.service
        --boot --notify-ready=yes --console=read-only
        '--system-call-filter=~io_uring_setup userfaultfd' --
        systemd.setenv=HIVE_NAME=bob systemd.setenv=HIVE_SOCKET=/run/hive/broker.sock
        systemd.setenv={PATH} systemd.setenv=HIVE_PARENT=alice
        systemd.mask=console-getty.service systemd.mask=ldconfig.service systemd.show_status=no
        systemd.journald.forward_to_console=1 systemd.journald.max_level_console=info
        systemd.wants=hive-harness.service""")
    assert not [word for word in agent_argv(HOST, start(boot=True)) if "harness" in word]


def test_the_unit_of_an_agent() -> None:
    limits = Limits(memory_max=1 << 26, cpu_quota=150, tasks_max=99)
    argv = systemd_run(HOST, start("sh", limits=limits))
    assert argv[:5] == [
        "systemd-run", "--quiet", "--no-block", "--collect", "--unit=hive-agent@bob.service"
    ]  # fmt: skip
    assert argv[-5:] == ["--", "/usr/bin/env", "bash", "/opt/hive_core/privd/hive-run", UUID]
    assert properties(argv) == [
        f"Description=hive agent {UUID} 7 abc",
        "Slice=hive-0123abcd-89abcdef.slice",
        "SyslogIdentifier=bob",
        "TimeoutStartSec=120",
        "TimeoutStopSec=60",
        "Restart=no",
        "RestartForceExitStatus=133",
        "SuccessExitStatus=133",
        "TasksMax=99",
        "CPUWeight=50",
        "IOWeight=50",
        "MemoryMax=67108864",
        "CPUQuota=150%",
        f"ExecStopPost=/bin/sh /opt/hive_core/privd/hive-stopped {UUID} 7 hive-agent@bob.service",
        "Type=notify",
        "NotifyAccess=main",
        "Delegate=yes",
        "KillMode=mixed",
        "MemorySwapMax=0",
        "OOMPolicy=continue",
        "OOMScoreAdjust=500",
        f"LogExtraFields=HIVE_UUID={UUID}",
        "DevicePolicy=closed",
        "DeviceAllow=char-pts rw",
        "LogRateLimitIntervalSec=30s",
        "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK",
        "SystemCallArchitectures=native",
        "LogRateLimitBurst=10000",
    ]


def test_a_newer_systemd_gets_the_device_it_opens() -> None:
    argv = systemd_run(Host("/opt/hive_core", (), tun=True), start())
    assert properties(argv)[-1] == "DeviceAllow=/dev/net/tun rwm"


def test_no_word_of_an_agent_stands_in_its_unit() -> None:
    """systemd expands variables and specifiers in the argv of a unit."""
    argv = systemd_run(HOST, start("evil;$HOME%n"))
    assert not [word for word in argv if "evil" in word or "$" in word or "%" in word]


def test_a_slice_gets_and_loses_its_limits() -> None:
    argv = set_slice(SetSlice(("0123abcd",), Limits(memory_max=1 << 30, cpu_quota=50)))
    assert argv == [
        "systemctl", "set-property", "--runtime", "hive-0123abcd.slice", "MemoryMax=1073741824",
        "MemoryHigh=", "TasksMax=", "CPUWeight=", "CPUQuota=50%", "IOWeight=",
    ]  # fmt: skip
    assert set_slice(SetSlice((), Limits()))[3] == "hive.slice"


@pytest.mark.parametrize("work", JobKind)
def test_a_job_is_bounded_and_can_neither_mount_nor_reach_anybody(work: JobKind) -> None:
    job = RunJob(JOB, work, JOB_BASES[0])
    argv = job_argv(HOST, job)
    assert argv[-4:] == ["--", "/bin/sh", "/opt/hive/bin/hive-job", work]
    assert f"--private-users={JOB_BASES[0]}:65536" in argv
    assert "--private-network" in argv
    writable = [word for word in argv if word.startswith("--bind=")]
    assert writable == [f"--bind=/var/lib/hive/mounts/{JOB}/out:/out"]
    assert [word for word in argv if word.endswith(":/in")] == (
        [f"--bind-ro=/var/lib/hive/mounts/{JOB}/in:/in"] if work is JobKind.COPY_TREE else []
    )
    unit = systemd_run(HOST, job)
    assert f"--unit=hive-job@{JOB}.service" in unit
    assert {"MemoryMax=1G", "TasksMax=64", "RuntimeMaxSec=600", "Slice=hive-jobs.slice"} <= set(
        properties(unit)
    )


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"))))
def test_a_harness_is_one_unit_file_whatever_the_words(words: list[str]) -> None:
    lines = harness(("sh", *words)).split("\n")
    assert len(lines) == 9
    assert lines[7].startswith('ExecStart=:/usr/bin/env "sh"')
    assert "%" not in lines[7].replace("%%", "")
