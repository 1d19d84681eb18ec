"""The operator's own prompts, for the sessions of agents."""

from __future__ import annotations

from pydantic import Field

from hive_core.broker.call import Call
from hive_core.broker.operation import Params, Result, operation
from hive_core.policy.rules import SELF


class GetPromptsParams(Params):
    """No parameters: all agents of a host have the same prompts of the operator."""


class OperatorPrompts(Result):
    files: dict[str, str] = Field(
        description="Texts of the files in /etc/hive/prompts, by name, such as `roles/worker.md`."
    )


@operation(action="read", allow=SELF)
def get_prompts(call: Call, _params: GetPromptsParams) -> OperatorPrompts:
    """Show the operator's prompts, which replace the shipped ones of the same name.

    The session of an agent makes its system prompt from them, at the beginning of a conversation.
    """
    return OperatorPrompts(files=dict(call.prompts))
