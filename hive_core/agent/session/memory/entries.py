"""Memories of an agent: artifacts `memory/SCOPE/KIND/NAME`, each a small text.

The name says what the memory is about, so that one is chosen without reading all. Who may read,
write and delete them is decided by the broker, as with every artifact.
"""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from hive_core.agent.prompt_text import escape_tags
from hive_core.agent.reconnect import Link
from hive_core.agent.session.memory.settings import MemorySettings
from hive_core.agent.session.services import SessionServices
from hive_core.agent.task_run import mapping

OWN, GLOBAL = "own", "global"
SCOPES: Final = (OWN, GLOBAL)
KINDS: Final = ("profile", "preference", "environment", "feedback")
TEXT_MOST: Final = 4096
# Agents of the same root read those of the scope `global`; the others are private.
_VISIBILITIES: Final[Mapping[str, str]] = {OWN: "private", GLOBAL: "user"}
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?", re.ASCII)
_PAGES: Final = 8
_FRESH: Final = 48 * 3600.0
_DAY: Final = 86_400


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    """One memory. `id` is that of its artifact; `written`: seconds since 1970."""

    scope: str
    kind: str
    name: str
    id: str = ""
    written: float = 0.0

    @property
    def path(self) -> str:
        """How a model names it."""
        return f"{self.scope}/{self.kind}/{self.name}"

    @property
    def artifact(self) -> str:
        """The name of its artifact."""
        return f"memory/{self.path}"

    def age(self, now: float) -> str:
        """Its age, if it is old enough that it may be outdated."""
        seconds = now - self.written
        return f"{int(seconds // _DAY)} days" if seconds > _FRESH else ""

    def render(self, text: str, now: float) -> str:
        """What the model reads of it."""
        age = f' age="{self.age(now)}"' if self.age(now) else ""
        head = f'scope="{self.scope}" kind="{self.kind}" name="{self.name}"{age}'
        return f"<memory {head}>\n{escape_tags(text.strip())}\n</memory>"


def parse_path(path: object) -> MemoryEntry | None:
    """The entry that `SCOPE/KIND/NAME` names; None where it can be none."""
    parts = path.split("/") if isinstance(path, str) else []
    match parts:
        case [scope, kind, name] if scope in SCOPES and kind in KINDS and _NAME.fullmatch(name):
            return MemoryEntry(scope, kind, name)
        case _:
            return None


@dataclass(frozen=True, slots=True)
class MemoryStore:
    """The memories that an agent may read, and its own, which it writes."""

    services: SessionServices
    link: Link
    settings: MemorySettings

    @property
    def written_scopes(self) -> tuple[str, ...]:
        """The scopes that this agent writes."""
        return SCOPES if self.settings.global_of == self.services.name else (OWN,)

    def entries(self, scope: str) -> list[MemoryEntry]:
        """The newest memories of a scope, the newest first."""
        owner = self.services.name if scope == OWN else self.settings.global_of
        rows = sorted(self._rows(owner, scope), key=lambda entry: -entry.written) if owner else []
        return rows[: self.settings.entries]

    def read(self, entry: MemoryEntry) -> str:
        """The text of a memory; empty where it is gone."""
        reply = self.services.try_ask(self.link, "get_artifact", id=entry.id)
        data = base64.b64decode(str(reply.get("data") or ""))
        return data[:TEXT_MOST].decode(errors="replace")

    def write(self, entry: MemoryEntry, text: str, key: str) -> bool:
        """Store a memory, in the place of one with the same name; False where it was refused."""
        return bool(self.services.try_ask(
            self.link, "store_artifact", name=entry.artifact, text=text, type="text/markdown",
            visibility=_VISIBILITIES[entry.scope], idempotency_key=key[:128],
        ))  # fmt: skip

    def delete(self, entry: MemoryEntry, key: str) -> bool:
        """Delete a memory with all its versions; False where it was refused."""
        return bool(self.services.try_ask(
            self.link, "delete_artifact", id=entry.id, all=True, idempotency_key=key[:128]
        ))  # fmt: skip

    def _rows(self, owner: str, scope: str) -> Iterator[MemoryEntry]:
        after: object = None
        for _ in range(_PAGES):
            reply = self.services.try_ask(
                self.link, "list_artifacts", author=owner, prefix=f"memory/{scope}/", after=after
            )
            rows = reply.get("artifacts")
            for row in map(mapping, rows if isinstance(rows, list) else []):
                entry = parse_path(str(row.get("name")).removeprefix("memory/"))
                if entry is not None:
                    yield _with_artifact(entry, row)
            after = reply.get("next")
            if after is None:
                return


def _with_artifact(entry: MemoryEntry, row: Mapping[str, object]) -> MemoryEntry:
    created = row.get("created")
    written = float(created) if isinstance(created, int | float) else time.time()
    return MemoryEntry(entry.scope, entry.kind, entry.name, str(row.get("id")), written)
