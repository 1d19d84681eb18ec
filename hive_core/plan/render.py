"""Renders an action: properties of the unit, flags of systemd-nspawn, argv. Pure.

The lists in `privd/unit_files` say why each flag is needed. For their meaning see
https://www.freedesktop.org/software/systemd/man/latest/systemd-nspawn.html
"""

import json
from dataclasses import astuple
from pathlib import Path
from typing import Final, NamedTuple

from hive_core.model.names import agent_unit, job_unit, slice_unit
from hive_core.plan.actions import NIX, RANGE, JobKind, RunJob, SetSlice, StartUnit, UnitLimits

STATE: Final = "/var/lib/hive"
RUN: Final = "/run/hive"
STORES: Final = ("meta", "applied")  # repositories that an agent may be shown
SOCKET: Final = "/nix/var/nix/daemon-socket/socket"
_PROPERTIES: Final = ("MemoryMax", "MemoryHigh", "TasksMax", "CPUWeight", "CPUQuota", "IOWeight")
DEFAULTS: Final = UnitLimits(tasks_max=1024, cpu_weight=50, io_weight=50)  # of an agent's unit


class HostFacts(NamedTuple):
    """What rendering needs to know about the machine."""

    package: str  # the directory of hive_core
    shared: tuple[str, ...] = ("/usr",)  # the paths of SHARED that exist here
    tun: bool = False  # systemd-nspawn 257 opens /dev/net/tun for every user namespace
    path: str = "/usr/sbin:/usr/bin"  # systemd's default does not work on NixOS
    runtime: str = ""  # the directory of what a session imports, if it is installed
    clis: tuple[str, ...] = ()  # the directories of the CLIs that are installed


def read_list(file: str, **fields: object) -> list[str]:
    """Read properties, flags or words from `privd/unit_files`, one a line, and fill them in."""
    text = (Path(__file__).parents[1] / "privd/unit_files" / file).read_text(encoding="utf-8")
    return [line.format(**fields) for line in text.splitlines() if not line.startswith("#")]


# The generated root of the `host` image takes these from the machine, read-only.
SHARED: Final = tuple(read_list("shared.places"))


def systemd_run(host: HostFacts, action: StartUnit | RunJob) -> list[str]:
    """Render the command that starts the transient unit of an agent or a job."""
    if isinstance(action, StartUnit):
        unit, uuid, nonce = agent_unit(action.name), action.uuid, action.nonce
        tells = "init" if action.boot or action.image == NIX else "exec"
        fields = vars(action) | {"slice": slice_unit(action.slice)}
        properties = read_list("agent.properties", **fields)
        limits = (*_limits(DEFAULTS), *_limits(action.limits))  # the last one counts
        properties += [f"{key}={text}" for key, text in limits if text]
    else:
        unit, uuid, nonce, job = job_unit(action.job), action.job, 0, action.work.job
        tells = "init"
        properties = read_list("job.properties", uuid=uuid, work=action.work, **job._asdict())
    properties += read_list("unit.properties", **host._asdict(), uuid=uuid, nonce=nonce, unit=unit)
    properties += ["DeviceAllow=/dev/net/tun rwm"] if host.tun else []
    flags = [flag for item in properties for flag in ("-p", item)]
    return ["systemd-run", "--quiet", "--no-block", "--collect", f"--unit={unit}", *flags, "--",
            "/usr/bin/env", "bash", f"{host.package}/privd/hive-run",
            uuid, str(action.base), tells]  # fmt: skip


def _limits(limits: UnitLimits) -> list[tuple[str, str]]:
    values = zip(_PROPERTIES, astuple(limits), strict=True)
    texts = [(key, "" if value is None else str(value)) for key, value in values]
    return [(key, f"{text}%" if text and key == "CPUQuota" else text) for key, text in texts]


def set_slice(action: SetSlice) -> list[str]:
    """Render the command that sets the limits of a slice; an empty value lifts one."""
    settings = [f"{key}={value}" for key, value in _limits(action.limits)]
    return ["systemctl", "set-property", "--runtime", slice_unit(action.path), *settings]


def _container(uuid: str, base: int, name: str) -> list[str]:
    flags = read_list("container.flags", uuid=uuid, base=base, name=name, range=RANGE)
    return ["systemd-nspawn", *flags]


def agent_argv(host: HostFacts, action: StartUnit) -> list[str]:
    """Render the command line of an agent's container; the agent's own command comes last.

    FileNotFoundError: a session needs a CLI that the host lacks, and would end at once. A tree of
    its own may bring one along, and a program of its own may need none.
    """
    nix, uuid, session = action.image == NIX, action.uuid, ("host", "hive-agent", "session")
    shared = {"host": host.shared, NIX: ("/nix/store",)}.get(action.image, ())
    argv = [*_container(uuid, action.base, action.name), *(f"--bind-ro={part}" for part in shared)]
    argv += read_list("agent.flags", package=host.package, uuid=uuid, seed=NIX if nix else "host")
    clis = [f"--bind-ro={at}:/opt/hive/clis" for at in host.clis if at.endswith(f"/{action.cli}")]
    if action.cli and not clis and (action.image, *action.command[:2]) == session:
        raise FileNotFoundError(f"its CLI is not there: run `hive runtime install {action.cli}`")
    argv += clis + ([f"--bind-ro={host.runtime}:/opt/hive/runtime"] if host.runtime else [])
    variables = {"NAME": action.name, "PARENT": action.parent, "SYSTEM": action.system}
    environment = [f"setenv=HIVE_{key}={value}" for key, value in variables.items() if value]
    if not (action.boot or nix):
        argv += [*(f"--{word}" for word in environment), *read_list("plain.flags")]
        return [*argv, *(action.command or ("sleep", "infinity"))]
    words = [*(f"systemd.{word}" for word in environment), *read_list("boot.words")]
    words += ["systemd.wants=hive-harness.service"] if action.command else []
    init = ["--", f"{action.system}/init"] if nix else ["--boot", "--"]
    return [*argv, *read_list("boot.flags", uuid=uuid), *init, *words]


def job_argv(host: HostFacts, action: RunJob) -> list[str]:
    """Render the command line of a job's container: a generated root, host programs, its mounts."""
    mounts, job = f"{STATE}/mounts/{action.job}", action.work.job
    argv = _container(action.job, action.base, "job")
    argv += [] if action.work is JobKind.LOCK else ["--private-network"]
    shared = (*host.shared, *(("/nix/store", SOCKET) if job.nix else ()))
    argv += [f"--bind-ro={part}" for part in dict.fromkeys(shared)]
    argv += [f"--bind-ro={mounts}/{leaf}:/{leaf}" for leaf in job.reads]
    argv += [f"--bind={mounts}/{leaf}:/{leaf}" for leaf in job.writes]
    program = ["/bin/sh", "/opt/hive/hive_core/privd/guest/job"]
    if action.work.exchanges:
        # The host must see the link that protects a result from Nix's garbage collector.
        argv.append(f"--bind={mounts}/out:{STATE}/work/{action.job}/out")
        program = ["/usr/bin/python3", "-I", "/opt/hive/hive_core/jobs/main.py"]
    return [*argv, *read_list("job.flags", **host._asdict()), *program, action.work, *action.words]


def harness(command: tuple[str, ...]) -> str:
    """Render the service that runs the command of an agent whose container boots an init.

    systemd understands the escapes of JSON:
    https://www.freedesktop.org/software/systemd/man/latest/systemd.syntax.html#Quoting
    """
    words = " ".join(json.dumps(word, ensure_ascii=False) for word in command).replace("%", "%%")
    return "\n".join(read_list("harness.unit", words=words)) + "\n"
