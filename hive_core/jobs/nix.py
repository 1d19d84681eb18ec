"""Runs Nix in a job: an untrusted client with a fixed configuration and limited output.

Nix only warns about unknown settings. A job has no configuration file of Nix and nothing of the
daemon's environment, and the Nix daemon ignores settings of an untrusted user that would give a
build more rights. https://nix.dev/manual/nix/latest/command-ref/conf-file
"""

from __future__ import annotations

import json
import os
import re
import resource
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

STORE: Final = "/nix/store"
STORE_PATH: Final = re.compile(r"/nix/store/[0-9a-df-np-sv-z]{32}-[A-Za-z0-9+._?=-]{1,200}")
CONFIG: Final = """\
experimental-features = nix-command flakes
flake-registry =
use-registries = false
accept-flake-config = false
allow-import-from-derivation = false
allow-unsafe-native-code-during-evaluation = false
pure-eval = true
allowed-uris =
max-call-depth = 10000
eval-cache = false
show-trace = false
warn-dirty = false
connect-timeout = 10
"""
SAID_MOST: Final = 1 << 20  # bytes of either stream
LOG_MOST: Final = 16 << 10
TEXT_MOST: Final = 500
_ESCAPE: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_LIMITED: Final = (resource.RLIMIT_AS, resource.RLIMIT_CORE)


class NixRefused(Exception):
    """Nix failed, or its result was refused: `text` says why, `log` is the output of Nix."""

    def __init__(self, text: str, log: str = "") -> None:
        super().__init__(text)
        self.text, self.log = text, log


@dataclass(frozen=True)
class JobFolders:
    """The folders of a job and its store; tests use others."""

    inside: Path = Path("/in")
    out: Path = Path("/out")
    scratch: Path = Path("/tmp/nix")  # noqa: S108 - in the container
    store: str = "daemon"
    config: str = CONFIG

    def real(self, path: str) -> Path:
        """The real path of a store path; tests have their store in another folder."""
        return Path(path if self.store == "daemon" else f"{self.store}{path}")


@dataclass
class NixClient:
    """Runs commands of Nix within a common time limit."""

    folders: JobFolders
    seconds: float
    memory: int = 4 << 30
    _until: float = field(init=False)

    def __post_init__(self) -> None:
        self._until = time.monotonic() + self.seconds
        self.folders.scratch.mkdir(parents=True, exist_ok=True)

    def run(self, *words: str) -> tuple[str, str]:
        """Run a command; return its output and its log.

        NixRefused if it fails or exceeds a limit.
        """
        with subprocess.Popen(
            ("nix", "--store", self.folders.store, *words), env=self._environment(),
            cwd=self.folders.scratch, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True, preexec_fn=self._limit,  # noqa: PLW1509
        ) as program:  # fmt: skip
            try:
                said, wrong = _read_streams(program, self._until)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(program.pid, signal.SIGKILL)
        log = plain(said[1].decode("utf-8", "replace"))[-LOG_MOST:]
        if wrong or program.returncode:
            raise NixRefused(wrong or _why(program.returncode, log), log)
        return said[0].decode("utf-8", "replace"), log

    def json(self, *words: str) -> object:
        """Run a command and decode its JSON output."""
        text, log = self.run(*words)
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise NixRefused("the output of Nix is not JSON", log) from error

    def version(self) -> tuple[int, ...]:
        """The version as `(2, 8)`: some words of the command line changed between versions."""
        text, _ = self.run("--version")
        return tuple(map(int, re.findall(r"\d+", text.rpartition(" ")[2])[:2]))

    def _environment(self) -> Mapping[str, str]:
        home = str(self.folders.scratch)
        return {
            "PATH": os.environ.get("PATH", os.defpath), "HOME": home, "TMPDIR": home,
            "XDG_CACHE_HOME": f"{home}/cache", "XDG_CONFIG_HOME": f"{home}/config",
            "NIX_CONF_DIR": f"{home}/none", "NIX_USER_CONF_FILES": "", "NIX_PATH": "",
            "NIX_CONFIG": self.folders.config, "LC_ALL": "C.UTF-8", "NO_COLOR": "1",
            **{key: os.environ[key] for key in ("NIX_SSL_CERT_FILE",) if key in os.environ},
        }  # fmt: skip

    def _limit(self) -> None:
        for limit, most in zip(_LIMITED, (self.memory, 0), strict=True):
            resource.setrlimit(limit, (most, most))


def _read_streams(program: subprocess.Popen[bytes], until: float) -> tuple[list[bytearray], str]:
    """Read both streams; return them, with a reason if they were cut off."""
    streams = [program.stdout, program.stderr]
    said = [bytearray(), bytearray()]
    with selectors.DefaultSelector() as ready:
        for number, stream in enumerate(streams):
            assert stream is not None  # noqa: S101 - both are pipes
            ready.register(stream, selectors.EVENT_READ, number)
        while ready.get_map():
            if (left := until - time.monotonic()) <= 0:
                return said, "Nix took too long"
            for key, _ in ready.select(left):
                data = os.read(key.fd, 1 << 16)
                said[key.data] += data
                if not data:
                    ready.unregister(key.fileobj)
                elif len(said[key.data]) > SAID_MOST:
                    return said, f"the output of Nix is larger than {SAID_MOST} bytes"
    try:
        program.wait(max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        return said, "Nix took too long"
    return said, ""


def _why(status: int, log: str) -> str:
    errors = [line.strip() for line in log.splitlines() if line.strip().startswith("error:")]
    error = errors[-1].removeprefix("error:").strip() if errors else ""
    if error:
        return error[:TEXT_MOST]
    if status < 0:
        return f"Nix was killed by {signal.Signals(-status).name}, perhaps for lack of memory"
    return f"Nix ended with {status}"


def plain(text: str) -> str:
    """The text without colours and without characters that move a cursor."""
    cleared = _ESCAPE.sub("", text)
    return "".join(char if char.isprintable() or char == "\n" else "?" for char in cleared)


def tell(room: JobFolders, act: Callable[[], Mapping[str, object]]) -> None:
    """Run a job; write its result, or the reason of its refusal."""
    try:
        said = {"ok": True, "text": "", "log": "", **act()}
    except NixRefused as refused:
        said = {"ok": False, "text": refused.text[:TEXT_MOST], "log": refused.log[-LOG_MOST:]}
    (room.out / "said.json").write_text(json.dumps(said), encoding="utf-8")


def check_words(words: Sequence[str], *patterns: str) -> Sequence[str]:
    """The words of a job, each checked against its pattern."""
    if len(words) != len(patterns):
        raise ValueError(f"{len(patterns)} arguments are needed")
    for word, pattern in zip(words, patterns, strict=True):
        if not re.fullmatch(pattern, word):
            raise ValueError(f"{word!r} is not {pattern}")
    return words
