"""The files of one sub-agent: its workspace, the log that it begins with, and its result.

The workspace belongs to the sub-agent. What passes between it and its parent lies beside it, in a
folder of the parent's own, so that no link of the sub-agent leads the parent elsewhere.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hive_core.agent.task_run import mapping
from hive_core.errors import Internal, InvalidArgument
from hive_core.varlink import Message

FOLDER: Final = "sub"
RESULT_MOST: Final = 8 << 20
SUCCESS, ERROR = "success", "error"
_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class SubagentFolder:
    """`uid` None: the sub-agent runs as its parent does.

    `reader`: the group of its parent's tools, which may read its workspace; other sub-agents may
    not.
    """

    state: Path
    id: str
    uid: int | None
    reader: int | None = None

    @property
    def workspace(self) -> Path:
        return self.state / FOLDER / self.id

    @property
    def files(self) -> Path:
        """The folder of what passes between the two."""
        return self.state / FOLDER / f"{self.id}.files"

    @property
    def hydration(self) -> Path:
        return self.files / "log"

    @property
    def result(self) -> Path:
        return self.files / "result"

    def make(self, hydration: bytes) -> None:
        """Make the files of a new sub-agent, which begins with this log."""
        if not self.id.isalnum():
            raise InvalidArgument(f"{self.id[:64]!r} is not the id of a sub-agent", field="id")
        self.workspace.parent.mkdir(mode=0o711, exist_ok=True)
        self.files.mkdir(mode=0o711)
        self.workspace.mkdir(mode=0o750)
        self.hydration.write_bytes(hydration)
        self.result.touch(mode=0o600)
        self.hydration.chmod(0o400)
        if self.uid is not None:
            for place in (self.hydration, self.result):
                os.chown(place, self.uid, self.uid)
            os.chown(self.workspace, self.uid, self.uid if self.reader is None else self.reader)

    def read_result(self) -> Message:
        """The result that the sub-agent wrote; Internal when there is none."""
        try:
            file = os.open(self.result, _FLAGS)
        except OSError as error:
            raise Internal(f"the sub-agent left no result file: {error.strerror}") from None
        with os.fdopen(file, "rb") as data:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise Internal("the result of the sub-agent is not a regular file")
            text = data.read(RESULT_MOST + 1)
        try:
            result = json.loads(text) if len(text) <= RESULT_MOST else None
        except (ValueError, RecursionError):
            result = None
        if not isinstance(result, dict) or result.get("status") not in (SUCCESS, ERROR):
            raise Internal("the sub-agent exited without writing a result")
        return result

    def remove(self) -> None:
        """Remove everything of the sub-agent."""
        for place in (self.workspace, self.files):
            shutil.rmtree(place, ignore_errors=True)


def remove_all(folder: Path) -> None:
    """Remove everything of all sub-agents."""
    for place in folder.iterdir():
        shutil.rmtree(place, ignore_errors=True)


def write_result(file: Path, result: Mapping[str, object]) -> None:
    """Write the result over the empty file that the parent made."""
    data = json.dumps(result, ensure_ascii=False).encode(errors="replace")
    with file.open("wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())


def result_of(
    *, status: str, content: str, error: str, metadata: Mapping[str, object]
) -> dict[str, object]:
    """A result in the form of the result file and of the tool (Z8)."""
    return {"status": status, "content": content, "error": error or None, "metadata": metadata}


def checked_result(result: Message, agent: str) -> dict[str, object]:
    """What a sub-agent wrote, with no more than the fields that a result has."""
    said, used = (
        mapping(result.get("metadata")),
        mapping(mapping(result.get("metadata")).get("usage")),
    )
    cost = said.get("cost")
    metadata: dict[str, object] = {
        "agent": agent, "model": str(said.get("model") or ""),
        "provider": str(said.get("provider") or ""), "latency_ms": _figure(said.get("latency_ms")),
        "usage": {key: _figure(used.get(key)) for key in ("input_tokens", "output_tokens")},
        **({"cost": cost} if isinstance(cost, float) and cost >= 0 else {}),
    }  # fmt: skip
    return result_of(
        status=str(result["status"]), content=str(result.get("content") or ""),
        error=str(result.get("error") or ""), metadata=metadata,
    )  # fmt: skip


def _figure(value: object) -> int:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if is_number and 0 <= value < 1 << 53 else 0  # type: ignore[operator,call-overload]
