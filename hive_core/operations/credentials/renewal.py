"""Effects of a new value of a credential, and of its removal."""

from __future__ import annotations

from typing import Final

from hive_core.broker.call import Call
from hive_core.ledger.questions.storage import QuestionEnd
from hive_core.model.agents.credential import LabelChange, StoredCredential
from hive_core.operations.notices import send_notice
from hive_core.operations.questions.transitions import end_question

# A session puts the present credentials into the turn that runs; it begins none for this.
CREDENTIALS: Final = "credentials"


def renew_credential(call: Call, agent: str, key: str, change: LabelChange) -> None:
    """Store the label of a new value, answer the question about the old one, tell the session."""
    known = call.ledger.credentials.of_agent(agent).get(key) or StoredCredential(key)
    call.ledger.credentials.set_label(agent, key, change.apply(known.label))
    expired = known.expired
    question = call.ledger.questions.get(expired.question) if expired is not None else None
    if question is not None and question.open:
        keep_until = call.now + call.settings.talk.kept
        answers = (f"the credential {key} has a new value",)
        end_question(call, question, QuestionEnd("answer", keep_until, answers, call.uuid))
    tell_session(call, agent, f"the credential {key} was set")


def forget_credential(call: Call, agent: str, key: str) -> None:
    """Forget what was reported of a value that was removed, and tell the session.

    The label stays: it says which tools are without a credential now.
    """
    call.ledger.credentials.clear_report(agent, key)
    tell_session(call, agent, f"the credential {key} was removed")


def tell_session(call: Call, agent: str, why: str) -> None:
    """Have the session of an agent, where it has one, read its credentials again."""
    name = call.hive.names[agent]
    if call.hive.spec(name).runtime is not None:
        send_notice(call, call.hive, name, CREDENTIALS, why)
