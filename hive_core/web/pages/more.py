"""Pages for triggers, artifacts, queues, models, archives and settings."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import quote

from starlette.responses import Response, StreamingResponse

from hive_core.errors import NotFound
from hive_core.varlink import Message
from hive_core.web.visit import Visit

Kind = Literal["word", "moment", "number", "size", "words", "value"]


@dataclass(frozen=True, slots=True)
class PageListing:
    """One listing of hived: `columns` are fields, their titles, and how they are written.

    The first column of each row leads to `link` with the `id` of the row.
    """

    name: str
    title: str
    operation: str
    rows: str
    columns: tuple[tuple[str, str, Kind], ...]
    empty: str
    parameters: Mapping[str, object] = field(default_factory=dict)
    link: str = ""


_PAGE: Final = {"limit": 100}
SECTIONS: Final = (
    PageListing(
        "triggers", "Triggers", "list_triggers", "triggers",
        (("name", "Name", "word"), ("agent", "Agent", "word"), ("explained", "When", "word"),
         ("next", "Next", "moment"), ("fires", "Fires", "number")),
        "No trigger exists. hive trigger set makes one.", _PAGE, "/more/triggers/",
    ),
    PageListing(
        "artifacts", "Artifacts", "list_artifacts", "artifacts",
        (("name", "Name", "word"), ("owner", "Owner", "word"), ("version", "Version", "number"),
         ("size", "Size", "size"), ("type", "Type", "word"),
         ("created", "Stored", "moment")),
        "No agent has stored an artifact.", _PAGE, "/more/artifacts/",
    ),
    PageListing(
        "queues", "Queues", "list_queues", "queues",
        (("queue", "Queue", "word"), ("things", "Items", "number"),
         ("limit", "At most", "number"), ("may_put", "Put by", "words"),
         ("may_take", "Taken by", "words")),
        "No queue exists.", _PAGE,
    ),
    PageListing(
        "models", "Models", "list_models", "models",
        (("alias", "Alias", "word"), ("provider", "Provider", "word"), ("name", "Model", "word"),
         ("context", "Context", "number"), ("price_in", "$/M in", "value"),
         ("price_out", "$/M out", "value"), ("fallback", "Fallback", "words")),
        "models.toml names no model.", _PAGE,
    ),
    PageListing(
        "definitions", "Definitions", "list_definitions", "definitions",
        (("name", "Name", "word"), ("role", "Role", "word"), ("description", "Description", "word"),
         ("set_at", "Set", "moment")),
        "No definition exists. hive definition set stores one.", _PAGE,
    ),
    PageListing(
        "roles", "Roles", "list_roles", "roles",
        (("role", "Role", "word"), ("behaviour", "Behaviour", "word"), ("tier", "Tier", "value"),
         ("lifetime", "Lifetime", "word"), ("creates", "May create", "words"),
         ("capabilities", "Capabilities", "words")),
        "No role exists.",
    ),
    PageListing(
        "archives", "Archives", "list_archives", "archives",
        (("name", "Name", "word"), ("parent", "Parent", "value"),
         ("destroyed_at", "Destroyed", "moment"), ("expires_at", "Deleted", "moment")),
        "No destroyed agent can be restored.", _PAGE,
    ),
    PageListing(
        "settings", "Settings", "get_settings", "settings",
        (("key", "Setting", "word"), ("value", "Value", "value"),
         ("default", "Default", "value")),
        "No setting exists.",
    ),
)  # fmt: skip
_FIRES: Final = PageListing(
    "fires", "Fires", "list_fires", "fires",
    (("at", "Fired", "moment"), ("state", "State", "word"), ("status", "Status", "word"),
     ("count", "Times", "number"), ("agent", "Agent", "word"), ("detail", "Detail", "word")),
    "The trigger has not fired.",
)  # fmt: skip


async def show_more(visit: Visit) -> Response:
    """One listing, with the others as tabs."""
    name = visit.parts.get("section", SECTIONS[0].name)
    section = next((section for section in SECTIONS if section.name == name), None)
    if section is None:
        raise NotFound(f"the dashboard has no listing {name!r}")
    after = visit.query.get("after") if section.parameters else None
    reply = await visit.try_read(section.operation, after=after, **section.parameters)
    return _page(visit, section, reply)


async def show_fires(visit: Visit) -> Response:
    """The last fires of a trigger."""
    reply = await visit.read("list_fires", trigger=visit.parts["id"], limit=100)
    return _page(visit, _FIRES, reply)


async def download(visit: Visit) -> Response:
    """The bytes of an artifact, as a file that no browser shows."""
    wanted: Message = {"id": visit.parts["id"]}
    first = await visit.login.connection.call("get_artifact", wanted)
    row = first.get("artifact")
    facts = row if isinstance(row, dict) else {}
    name = quote(str(facts.get("name")).rpartition("/")[2][:100], safe="")
    headers = {
        "content-disposition": f"attachment; filename*=UTF-8''{name}",
        "content-length": str(facts.get("size")),
    }
    return StreamingResponse(_parts(visit, wanted, first), 200, headers, "application/octet-stream")


async def _parts(visit: Visit, wanted: Message, first: Message) -> AsyncIterator[bytes]:
    part = first
    while True:
        yield base64.b64decode(str(part.get("data") or ""))
        if not part.get("next"):
            return
        part = await visit.login.connection.call("get_artifact", {**wanted, "after": part["next"]})


def _page(visit: Visit, section: PageListing, reply: Message) -> Response:
    rows = reply.get(section.rows)
    return visit.page(
        "more", section.title, section=section, sections=SECTIONS, reply=reply,
        rows=rows if isinstance(rows, list) else [], value=_value,
    )  # fmt: skip


def _value(value: object) -> str:
    """Any JSON value on one line; nothing for null."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)
