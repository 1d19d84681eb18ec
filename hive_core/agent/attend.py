"""Reports the configuration and switches the system in place, which needs a process in the guest.

`hive-agent attend` is a service of root in guests that boot an init system. `hive-agent serve`
reports the configuration too, beside its loop. The reports have only what the guest itself can see.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Never

from hive_core.agent.reconnect import Link
from hive_core.errors import HiveError

CONFIG: Final = Path("/run/hive/config")
CURRENT: Final = Path("/run/current-system")
SWITCH: Final = "bin/switch-to-configuration"
POLL: Final = 50  # seconds that one call waits
SECONDS: Final = 600.0  # the daemon has a deadline of its own, which is shorter
FAULT_MOST: Final = 500
_BACK: Final = 5.0  # seconds after a refusal
_LOOKS, _LOOK = 100, 0.1  # the files of a deployed configuration appear within moments
_COMMIT: Final = 40


@dataclass
class ConfigWatcher:
    """Calls `hello` whenever the reported state has changed.

    Switches the system when that is due.
    """

    link: Link
    config: Path = CONFIG
    current: Path = CURRENT
    switches: bool = True
    sleep: Callable[[float], object] = time.sleep
    _after: str | None = field(default=None, init=False)
    _told: tuple[str, str, str] | None = field(default=None, init=False)
    _fault: str = field(default="", init=False)
    _tried: str = field(default="", init=False)

    def forever(self) -> Never:
        while True:
            try:
                self.step()
            except HiveError as error:
                _say(f"cannot ask for the configuration: {error.reason}")
                self.sleep(_BACK)

    def step(self) -> None:
        """Report the state, ask what is deployed, and switch if needed."""
        self._say_hello()
        due = self.link.ask("watch_config", after=self._after, wait=POLL)
        self._after = str(due.get("next") or "") or None
        self._await_config(str(due.get("commit") or ""))
        system = str(due.get("system") or "")
        if self.switches and system and system != self._tried:
            self._tried = system
            self._fault = self._switch(system) if system != self.system else ""

    @property
    def commit(self) -> str:
        """The commit of the configuration in the container."""
        with suppress(OSError):
            name = self.config.readlink().name
            return name if len(name) == _COMMIT else ""
        return ""

    @property
    def system(self) -> str:
        """The running system; empty in guests without one."""
        with suppress(OSError):
            return str(self.current.readlink())
        return ""

    def _await_config(self, commit: str) -> None:
        """Wait for the files, which may appear after the reply of the daemon."""
        for _ in range(_LOOKS):
            if not commit or self.commit in (commit, ""):
                return
            self.sleep(_LOOK)

    def _say_hello(self) -> None:
        now = (self.commit, self.system, self._fault)
        if now == self._told:
            return
        commit, system, fault = now
        known = {"commit": commit or None, "system": _in_store(system), "fault": fault}
        self.link.change("hello", **known)
        self._told = now

    def _switch(self, system: str) -> str:
        """Switch to a system; return the fault, or ""."""
        _say(f"switching to {system}")
        before = failed_units()
        try:
            done = subprocess.run(
                [f"{system}/{SWITCH}", "test"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, timeout=SECONDS, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"cannot switch: {error}"[:FAULT_MOST]
        sys.stderr.buffer.write(done.stdout)
        sys.stderr.flush()
        last = " | ".join(done.stdout.decode("utf-8", "replace").split("\n")[-6:])
        return switch_fault(done.returncode, self.system == system, before, last)


def switch_fault(status: int, there: bool, before: frozenset[str] | None, last: str) -> str:  # noqa: FBT001
    """Judge a switch by the state after it, since its exit status is not reliable.

    https://github.com/NixOS/nixpkgs/issues/378535 describes switches that took effect and failed.
    """
    if status == 0 and there:
        return ""
    if there and before is not None and (now := failed_units()) is not None:
        new = sorted(now - before)
        return f"units failed: {', '.join(new)}"[:FAULT_MOST] if new else ""
    return f"the switch ended with {status}: {last}"[:FAULT_MOST]


def failed_units(argv: Sequence[str] = ("systemctl", "--failed", "--plain", "--no-legend")) -> (
    frozenset[str] | None
):  # fmt: skip
    """Failed units of the guest; None when systemd does not answer."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return frozenset(line.split()[0] for line in done.stdout.splitlines() if line.strip())


def start_beside(path: str) -> None:
    """Call `hello` beside another loop, now and after every deployment."""
    if CONFIG.is_symlink():
        work = ConfigWatcher(Link(path), switches=False)
        threading.Thread(target=work.forever, name="hello", daemon=True).start()


def run_attend(path: str) -> Never:
    """Run the service."""
    os.chdir("/")
    ConfigWatcher(Link(path)).forever()


def _in_store(path: str) -> str | None:
    return path if path.startswith("/nix/store/") and path.count("/") == 3 else None  # noqa: PLR2004


def _say(text: str) -> None:
    sys.stderr.write(f"hive-agent: {text}\n")
    sys.stderr.flush()
