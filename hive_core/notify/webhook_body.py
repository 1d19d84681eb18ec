"""The JSON that a webhook gets of one notice. The guide has a table of these fields."""

from __future__ import annotations

import time

from pydantic import BaseModel, ConfigDict, Field

from hive_core.notify.notices import Notice, NoticeLink, item_address, sequence_id


class WebhookItem(BaseModel):
    """What the notice says."""

    model_config = ConfigDict(frozen=True)

    item: str = Field(description="the same for all notices of one item, and says nothing else")
    notice_class: str = Field(serialization_alias="class", description="class of the route")
    title: str = Field(description="one line")
    text: str = Field(
        description="the subject, where the route has `full`; of a settled item, who settled it"
    )
    url: str = Field(
        description="address of the item on the dashboard; empty where it is settled; the first"
        " page where the route has `none`, and of a digest"
    )
    links: tuple[NoticeLink, ...] = Field(description="`label` and `url` of each link")


class WebhookBody(BaseModel):
    """The whole body."""

    model_config = ConfigDict(frozen=True)

    type: str = Field(
        description="`notice.new`, `notice.reminder`, `notice.settled` or `notice.digest`"
    )
    timestamp: str = Field(description="when the notice was made, in UTC")
    data: WebhookItem = Field(description="what the notice says")


def webhook_body(notice: Notice, created: float, dashboard: str) -> bytes:
    """The JSON of a notice that was made at `created`; `dashboard`: where its first page is."""
    body = WebhookBody(
        type=f"notice.{notice.kind}",
        timestamp=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(created)),
        data=WebhookItem(
            item=sequence_id(notice.key), notice_class=notice.notice_class, title=notice.title,
            text=notice.body, url=item_address(notice, dashboard), links=notice.links,
        ),
    )  # fmt: skip
    return body.model_dump_json(by_alias=True).encode()
