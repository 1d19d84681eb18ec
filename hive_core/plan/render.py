"""How an action is rendered: properties of the unit, flags of systemd-nspawn, argv. Pure.

RUNTIME in the design pages says why each flag stands here; systemd's own words are at
https://www.freedesktop.org/software/systemd/man/latest/systemd-nspawn.html
"""

from __future__ import annotations

import json
from dataclasses import astuple, dataclass
from typing import Final

from hive_core.model.names import agent_unit, job_unit, slice_unit
from hive_core.plan.actions import RANGE, JobKind, Limits, RunJob, SetSlice, StartUnit

STATE: Final = "/var/lib/hive"
RUN: Final = "/run/hive"
# The generated root of the `host` image takes these from the machine, read-only.
SHARED: Final = ("usr", "etc/alternatives", "etc/ssl/certs", "etc/pam.d", "etc/login.defs",
                 "etc/ld.so.cache", "etc/ld.so.conf", "etc/ld.so.conf.d")  # fmt: skip
_CLOSED: Final = "~io_uring_setup userfaultfd"
_NO_MOUNTS: Final = f"{_CLOSED} @mount"  # who cannot mount can be revoked live
_DROPPED: Final = ("CAP_MKNOD,CAP_AUDIT_CONTROL,CAP_AUDIT_WRITE,CAP_LINUX_IMMUTABLE,"
                   "CAP_SYS_TTY_CONFIG,CAP_NET_RAW,CAP_LEASE,CAP_SYS_RESOURCE")  # fmt: skip
_PATH: Final = "/opt/hive/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PROPERTIES: Final = ("MemoryMax", "MemoryHigh", "TasksMax", "CPUWeight", "CPUQuota", "IOWeight")
DEFAULTS: Final = Limits(tasks_max=1024, cpu_weight=50, io_weight=50)  # of an agent's unit


@dataclass(frozen=True, slots=True)
class Host:
    """What rendering has to know about the machine."""

    package: str  # the directory of hive_core
    shared: tuple[str, ...] = SHARED  # those of SHARED that exist here
    tun: bool = False  # systemd-nspawn 257 opens /dev/net/tun for every user namespace


def systemd_run(host: Host, action: StartUnit | RunJob) -> list[str]:
    """Render the command that starts the transient unit of an agent or a job."""
    if isinstance(action, StartUnit):
        unit, uuid, nonce = agent_unit(action.name), action.uuid, action.nonce
        properties = _agent(action)
    else:
        unit, uuid, nonce, properties = job_unit(action.job), action.job, 0, _job(action)
    properties += [
        f"ExecStopPost=/bin/sh {host.package}/privd/hive-stopped {uuid} {nonce} {unit}",
        "Type=notify", "NotifyAccess=main", "Delegate=yes", "KillMode=mixed", "MemorySwapMax=0",
        "OOMPolicy=continue", "OOMScoreAdjust=500", f"LogExtraFields=HIVE_UUID={uuid}",
        "DevicePolicy=closed", "DeviceAllow=char-pts rw", "LogRateLimitIntervalSec=30s",
        # Sockets of virtual machines know no network namespaces.
        "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK",
        "SystemCallArchitectures=native", "LogRateLimitBurst=10000",
    ]  # fmt: skip
    properties += ["DeviceAllow=/dev/net/tun rwm"] if host.tun else []
    flags = [flag for item in properties for flag in ("-p", item)]
    return ["systemd-run", "--quiet", "--no-block", "--collect", f"--unit={unit}", *flags, "--",
            "/usr/bin/env", "bash", f"{host.package}/privd/hive-run", uuid]  # fmt: skip


def _agent(action: StartUnit) -> list[str]:
    both = (*_limits(DEFAULTS), *_limits(action.limits))
    limits = {key: text for key, text in both if text}
    return [
        f"Description=hive agent {action.uuid} {action.nonce} {action.spec}",
        f"Slice={slice_unit(action.slice)}", f"SyslogIdentifier={action.name}",
        "TimeoutStartSec=120", "TimeoutStopSec=60",
        "Restart=no", "RestartForceExitStatus=133", "SuccessExitStatus=133",
        *(f"{key}={text}" for key, text in limits.items()),
    ]  # fmt: skip


def _job(action: RunJob) -> list[str]:
    return [
        f"Description=hive job {action.job} {action.work}",
        "Slice=hive-jobs.slice", "SyslogIdentifier=hive-job", "MemoryMax=1G", "TasksMax=64",
        "CPUWeight=20", "IOWeight=20", "RuntimeMaxSec=600", "TimeoutStopSec=5",
    ]  # fmt: skip


def _limits(limits: Limits) -> list[tuple[str, str]]:
    values = zip(_PROPERTIES, astuple(limits), strict=True)
    texts = [(key, "" if value is None else str(value)) for key, value in values]
    return [(key, f"{text}%" if text and key == "CPUQuota" else text) for key, text in texts]


def set_slice(action: SetSlice) -> list[str]:
    """Render the command that sets the limits of a slice; an empty value lifts one."""
    settings = [f"{key}={value}" for key, value in _limits(action.limits)]
    return ["systemctl", "set-property", "--runtime", slice_unit(action.path), *settings]


def _nspawn(uuid: str, base: int, hostname: str) -> list[str]:
    return [
        "systemd-nspawn", "--quiet", "--keep-unit", "--register=no", "--settings=no",
        f"--machine={uuid}", f"--uuid={uuid}", f"--hostname={hostname}", "--private-network",
        f"--directory={STATE}/mounts/{uuid}/root", "--private-users-ownership=off",
        f"--private-users={base}:{RANGE}", "--timezone=off",
        "--link-journal=no", "--resolv-conf=off", "--no-new-privileges=yes",
        f"--drop-capability={_DROPPED}", "--kill-signal=SIGRTMIN+3",
        "--rlimit=RLIMIT_NOFILE=4096", "--rlimit=RLIMIT_CORE=0",
    ]  # fmt: skip


def agent_argv(host: Host, action: StartUnit) -> list[str]:
    """Render the container of an agent; the agent's own command comes last, verbatim."""
    door, mounts = f"{RUN}/agents/{action.uuid}", f"{STATE}/mounts/{action.uuid}"
    binds = [f"--bind-ro=/{part}" for part in host.shared if action.image == "host"]
    binds += [f"--bind-ro={host.package}/privd/guest/bin:/opt/hive/bin",
              f"--bind-ro={host.package}:/opt/hive/hive_core", f"--bind={mounts}/tree:/tree",
              f"--bind-ro={door}/view:/agents", f"--bind-ro={door}/run:/run/hive"]  # fmt: skip
    variables = {"HIVE_NAME": action.name, "HIVE_SOCKET": "/run/hive/broker.sock", "PATH": _PATH}
    variables |= {"HIVE_PARENT": action.parent} if action.parent else {}
    environment = [f"setenv={key}={value}" for key, value in variables.items()]
    argv = [*_nspawn(action.uuid, action.base, action.name), *binds]
    if not action.boot:
        command = action.command or ("sleep", "infinity")
        return [*argv, *(f"--{word}" for word in environment), "--setenv=HOME=/tree/state",
                "--as-pid2", "--console=pipe", f"--system-call-filter={_NO_MOUNTS}",
                "--chdir=/tree/state", "--", "/opt/hive/bin/hive-start", *command]  # fmt: skip
    # The rest is for the init inside, which reads its arguments like those of a kernel. Its
    # journal goes to the host's over the console, where a drop-in for all services has each line
    # begin with the name of its unit; the cache of libraries is the host's.
    argv.append("--setenv=SYSTEMD_UNIT_PATH=/opt/hive/hive_core/privd/guest/units:")
    words = [*environment, "mask=console-getty.service", "mask=ldconfig.service", "show_status=no",
             "journald.forward_to_console=1", "journald.max_level_console=info"]  # fmt: skip
    if action.command:
        words.append("wants=hive-harness.service")
        argv.append(f"--bind-ro={mounts}/harness:/etc/systemd/system/hive-harness.service")
    return [*argv, "--boot", "--notify-ready=yes", "--console=read-only",
            f"--system-call-filter={_CLOSED}", "--",
            *(f"systemd.{word}" for word in words)]  # fmt: skip


def job_argv(host: Host, action: RunJob) -> list[str]:
    """Render the container of a job: a generated root, the host's programs, one place to write."""
    mounts = f"{STATE}/mounts/{action.job}"
    argv = [*_nspawn(action.job, action.base, "job"), "--bind-ro=/usr", f"--bind={mounts}/out:/out",
            f"--bind-ro={host.package}/privd:/opt/hive/bin"]  # fmt: skip
    if action.work is JobKind.COPY_TREE:
        argv.append(f"--bind-ro={mounts}/in:/in")
    return [*argv, "--as-pid2", "--console=pipe", f"--system-call-filter={_NO_MOUNTS}", "--",
            "/bin/sh", "/opt/hive/bin/hive-job", action.work]  # fmt: skip


def harness(command: tuple[str, ...]) -> str:
    """Render the service that runs the command of an agent whose container boots an init.

    The container ends with the command and has its exit status. The colon keeps systemd from
    expanding variables; it understands the escapes of JSON:
    https://www.freedesktop.org/software/systemd/man/latest/systemd.syntax.html#Quoting
    """
    words = " ".join(json.dumps(word, ensure_ascii=False) for word in command).replace("%", "%%")
    return (
        "[Unit]\nDescription=The agent's own command\nSuccessAction=exit\nFailureAction=exit\n"
        "[Service]\nWorkingDirectory=/tree/state\n"
        f"Environment=HOME=/tree/state\nExecStart=:/usr/bin/env {words}\n"
    )
