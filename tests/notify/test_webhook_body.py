"""The body of a webhook: where its item is decided, and the table of its fields in the guide."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, Literal

from each import for_each

from hive_core.model.config.notify import NotifyRoute
from hive_core.notify.items import NoticeItem
from hive_core.notify.notices import Notice, RouteState, decide_notices
from hive_core.notify.senders import ntfy_message
from hive_core.notify.webhook_body import WebhookBody, WebhookItem, webhook_body

Text = Literal["none", "title", "full"]
GUIDE: Final = Path(__file__).parents[2] / "docs/guide/notifications.md"
DASHBOARD: Final = "https://hive.example"
QUESTION: Final = NoticeItem("question:q/1", "question", "needs-input", "ann", "why?", "q/1")


def notices(text: Text, *waiting: NoticeItem, before: RouteState) -> list[Notice]:
    route = NotifyRoute(type="webhook", url="https://x.example", text=text)
    made, _ = decide_notices(route, before, waiting, 1000.0)
    return made


def data_of(notice: Notice, dashboard: str = DASHBOARD) -> dict[str, Any]:
    data = json.loads(webhook_body(notice, 1000.0, dashboard))["data"]
    assert isinstance(data, dict)
    return data


@for_each(
    "text, place",
    [("none", ""), ("title", "/questions/q%2F1"), ("full", "/questions/q%2F1")],
)
def test_a_webhook_has_the_address_that_a_tap_on_a_phone_opens(text: Text, place: str) -> None:
    (notice,) = notices(text, QUESTION, before=RouteState())
    assert data_of(notice)["url"] == f"{DASHBOARD}{place}"
    assert ntfy_message("t", notice, DASHBOARD)["click"] == f"{DASHBOARD}{place}"
    assert data_of(notice, "")["url"] == ""


def test_what_is_settled_is_decided_nowhere() -> None:
    route = NotifyRoute(type="webhook", url="https://x.example")
    _, after = decide_notices(route, RouteState(), [QUESTION], 900.0)
    (notice,) = notices("title", before=after)
    assert (notice.kind, data_of(notice)["url"]) == ("settled", "")
    assert "click" not in ntfy_message("t", notice, DASHBOARD)


def test_the_guide_has_each_field_with_its_description() -> None:
    fields = [*WebhookBody.model_fields.items()]
    fields += [(f"data.{name}", field) for name, field in WebhookItem.model_fields.items()]
    names = {"data.notice_class": "data.class"}
    rows = [f"| `{names.get(name, name)}` | {field.description} |" for name, field in fields]
    assert [row for row in rows if row not in GUIDE.read_text()] == []
    (notice,) = notices("full", QUESTION, before=RouteState())
    whole = json.loads(webhook_body(notice, 1000.0, DASHBOARD))
    assert {*whole, *(f"data.{name}" for name in whole["data"])} == {
        names.get(name, name) for name, _ in fields
    }
