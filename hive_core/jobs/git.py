"""Runs git on untrusted repositories: own settings only, no network, no hooks, with limits.

Programs that a repository's own configuration could start are disabled where git allows it; the
others can do harm only in this container. https://git-scm.com/docs/git#_environment_variables
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Final

from hive_core.jobs.outcome import JobRefused

OID: Final = re.compile(r"[0-9a-f]{40}", re.ASCII)
_LOOK: Final = 0.02  # seconds between checks of a running git
_AT_ONCE: Final = 500  # names in a pipe, which takes 64 KiB
_HEAD: Final = re.compile(rb"([0-9a-f]{40}) ([a-z]+) ([0-9]+)\n")
_SAID_MOST: Final = 2000
# Messages that git treats as information, see https://git-scm.com/docs/git-fsck; its warnings are
# errors under --strict.
FATAL: Final = ("badFilemode", "gitmodulesParse", "gitattributesSymlink", "gitignoreSymlink")


@dataclass(frozen=True, slots=True)
class Git:
    """A fresh bare repository; `config` beside it is the only configuration that git reads."""

    folder: Path

    @property
    def config(self) -> Path:
        return self.folder.with_name(self.folder.name + ".config")

    @property
    def pack(self) -> Path:
        return self.folder / "objects/pack"

    def make(self, settings: Iterable[str]) -> None:
        self.config.write_text("\n".join(settings) + "\n", encoding="utf-8")
        self.run("init", "--quiet", "--bare", "--template=", str(self.folder))

    def run(
        self,
        *words: str,
        source: IO[bytes] | None = None,
        watch: Callable[[], None] | None = None,
    ) -> str:
        """Run git and return its output; JobRefused with git's message if it fails.

        `watch` is called at intervals and may stop it.
        """
        with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as said:
            place = source or subprocess.DEVNULL
            with self._start(words, place, printed, said) as process:
                while watch is not None and _exit_status(process) is None:
                    watch()
                status = process.wait()
                if watch is not None:
                    watch()
            if status:
                raise JobRefused("git", f"git {words[0]}: {_why(status, said)}")
            printed.seek(0)
            return printed.read().decode("utf-8", "surrogateescape")

    def contents(self, oids: Iterable[str], most: int) -> Iterator[tuple[str, str, bytes]]:
        """Name, kind and content of objects, in order; JobRefused for one larger than `most`."""
        pipe = subprocess.PIPE
        with self._start(("cat-file", "--batch"), pipe, pipe, subprocess.DEVNULL) as process:
            assert process.stdin is not None  # noqa: S101 - pipes were asked for
            assert process.stdout is not None  # noqa: S101
            names = iter(oids)
            while some := list(islice(names, _AT_ONCE)):
                process.stdin.write("".join(f"{oid}\n" for oid in some).encode())
                process.stdin.flush()
                for oid in some:
                    yield oid, *_content(process.stdout, oid, most)

    @contextmanager
    def _start(
        self, words: Iterable[str], source: IO[bytes] | int, out: IO[bytes] | int,
        said: IO[bytes] | int,
    ) -> Iterator[subprocess.Popen[bytes]]:  # fmt: skip
        """Start git in its own process group, which is killed at the end of the block."""
        process = subprocess.Popen(
            ["git", f"--git-dir={self.folder}", *words], stdin=source, stdout=out, stderr=said,
            env=self._environment, cwd="/", start_new_session=True,
        )  # fmt: skip
        with process:
            try:
                yield process
            finally:
                _kill(process)

    @property
    def _environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", os.defpath), "HOME": "/nonexistent", "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": str(self.config),
            "GIT_ATTR_NOSYSTEM": "1", "GIT_NO_REPLACE_OBJECTS": "1", "GIT_NO_LAZY_FETCH": "1",
            "GIT_ALLOW_PROTOCOL": "file", "GIT_TERMINAL_PROMPT": "0",
        }  # fmt: skip


def severities(key: str) -> list[str]:
    """Settings that make every message of `key`.fsck an error."""
    return [
        f"[{key}]",
        "\tfsckObjects = true",
        f'[{key} "fsck"]',
        *(f"\t{it} = error" for it in FATAL),
    ]


def _exit_status(process: subprocess.Popen[bytes]) -> int | None:
    with suppress(subprocess.TimeoutExpired):
        return process.wait(_LOOK)
    return None


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _content(stream: IO[bytes], oid: str, most: int) -> tuple[str, bytes]:
    header = _HEAD.fullmatch(stream.readline())
    if header is None:
        raise JobRefused("whole", f"the object {oid} is missing or cannot be read")
    size = int(header[3])
    if size > most:
        raise JobRefused("blob", f"the object {oid} is larger than {most} bytes")
    data = stream.read(size + 1)
    if len(data) != size + 1:
        raise JobRefused("whole", f"the object {oid} cannot be read")
    return header[2].decode(), data[:-1]


def _why(status: int, said: IO[bytes]) -> str:
    """The error messages of git, without the advice after them."""
    said.seek(max(0, os.fstat(said.fileno()).st_size - _SAID_MOST))
    lines = said.read().decode("utf-8", "replace").splitlines()
    wrong = [line for line in lines if line.startswith(("fatal:", "error:"))] or lines[-1:]
    how = f"ended with {status}" if status > 0 else f"ended by {signal.Signals(-status).name}"
    return "; ".join(wrong[:3]) or how
