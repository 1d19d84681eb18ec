"""A lab: a disposable systemd host made out of this machine's own operating system.

A lab is a disk (`lab/disk`: a mount namespace that holds a copy-on-write view of the machine) and
a boot (`lab/boot`: systemd as the first process of further namespaces). A reboot ends the boot and
starts another on the same disk. Nothing is written to the machine, and whatever ends the process
that owns a lab, SIGKILL included, ends the lab too.
"""

import compileall
import contextlib
import re
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from e2e.cgroups import Groups
from e2e.runner import CommandRunner
from environments import environment_of

CHECKOUT = Path(__file__).resolve().parents[2]
TREE = Path("/var/cache/hive-lab/trixie")
FRESH = Path("/var/cache/hive-lab/fresh")
PARTS = Path(__file__).parent / "lab"

Stream = IO[str] | int | None
_BOOT_SECONDS = 60.0
# Joins the control groups named first, then becomes the command: a command must be in the lab's
# groups, or systemd inside cannot see where it is.
_JOIN = 'while [ "$1" != -- ]; do echo $$ >"$1"; shift; done; shift; exec "$@"'
_DIE_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL", "--")
_NAMESPACES = ("--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup")


class LabError(Exception):
    pass


class Lab:
    def __init__(
        self, name: str = "lab", lower: Path = Path("/"), *, offer: Path | None = None
    ) -> None:
        """Make a host of the tree `lower`.

        With `offer` it is as if just installed: what it lacks it installs from this folder
        (`scripts/setup --fresh`). Of this machine it has only the environment that runs tests.
        """
        self.name = name
        self._lower = lower
        self._offer = offer
        self.groups = Groups(f"hive-lab-{name}-{secrets.token_hex(4)}")
        self._disk: subprocess.Popen[str] | None = None
        self._boot: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self.pid = 0  # of the lab's systemd, as the machine counts
        self._runner = CommandRunner(partial(self.popen, stdin=-1, stdout=-1))
        self.guests: list[Callable[[], None]] = []  # what is to be closed whenever a boot ends

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> Self:
        try:
            self._make_disk()
            self.boot()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End everything at once, as when the plug is pulled, and forget the disk."""
        self.power_cut()
        if self._disk is not None:
            assert self._disk.stdin is not None
            self._disk.stdin.close()  # tells the holder of the disk to sweep up and go
            self._disk.wait()
            self._disk = None

    def reboot(self, *, power_cut: bool = False) -> None:
        """Start systemd again on the same disk; /run is new. A power cut asks nobody first.

        The boot id stays: it is the kernel's, and hiding it would keep user namespaces from
        mounting their own /proc.
        """
        if not power_cut:
            self._see_off()
            self._enter(["systemctl", "poweroff"])
            self._wait_for_end(_BOOT_SECONDS)
        self.power_cut()
        self.boot()

    def power_cut(self) -> None:
        self._see_off()
        if self._boot is not None:
            self._boot.kill()
            self._boot.wait()
            self._boot = None
        if self._log is not None:
            self._log.close()
            self._log = None

    def _see_off(self) -> None:
        self._runner.close()
        for leave in self.guests:
            leave()

    def boot(self) -> None:
        assert self._disk is not None, "start() makes the disk"
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - power_cut() closes it
        join = (*_DIE_WITH_PARENT, "sh", "-c", _JOIN, "sh", *self.groups.process_files(), "--")
        enter = ("nsenter", f"--mount=/proc/{self._disk.pid}/ns/mnt", "--")
        unshare = ("unshare", "--fork", "--kill-child", "--propagation", "private", *_NAMESPACES)
        self._boot = subprocess.Popen(
            [*join, *enter, *unshare, "--", str(PARTS / "boot")],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
            env={**environment(), "LAB_NAME": self.name, "LAB_CGROUP": self._cgroup_version()},
        )
        self._wait_until_up()
        # systemd leaves / private in a container; hosts share it, so that mounts reach containers.
        self.run(["mount", "--make-rshared", "/"])

    def argv(self, command: Sequence[str], cwd: str = "/") -> list[str]:
        """What to execute on the machine in order to execute `command` in the lab."""
        inside = (*_DIE_WITH_PARENT, "env", f"--chdir={cwd}", "--", *command)
        join = ("sh", "-c", _JOIN, "sh", *self.groups.process_files_of(self.pid), "--")
        return [*join, "nsenter", f"--target={self.pid}", *_NAMESPACES, "--", *inside]

    def run(
        self,
        command: Sequence[str],
        *,
        input: str | None = None,  # noqa: A002 - named as subprocess.run names it
        check: bool = True,
        timeout: float | None = 60,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        done = None
        if not self._offer:  # a bare machine has no Python
            done = self._runner.run(command, input or "", environment(env), timeout)
        done = done or self._enter(command, input or "", timeout, env)
        return check_status(done) if check else done

    def _enter(
        self,
        command: Sequence[str],
        text: str = "",
        timeout: float | None = 60,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.argv(command), input=text, capture_output=True, text=True, timeout=timeout,
            check=False, env=environment(env),
        )  # fmt: skip
        done.args = list(command)
        return done

    def popen(
        self,
        command: Sequence[str],
        *,
        stdin: Stream = None,
        stdout: Stream = None,
        stderr: Stream = None,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[str]:
        """Killing it kills the command; other signals do not reach the command."""
        return subprocess.Popen(
            self.argv(command),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            text=True,
            env=environment(env),
        )

    def path(self, inside: str | Path) -> Path:
        """Where the machine sees a file of the lab; follows no absolute link correctly."""
        return Path(f"/proc/{self.pid}/root") / str(inside).lstrip("/")

    def written_layers(self) -> list[Path]:
        """Where the machine sees what the lab wrote to its disk, but to file systems in memory."""
        assert self._disk is not None, "start() makes the disk"
        return sorted(Path(f"/proc/{self._disk.pid}/root/media").glob("[0-9]*/up"))

    def _make_disk(self) -> None:
        # Unprivileged users cannot write byte code in a lab and would compile at every start.
        compileall.compile_dir(CHECKOUT / "hive_core", quiet=2)
        self.groups.make()
        self._disk = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "--", str(PARTS / "disk")]
            + [str(group) for group in self.groups.paths],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=environment()
            | {
                "LAB_LOWER": str(self._lower),
                "LAB_SRC": str(CHECKOUT),
                "LAB_VENV": "" if self._offer else sys.prefix,
                "LAB_OFFER": str(self._offer or ""),
                "LAB_TESTS": sys.prefix if self._offer else "",
                "LAB_RUNTIME": self._environment("runtime"),
                "LAB_SMALL": self._environment("small"),
                "LAB_NAME": self.name,
            },
        )
        assert self._disk.stdout is not None
        with self._disk.stdout as words:
            ready = words.readline() == "ready\n"
        if not ready:
            raise LabError("the disk could not be made; see the messages above")

    def _environment(self, lock: str) -> str:
        """Another system has another Python, and a bare one installs its own."""
        is_own = self._lower == Path("/") and self._offer is None
        return str((environment_of(lock) if is_own else None) or "")

    def _wait_until_up(self) -> None:
        deadline = time.monotonic() + _BOOT_SECONDS
        while time.monotonic() < deadline:
            self.pid = self._first_process()
            if self._is_systemd() and self.path("run/systemd/private").exists():
                state = self._enter(["systemctl", "is-system-running", "--wait"])
                if state.stdout.strip() in {"running", "degraded"}:
                    return
            time.sleep(0.01)
        raise LabError("systemd did not come up")

    def _is_systemd(self) -> bool:
        """Before that it sees the machine's own files and sockets."""
        with contextlib.suppress(OSError):
            return Path(f"/proc/{self.pid}/comm").read_text() == "systemd\n"
        return False

    def _first_process(self) -> int:
        assert self._boot is not None
        if self._boot.poll() is not None:
            assert self._log is not None
            self._log.seek(0)
            raise LabError(f"the boot failed\n{self._log.read().decode(errors='replace')}")
        boot = self._boot.pid
        children = Path(f"/proc/{boot}/task/{boot}/children").read_text().split()
        # The join and the entering happen in the same process, so its first child is the one.
        return int(children[0]) if children else 0

    def _wait_for_end(self, seconds: float) -> None:
        assert self._boot is not None
        try:
            self._boot.wait(seconds)
        except subprocess.TimeoutExpired:
            raise LabError(f"the lab did not shut down\n{self._what_goes_on()}") from None

    def _what_goes_on(self) -> str:
        """What a systemd that does not end waits for, and what it said last."""
        shown = [["systemctl", "list-jobs"], ["ps", "axo", "pid,stat,args"], ["journalctl", "-n40"]]
        with contextlib.suppress(subprocess.TimeoutExpired):
            return "\n".join(self._enter(command).stdout for command in shown)
        return "it answers no command"

    def _cgroup_version(self) -> str:
        """systemd 252 lays out the control groups itself; from 256 on it must find version 2."""
        libraries = self._lower.glob("usr/lib/*/systemd/libsystemd-shared-*.so")
        versions = [
            int(match[1]) for path in libraries if (match := re.search(r"-(\d+)", path.name))
        ]
        return "unified" if max(versions, default=252) >= 256 else "own"


def check_status(done: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    """One that ended well."""
    if done.returncode != 0:
        raise LabError(f"{done.args} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def trixie_tree() -> Path:
    """A Debian 13 tree with systemd 257, made when missing: another systemd to check against."""
    if not (TREE / ".complete").exists():
        subprocess.run([CHECKOUT / "scripts/setup", "--trixie"], check=True)
    return TREE


def fresh_lab(name: str) -> Lab:
    """Return a bare Debian 12 on which nothing was used before, made when missing."""
    subprocess.run([CHECKOUT / "scripts/setup", "--fresh"], check=True)
    return Lab(name, FRESH / "tree", offer=FRESH / "offered")


def in_tree(command: Sequence[str], directory: str, tree: Path = TREE) -> list[str]:
    """What to execute (on the machine or in a lab) in order to execute `command` in the tree.

    It sees `directory`, and in it the sockets, under its own name.
    """
    script = (
        'cd "$1"; mount -t proc proc proc; mount -t tmpfs tmpfs run; mount -t tmpfs tmpfs tmp;'
        ' mkdir -p ".$2"; mount --bind "$2" ".$2"; shift 2; exec chroot . "$@"'
    )
    private = ("unshare", "--mount", "--propagation", "private", "sh", "-ec", script)
    return [*private, "sh", str(tree), directory, *command]


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    path = f"/usr/local/sbin:/usr/local/bin:{sys.prefix}/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {"HOME": "/root", "LANG": "C.UTF-8", **(extra or {}), "PATH": path}


def bare_environment() -> dict[str, str]:
    """Of a bare machine: scripts/test finds what runs tests, and no other command does."""
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {"HOME": "/root", "LANG": "C.UTF-8", "PATH": path, "HIVE_VENV": sys.prefix}
