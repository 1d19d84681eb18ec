"""What hive adds to Nix: to a build and a restart, and to evaluations of many agents.

Nixpkgs is not to be had here: a stand-in input gives tiny systems that really start. So the builds
are given a length (a sleep), and the evaluations a weight (a set of so many values, held until the
end). A deploy: from `Approve` to the end of the approval, the window of health taken off; beside it
`nix build` by root and a restart of a bare unit with what came out. An evaluation: time and peak
memory of one process for each changed agent, one after the other as hive does it, beside one
process that evaluates them all.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Final

from e2e.labhost import Lab
from e2e.nixhost import NixHost

from benchmarks.report.rows import Row, beside, with_aim
from hive_core.jobs.nix import CONFIG
from hive_core.model.config.settings import NixSettings
from hive_core.plan import nar
from hive_core.plan.flake import Pin, render
from nix import inputs

LENGTHS = {0: 5, 10: 2}  # seconds that a build takes -> rounds
AGENTS = (1, 10, 50)
WEIGHT = 100_000
WINDOW = 0.5
AIM = "hive adds less than 10 %"
BARE = "nix build, and a bare unit"
ALL = "all in one process"
# A root with nothing in it but what the container needs, as NixOS makes it.
_ROOT = """
mount -t tmpfs tmpfs /srv; mkdir -p /srv/bare/{etc,nix/store,usr,run,tmp,proc,sys,dev,root,var}
cp /usr/lib/os-release /srv/bare/etc; chown -R 1000000:1000000 /srv/bare
"""
_START = (
    "systemd-run", "--quiet", "--unit=bare", "--collect", "-p", "Type=notify", "-p",
    "NotifyAccess=all", "-p", "KillMode=mixed", "systemd-nspawn", "--quiet", "--keep-unit",
    "--register=no", "--settings=no", "--machine=bare", "--directory=/srv/bare",
    "--private-users=1000000:65536", "--private-users-ownership=off", "--private-network",
    "--link-journal=no", "--bind-ro=/nix/store", "--notify-ready=yes",
)  # fmt: skip


def run() -> list[Row]:
    return [*_deploys(), *_evaluations()]


# A deploy.


def _deploys() -> list[Row]:
    with Lab() as lab:
        host = NixHost(lab)
        host.prepare()
        host.run("bash", "-c", _ROOT)
        host.lock()
        host.grow(agent={"parent": "root", "image": "nix"})
        host.change("agent", _module("first", 0))
        try:
            return [
                row for length, rounds in LENGTHS.items() for row in _pair(host, length, rounds)
            ]
        finally:
            host.close_connections()


def _pair(host: NixHost, length: int, rounds: int) -> Iterator[Row]:
    ours = [_ours(host, f"{length} {number}", length) for number in range(rounds)]
    row: Row = {
        "name": f"approve to healthy (window off), a build of {length} s, p50",
        "value": median(ours), "unit": "s",
    }  # fmt: skip
    row |= beside(BARE, lambda: median(_bare(host, f"{length} {n}", length) for n in range(rounds)))
    yield with_aim(row, AIM, ratio_at_most=1.1) if length else row


def _module(text: str, length: int) -> str:
    build = f'fixture.build = "b sleep {length}";' if length else ""
    return f'{{ ... }}: {{ environment.etc.word.text = "{text}"; {build} }}'


def _ours(host: NixHost, text: str, length: int) -> float:
    """A limit is changed with the module, so that the agent is started anew."""
    memory = 256 + int(text.split()[1])
    toml = f"[request.limits]\nmemory_max = {memory << 20}\n"
    asked = host.propose("agent", _module(text, length), toml)
    pending = host.wait_for_approval(str(asked["approval"]))
    begin = time.monotonic()
    host.call("Approve", id=pending["id"], commit=str(pending["commit"])[:8])
    done = host.call("WaitJob", id=asked["job"], wait=50)
    spent = time.monotonic() - begin
    shown = host.call("GetApproval", id=pending["id"])["approval"]
    assert (done["state"], shown["state"], shown["effect"]) == ("done", "deployed", "restart"), (
        shown
    )
    return spent - WINDOW


def _bare(host: NixHost, text: str, length: int) -> float:
    """The same change by hand: build it, and start the container anew with it."""
    flake = f"/root/flake-{text.replace(' ', '-')}"
    module = _module(f"bare {text}", length)
    archive = nar.pack({"agent.nix": (False, module.encode())})
    pin = Pin("agent", "0", "root", (), "c" * 40, nar.digest(archive))
    files = {
        "flake.nix": render(NixSettings(inputs=_inputs()), [pin]).decode(),
        "tree/agent.nix": module,
    }
    for name, content in files.items():
        host.run(
            "sh", "-c", 'mkdir -p "$(dirname "$0")"; cat >"$0"', f"{flake}/{name}", text=content
        )
    host.run("cp", "/var/lib/hive/meta/flake.lock", flake)
    options = ["--extra-experimental-features", "nix-command flakes"]
    host.run("nix", *options, "store", "add-path", "--name", "source", f"{flake}/tree")
    host.run("rm", "-r", f"{flake}/tree")
    begin = time.monotonic()
    wanted = f"path:{flake}#nixosConfigurations.agent.config.system.build.toplevel"
    built = host.run("nix", *options, "build", "--no-link", "--json", wanted, timeout=60).stdout
    system = json.loads(built)[0]["outputs"]["out"]
    host.run("systemctl", "stop", "bare", check=False)
    host.run(*_START, f"--setenv=HIVE_SYSTEM={system}", f"{system}/init")
    return time.monotonic() - begin


def _inputs() -> dict[str, str]:
    return {name: f"path:/usr/share/hive-inputs/{name}" for name in ("hive", "nixpkgs")}


# Evaluations.


def _evaluations() -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="hive-bench-nix-") as folder:
        place = Path(folder)
        try:
            flake = _flake(place)
            for count in AGENTS:
                yield from _evaluation_rows(place, flake, count)
        finally:
            subprocess.run(["chmod", "-R", "u+w", folder], check=True)


def _flake(place: Path) -> Path:
    """A flake with as many agents as there ever are, locked."""
    made = inputs.make(place / "inputs")
    item = "{ name = toString n; value = [ n ]; }"
    weight = f"builtins.listToAttrs (builtins.genList (n: {item}) {WEIGHT})"
    files = place / "tree"
    files.mkdir()
    module = f"{{ config, ... }}: {{ weight = {weight}; environment.etc.word.text = toString"
    module += (
        " (builtins.length (builtins.attrNames config.weight)) + config.networking.hostName; }"
    )
    (files / "agent.nix").write_text(module)
    _nix(place, ["store", "add-path", "--name", "source", str(files)])
    digest = nar.digest(nar.pack({"agent.nix": (False, module.encode())}))
    pins = [Pin(f"a{n}", "0", None, (), "c" * 40, digest) for n in range(max(AGENTS))]
    flake = place / "flake"
    flake.mkdir()
    (flake / "flake.nix").write_bytes(render(NixSettings(inputs=made), pins))
    _nix(place, ["flake", "lock", f"path:{flake}"])
    return flake


def _evaluation_rows(place: Path, flake: Path, count: int) -> Iterator[Row]:
    names = [f"a{number}" for number in range(count)]
    alone = [_nix(place, _words(flake, [name])) for name in names]
    together = _nix(place, _words(flake, names))
    plural = "s" if count > 1 else ""
    for label, unit, ours, theirs in (
        ("time", "s", sum(item[0] for item in alone), together[0]),
        ("peak memory", "MiB", max(item[1] for item in alone), together[1]),
    ):
        name = f"evaluation of {count} changed agent{plural}, {label}"
        yield {"name": name, "value": ours, "unit": unit, "peer": ALL, "peer_value": theirs}


def _words(flake: Path, names: Sequence[str]) -> list[str]:
    take = "c: map (n: (builtins.getAttr n c).config.system.build.toplevel.drvPath)"
    listed = " ".join(f'"{name}"' for name in names)
    wanted = f"path:{flake}#nixosConfigurations"
    return ["eval", "--json", "--no-update-lock-file", wanted, "--apply", f"{take} [ {listed} ]"]


# Until a process executes another program, its peak includes the memory of the process that spawned
# it, which is large by the time it measures: a small process stands in between. getrusage(2)
_SMALL: Final = """
import os, sys, time
begin = time.monotonic()
log = (os.POSIX_SPAWN_OPEN, 2, sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o600)
silent = (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)
pid = os.posix_spawnp("nix", sys.argv[2:], os.environ, file_actions=[silent, log])
_, status, usage = os.wait4(pid, 0)
print(status, time.monotonic() - begin, usage.ru_maxrss / 1024)
"""


def _nix(place: Path, words: Sequence[str]) -> tuple[float, float]:
    """Seconds and MiB at most of one run of Nix, in a store of its own."""
    environment = {**os.environ, "NIX_CONFIG": CONFIG + "substituters =\nbuild-users-group =\n",
                   "HOME": str(place)}  # fmt: skip
    log = place / "log"
    done = subprocess.run(
        [sys.executable, "-Ic", _SMALL, log, "nix", "--store", f"{place}/store", *words],
        env=environment, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    status, seconds, peak = done.stdout.split()
    assert status == "0", log.read_text()[-1000:]
    return float(seconds), float(peak)
