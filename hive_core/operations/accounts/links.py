"""Links of notifications: whoever has one may say no, stop something, or give an offered answer.

A notification can be read on the way, so that no link ever says yes to a commit or a plan. Each is
for one call, about one thing in the state that it had when the link was offered.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, Literal, get_args

from pydantic import Field, SecretStr

from hive_core.broker.call import Call, Record
from hive_core.broker.delegation import call_as, parse_params
from hive_core.broker.login_rule import ANY_LOGIN, LoginRule
from hive_core.broker.operation import Confidential, Params, Result, operation
from hive_core.errors import Conflict, InvalidArgument, NotFound
from hive_core.ledger.accounts.links import OfferedLink
from hive_core.model.operator.account import Scope, digest_of
from hive_core.model.wire.record import OPERATOR as THE_OPERATOR
from hive_core.model.work.planning import PlanState
from hive_core.operations.accounts.logins import own_login, seat_of
from hive_core.policy.rules import OPERATOR

LINK_SECONDS: Final = 86_400.0
LinkOperation = Literal["answer", "cancel_task", "deny", "reject_plan", "stop"]
OPERATIONS: Final[tuple[str, ...]] = get_args(LinkOperation)


class LinkRequest(Params):
    operation: LinkOperation = Field(description="What the link does.")
    parameters: dict[str, Any] = Field(description="The parameters of that call.")
    label: str = Field("", max_length=80, description="What the button says.")


class OfferLinksParams(Confidential):
    links: list[LinkRequest] = Field(
        min_length=1, max_length=10, description="The links, as many as a notification has."
    )


class LinkAddress(Result):
    label: str = Field(description="What the button says.")
    url: str = Field(description="Address: GET shows what it does, POST does it, once.")


class OfferedLinks(Result):
    links: list[LinkAddress] = Field(description="The links, in their order.")
    expires: float = Field(description="When they end, in seconds since 1970.")


class ShowLinkParams(Params):
    secret: SecretStr = Field(max_length=128, description="The secret of the link.")


class UseLinkParams(Confidential):
    secret: SecretStr = Field(max_length=128, description="The secret of the link.")


class ShownLink(Result):
    operation: str = Field(description="What the link does.")
    subject: str = Field(description="The agent, task, question or approval that it is about.")
    label: str = Field(description="What the button says.")
    answers: list[str] = Field(description="The answers that it gives; untrusted text.")
    recursive: bool = Field(description="Whether it is about all agents below the agent, too.")
    is_current: bool = Field(description="Whether it can still be used.")
    expires: float = Field(description="When it ends, in seconds since 1970.")


class UsedLink(Result):
    operation: str = Field(description="What was done.")
    subject: str = Field(description="The agent, task, question or approval that it is about.")


@operation(action="administer", allow=OPERATOR, login=LoginRule(scope=Scope.NOTIFIER))
def offer_links(call: Call, params: OfferLinksParams) -> Record[OfferedLinks]:
    """Make links for a notification: each does one thing once, within 24 hours, without a login.

    They deny, reject, stop, cancel, or give an answer that the question offers. A link is void once
    the thing has another state.
    """
    account, expires = own_login(call).account, call.now + LINK_SECONDS
    addresses = [_offer(call, account, wanted, expires) for wanted in params.links]
    fields = {"links": [wanted.operation for wanted in params.links]}
    return Record(OfferedLinks(links=addresses, expires=expires), fields=fields)


def _offer(call: Call, account: str, wanted: LinkRequest, expires: float) -> LinkAddress:
    parse_params(wanted.operation, wanted.parameters)  # a link that fails later is used up
    state = _state_of(call, wanted.operation, wanted.parameters)
    if state is None:
        reason = f"{wanted.operation} has nothing to act on, or no such answer is offered"
        raise InvalidArgument(reason, field="links")
    secret = f"no_{secrets.token_urlsafe(32)}"
    text = json.dumps(wanted.parameters, sort_keys=True)
    link = OfferedLink(
        digest_of(secret), account, wanted.operation, text, wanted.label, state, expires
    )
    call.ledger.offered_links.add(link, call.now)
    url = f"{call.settings.web.origins[-1]}/link/{secret}"
    return LinkAddress(label=wanted.label, url=url)


@operation(action="administer", allow=OPERATOR, login=ANY_LOGIN)
def show_link(call: Call, params: ShowLinkParams) -> ShownLink:
    """Show what a link of a notification does. It does nothing yet."""
    link = _find_link(call, params.secret)
    parameters = json.loads(link.parameters)
    return ShownLink(
        operation=link.operation, subject=_subject(link), label=link.label,
        answers=list(map(str, parameters.get("answers", []))),
        recursive=parameters.get("recursive") is True,
        is_current=_is_current(call, link), expires=link.expires,
    )  # fmt: skip


@operation(action="administer", allow=OPERATOR, login=ANY_LOGIN)
def use_link(call: Call, params: UseLinkParams) -> Record[UsedLink]:
    """Do what a link of a notification says, once, if the thing still has the same state."""
    link = _find_link(call, params.secret)
    cannot = f"cannot {link.operation.replace('_', ' ')} {_subject(link)} by a link"
    if not _is_current(call, link):
        raise Conflict(f"{cannot}: its state has changed since the link was sent")
    call.ledger.offered_links.delete(link.digest)
    holder = replace(call, seat=None, link_account=link.account)
    outcome = call_as(holder, THE_OPERATOR, link.operation, json.loads(link.parameters))
    if not isinstance(outcome, Record):
        raise Conflict(f"{cannot}: it has no effect")
    fields = {
        **outcome.fields, "did": link.operation, "about": _subject(link),
        "account": link.account, "via": "offered link",
    }  # fmt: skip
    return Record(UsedLink(operation=link.operation, subject=_subject(link)), fields=fields)


def _find_link(call: Call, secret: SecretStr) -> OfferedLink:
    seat_of(call)
    link = call.ledger.offered_links.get(digest_of(secret.get_secret_value()), call.now)
    account = call.ledger.accounts.get(link.account) if link is not None else None
    if link is None or account is None or Scope.NOTIFIER not in account.scopes:
        raise NotFound(
            "the link does not exist: it was used, has expired, or its account may offer none"
        )
    return link


def _subject(link: OfferedLink) -> str:
    """The name or id of what a link is about."""
    parameters = json.loads(link.parameters)
    return str(next(parameters[key] for key in _SUBJECTS if key in parameters))


def _is_current(call: Call, link: OfferedLink) -> bool:
    return _state_of(call, link.operation, json.loads(link.parameters)) == link.state


_SUBJECTS: Final = ("agent", "question", "task", "id")


def _state_of(call: Call, name: str, parameters: Mapping[str, Any]) -> str | None:
    """The digest of what such a call would be about now; None: it could do nothing."""
    state = _STATES[name](call, parameters)
    return None if state is None else hashlib.sha256(repr((name, state)).encode()).hexdigest()


def _state_of_approval(call: Call, parameters: Mapping[str, Any]) -> object:
    approval = call.ledger.approvals.get(str(parameters.get("id")))
    return (approval.id, approval.binding) if approval is not None and approval.open else None


def _state_of_plan(call: Call, parameters: Mapping[str, Any]) -> object:
    plan = call.ledger.plans.get(str(parameters.get("plan")))
    if plan is None or plan.state is not PlanState.SUBMITTED:
        return None
    return plan.id if plan.task == parameters.get("task") else None


def _state_of_task(call: Call, parameters: Mapping[str, Any]) -> object:
    """The task as it is: the link ends neither a later attempt nor work that was approved since."""
    task = call.ledger.tasks.get(str(parameters.get("task")))
    return (task.id, task.state, task.attempt) if task is not None and task.open else None


def _state_of_agent(call: Call, parameters: Mapping[str, Any]) -> object:
    """The agent, and this run of it: the link stops no later one."""
    spec = call.hive.specs.get(str(parameters.get("agent")))
    run = call.ledger.runs.get(spec.id) if spec is not None else None
    return (spec.id, run.nonce, run.wanted) if spec is not None and run is not None else None


def _state_of_question(call: Call, parameters: Mapping[str, Any]) -> object:
    """The question, if each answer is one that it offers."""
    question = call.ledger.questions.get(str(parameters.get("question")))
    answers = parameters.get("answers")
    if question is None or not question.open or not isinstance(answers, list):
        return None
    pairs = zip(answers, question.items, strict=False)
    are_offered = len(answers) == len(question.items) and all(
        answer in item.options for answer, item in pairs
    )
    return question.id if are_offered else None


_STATES: Final[Mapping[str, Callable[[Call, Mapping[str, Any]], object]]] = MappingProxyType({
    "answer": _state_of_question,
    "cancel_task": _state_of_task,
    "deny": _state_of_approval,
    "reject_plan": _state_of_plan,
    "stop": _state_of_agent,
})  # fmt: skip
