"""The credentials of agents: which they have, and that one has expired (rows Q35, Q36).

A credential is a secret of the agent. Its value is never returned; what is shown says what an agent
is connected to, and not whether the provider still accepts it.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.operation import Mutation, Params, Result, operation
from hive_core.errors import InvalidArgument, NotAllowed, NotFound
from hive_core.model.agents.credential import (
    CredentialLabel,
    ExpiredReport,
    StoredCredential,
    secret_keys,
)
from hive_core.model.wire.record import OPERATOR as OPERATOR_NAME
from hive_core.model.work.question import QuestionItem
from hive_core.operations.agents.secrets import Key
from hive_core.operations.credentials.renewal import tell_session
from hive_core.operations.fields import Agent, bounded_text
from hive_core.operations.questions.operations import Id, check_request, park_task
from hive_core.operations.questions.transitions import QuestionRequest, put_question
from hive_core.policy.rules import ANCESTOR, OPERATOR, SELF


class ListCredentialsParams(Params):
    agent: Agent | None = Field(None, description="The agent; default: the caller.")


class CredentialRow(Result):
    key: str = Field(description="Name of the credential.")
    stored: bool = Field(description="Whether the operator has set a value.")
    readable: bool = Field(description="Whether the agent holds the capability for it.")
    provider: str = Field(description="Service that accepts it; empty: not stated.")
    alias: str = Field(description="Short name of the account; empty: not stated.")
    identity: str = Field(description="The account itself; empty: not stated.")
    tools: list[str] = Field(description="Tools that use it.")
    expired: str = Field(
        description="What the agent reported of its expiry since the value was set; untrusted text."
    )


class CredentialRows(Result):
    credentials: list[CredentialRow] = Field(description="By key, without their values.")


class ReportExpiredCredentialParams(Mutation):
    key: Key
    message: Annotated[str, Field(min_length=1), bounded_text(1000)] = Field(
        description="What the provider or the tool answered, without the value."
    )
    reauth_url: Annotated[str, Field(max_length=1000, pattern=r"^(https://[!-~]+)?$")] = Field(
        "", description="Address where it can be renewed, if the answer names one."
    )
    task: Id | None = Field(
        None, description="Task of the caller that cannot continue without the credential."
    )


class ExpiredCredential(Result):
    error: Literal["credential_expired"] = Field(description="Always `credential_expired`.")
    credential_id: str = Field(description="Name of the credential.")
    message: str = Field(description="The message of this report.")
    provider: str = Field(description="Service that accepts it; empty: not stated.")
    alias: str = Field(description="Short name of the account; empty: not stated.")
    reauth_url: str = Field(description="Address where it can be renewed; empty: not stated.")
    question: str = Field(description="The question; its answer comes as mail.")


@operation(action="read", allow=SELF | ANCESTOR | OPERATOR, target="agent", preposition="of")
def list_credentials(call: Call, params: ListCredentialsParams) -> CredentialRows:
    """List the credentials of an agent by name: which are stored, and which it may read."""
    if params.agent is None and call.by_operator:
        raise InvalidArgument("the operator has no credentials: name an agent", field="agent")
    spec = call.hive.spec(params.agent or call.caller)
    stored, known = set(call.vault.keys(spec.id)), call.ledger.credentials.of_agent(spec.id)
    held = secret_keys(spec.capabilities)
    return CredentialRows(credentials=[
        _row(known.get(key, StoredCredential(key)), stored=key in stored, readable=key in held)
        for key in sorted(stored | held)
    ])  # fmt: skip


@operation(action="escalate", allow=SELF)
def report_expired_credential(
    call: Call, params: ReportExpiredCredentialParams
) -> Record[ExpiredCredential]:
    """Report that a provider refuses a credential; the daemon asks the operator to renew it.

    While the question is open, another report returns the same question. The answer comes as mail
    of kind `answer`, when the operator sets a new value or answers otherwise. Do not retry before
    that.
    """
    if call.by_operator:
        raise NotAllowed("cannot report: the operator has no credentials", rule="self")
    spec = call.hive.spec(call.caller)
    if params.key not in secret_keys(spec.capabilities):
        raise NotFound(f"no credential {params.key} of yours: you lack secret:{params.key}")
    known = call.ledger.credentials.of_agent(spec.id).get(params.key, StoredCredential(params.key))
    question = _open_question(call, known) or _ask_for_renewal(call, params, known.label)
    result = ExpiredCredential(
        error="credential_expired", credential_id=params.key, message=params.message,
        provider=known.label.provider, alias=known.label.alias, reauth_url=params.reauth_url,
        question=question,
    )  # fmt: skip
    return Record(result, fields={"key": params.key, "question": question})


def _row(known: StoredCredential, *, stored: bool, readable: bool) -> CredentialRow:
    label, expired = known.label, known.expired
    return CredentialRow(
        key=known.key, stored=stored, readable=readable, provider=label.provider, alias=label.alias,
        identity=label.identity, tools=list(label.tools),
        expired=expired.message if expired else "",
    )  # fmt: skip


def _open_question(call: Call, known: StoredCredential) -> str:
    """The question about the present value that is still open; else empty."""
    if known.expired is None:
        return ""
    question = call.ledger.questions.get(known.expired.question)
    return question.id if question is not None and question.open else ""


def _ask_for_renewal(
    call: Call, params: ReportExpiredCredentialParams, label: CredentialLabel
) -> str:
    account = " ".join(filter(None, (label.provider, label.alias, label.identity)))
    prompt = (
        f"The credential {params.key}{f' ({account})' if account else ''} of {call.caller} has"
        f" expired. Renew it, then: hive secret set {call.caller} {params.key}"
    )
    message = call.ledger.events.masks.hide(params.message)
    context = "\n".join(filter(None, (message, params.reauth_url)))
    items = (QuestionItem(prompt),)
    check_request(call, items, None, params.task or "")
    request = QuestionRequest(items, context, task=params.task or "")
    question = put_question(call, call.uuid, OPERATOR_NAME, request)
    park_task(call, question)
    report = ExpiredReport(message, params.reauth_url, question.id)
    call.ledger.credentials.set_expired(call.uuid, params.key, report)
    tell_session(call, call.uuid, f"the credential {params.key} has expired")
    return question.id
