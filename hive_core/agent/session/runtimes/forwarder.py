"""The forwarder beside a session: the port by which its CLI calls models."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from hive_core.agent.forward import HOST, ForwardPair
from hive_core.agent.session.runtimes.builtin import RuntimeGone

_PATIENCE: Final = 5.0


@dataclass(slots=True)
class ModelForwarder:
    """`hive-agent forward` for one socket, started when it is needed and when it has ended."""

    pair: ForwardPair
    command: Sequence[str]
    uid: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    _process: subprocess.Popen[bytes] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.pair.port}"

    def start(self) -> None:
        """Return when the port takes connections; RuntimeGone when it does not."""
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                return
            self._process = process = self._spawn()
            said = process.stdout.readline() if process.stdout else b""
            # Another forwarder of this container may have the port already.
            if not said and not self._is_open():
                raise RuntimeGone(f"cannot forward {self.url} to {self.pair.socket}")

    def close(self) -> None:
        """End the process."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            process.wait(_PATIENCE)
            for stream in filter(None, (process.stdin, process.stdout)):
                stream.close()

    def _spawn(self) -> subprocess.Popen[bytes]:
        words = [*self.command, "forward", "--until-eof",
                 f"{self.pair.port}={self.pair.socket}"]  # fmt: skip
        as_user = {} if self.uid is None else {
            "user": self.uid, "group": self.uid, "extra_groups": [],
        }  # fmt: skip
        process: subprocess.Popen[bytes] = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(self.environment),
            cwd="/", start_new_session=True, **as_user,  # type: ignore[call-overload]
        )  # fmt: skip
        return process

    def _is_open(self) -> bool:
        with suppress(OSError):
            socket.create_connection((HOST, self.pair.port), _PATIENCE).close()
            return True
        return False
