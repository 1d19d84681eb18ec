"""Topics: a published message goes to the inboxes of all followers."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Annotated, Final

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.operation import Mutation, Params, Result, operation
from hive_core.errors import InboxFull, LimitReached
from hive_core.ledger.mail.letters import NewMessage
from hive_core.model.agents.agent import Role
from hive_core.model.agents.capability import covers
from hive_core.operations.mail.hops import InTurn, next_hops
from hive_core.operations.mail.inbox_quota import check_share
from hive_core.operations.mail.send import PRIORITY, Body, urgency
from hive_core.operations.notices import TOPIC, deliver
from hive_core.policy.decide import relation
from hive_core.policy.rules import SELF

Topic = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_./-]{0,63}$")]
_TASK: Final = Role.TASK


class FollowParams(Mutation):
    topic: Topic = Field(description="Name of the topic, the same for the whole hive.")


class Following(Result):
    topics: list[str] = Field(description="Topics that the caller follows now.")


class FollowedParams(Params):
    """Nothing."""


class PublishParams(InTurn):
    topic: Topic = Field(description="Name of the topic, the same for the whole hive.")
    body: Body = Field(description="Text, at most 64 KiB.")
    priority: int = Field(PRIORITY, ge=0, le=3, description="Priority, bounded as for `send`.")


class Published(Result):
    delivered: int = Field(description="Number of inboxes that got it.")
    missed: int = Field(
        description="Number of inboxes that had no room for a message of the caller."
    )


@operation(action="receive", allow=SELF, idempotent=True)
def follow_topic(call: Call, params: FollowParams) -> Record[Following]:
    """Follow a topic: messages published to it arrive as mail of kind `topic`."""
    follows, most = call.ledger.queues.follows, call.settings.queues.follows
    if len(follows.of(call.uuid)) >= most and params.topic not in follows.of(call.uuid):
        raise LimitReached(f"cannot follow {params.topic}: {call.caller} follows {most} topics")
    follows.follow(params.topic, call.uuid)
    return Record(Following(topics=follows.of(call.uuid)))


@operation(action="receive", allow=SELF, idempotent=True)
def unfollow_topic(call: Call, params: FollowParams) -> Record[Following]:
    """Stop following a topic."""
    call.ledger.queues.follows.unfollow(params.topic, call.uuid)
    return Record(Following(topics=call.ledger.queues.follows.of(call.uuid)))


@operation(action="read", allow=SELF)
def list_topics(call: Call, _params: FollowedParams) -> Following:
    """List the topics that the caller follows."""
    return Following(topics=call.ledger.queues.follows.of(call.uuid))


@operation(action="send", allow=SELF)
def publish(call: Call, params: PublishParams) -> Record[Published]:
    """Publish to all followers of a topic below the caller; with `broadcast`, to all followers.

    An agent of role `task` reaches at most its parent. A full inbox does not get the message, and
    the others do not wait for it.
    """
    reached = _reached_followers(call, params.topic)
    most = call.settings.queues.followers
    if len(reached) > most:
        raise LimitReached(f"cannot publish {params.topic}: more than {most} agents follow it")
    hops = next_hops(call, f"publish {params.topic}", params.in_turn_of)
    delivered = 0
    for name in reached:
        with suppress(InboxFull, LimitReached):
            _deliver(call, params, name, hops)
            delivered += 1
    return Record(Published(delivered=delivered, missed=len(reached) - delivered))


def _reached_followers(call: Call, topic: str) -> list[str]:
    """Followers that the caller may write to, without the caller itself."""
    names = map(call.hive.name, call.ledger.queues.follows.followers(topic))
    following = {name for name in names if name is not None} - {call.caller}
    if call.by_operator:
        return sorted(following)
    spec, tree = call.hive.spec(call.caller), call.hive.topology
    wide = covers(spec.capabilities, "broadcast")
    if spec.role is _TASK:
        return sorted(following & {tree.parent(call.caller) or ""}) if wide else []
    return sorted(following if wide else following.intersection(tree.subtree(call.caller)))


def _deliver(call: Call, params: PublishParams, name: str, hops: int) -> None:
    recipient = call.hive.spec(name).id
    standing = relation(call.hive, call.caller, name)
    if not call.by_operator and call.ledger.sends.take((call.uuid, recipient), call.now) > 0:
        raise LimitReached(f"cannot send to {name}: too many messages")
    check_share(call, recipient, name)
    body = f"{json.dumps({'topic': params.topic})}\n{params.body}"
    letter = NewMessage(
        sender=call.uuid, sender_name=call.caller, recipient=recipient, recipient_name=name,
        relation=standing, body=body, kind=TOPIC, priority=urgency(params.priority, standing),
        hops=hops,
    )  # fmt: skip
    deliver(call, letter)
