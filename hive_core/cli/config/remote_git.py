"""The caller's clone, accessed with the caller's git, for `git-remote-hive`."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from hive_core.errors import HiveError, Internal, InvalidArgument

TIPS_MOST: Final = 2000
_OID: Final = re.compile(r"[0-9a-f]{40}", re.ASCII)
_KEPT: Final = re.compile(r"keep\t([0-9a-f]{40})\s*", re.ASCII)
# Without these, settings of the clone could replace the content of an object.
_PLAIN: Final = {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_NO_LAZY_FETCH": "1"}


class Clone:
    """The clone that git names in GIT_DIR."""

    def tips(self) -> list[str]:
        """Commits that the clone has with all their history.

        The targets of refs, the newest first.
        """
        shape = "--format=%(objectname) %(*objectname)"
        rows = self._git("for-each-ref", "--sort=-creatordate", f"--count={TIPS_MOST}", shape)
        return [*dict.fromkeys(oid for oid in rows.split() if _OID.fullmatch(oid))][:TIPS_MOST]

    def oid(self, name: str) -> str:
        """The object that a name refers to."""
        try:
            output = self._git("rev-parse", "--verify", "--quiet", "--end-of-options", name)
        except Internal as error:
            raise InvalidArgument(f"{name} does not exist here") from error
        # Some versions of git repeat the option in what they print.
        return output.split()[-1]

    def pack(self, new: str, known: Iterable[str], *, tag: bool) -> bytes:
        """A pack with an object and those that it needs, without those that the daemon has.

        A tag is packed alone; empty when the object should be a tag and is not.
        """
        words = ["pack-objects", "--stdout", "-q", "--delta-base-offset"]
        if tag:
            is_tag = self._git("cat-file", "-t", new).strip() == "tag"
            return self._ask(words, f"{new}\n".encode()) if is_tag else b""
        here = [oid for oid in known if self._has(oid)]
        asked = "".join((f"{new}\n", *(f"^{oid}\n" for oid in here)))
        return self._ask([*words, "--revs"], asked.encode())

    def _has(self, oid: str) -> bool:
        command = ["git", "cat-file", "-e", oid]
        done = subprocess.run(command, check=False, capture_output=True, env=_environment())
        return not done.returncode

    def index(self, pack: Iterator[bytes], *, shows: bool) -> str:
        """Store a pack in the clone and check each object.

        Return the file that protects it from gc.
        """
        words = ["index-pack", "--stdin", "--strict", "--keep=git-remote-hive"]
        words += ["-v"] if shows else []
        process = subprocess.Popen(
            ["git", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_environment()
        )
        assert process.stdin is not None  # noqa: S101 - pipes were asked for
        assert process.stdout is not None  # noqa: S101
        with process:
            try:
                with suppress(BrokenPipeError):  # git itself prints what is wrong
                    for part in pack:
                        process.stdin.write(part)
                    process.stdin.close()
                said = process.stdout.read().decode("ascii", "replace")
            except (HiveError, ValueError):
                process.kill()
                raise
            with suppress(BrokenPipeError):
                process.stdin.close()
        if process.returncode:
            raise Internal("git refuses the objects that the daemon sent")
        keep_file = _KEPT.fullmatch(said)
        return str(self._packs() / f"pack-{keep_file[1]}.keep") if keep_file else ""

    def _packs(self) -> Path:
        return Path(self._git("rev-parse", "--git-path", "objects/pack").strip())

    def _git(self, *words: str) -> str:
        return self._ask([*words], b"").decode("utf-8", "surrogateescape")

    def _ask(self, words: list[str], data: bytes) -> bytes:
        done = subprocess.run(
            ["git", *words], input=data, capture_output=True, check=False, env=_environment()
        )
        if done.returncode:
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
            raise Internal(f"git {words[0]}: {lines[-1] if lines else done.returncode}")
        return done.stdout


def _environment() -> dict[str, str]:
    return {**os.environ, **_PLAIN}
