"""The second confirmation: hived names what to sign, and verifies the signature."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from starlette.responses import Response

from hive_core.errors import HiveError, InvalidArgument, LimitReached, NotAllowed
from hive_core.varlink import Message
from hive_core.web.commands import command_of
from hive_core.web.decision_sentence import decision_sentence
from hive_core.web.pages.login import assertion_of
from hive_core.web.visit import ConfirmationNeeded, Visit, own_address, redirect

# The read that says what the id of a call stands for, its parameter, and the part of the answer.
_READS: Final[Mapping[str, tuple[str, str, str, Message]]] = {
    "approve": ("get_approval", "id", "approval", {"limit": 1}),
    "approve_plan": ("get_task", "task", "task", {}),
    "answer": ("get_question", "question", "question", {}),
}


async def ask_confirmation(
    visit: Visit, needed: ConfirmationNeeded, before: str = "", status: int = 200
) -> Response:
    """The page with exactly what is confirmed, and the ways to confirm it that the account has.

    `before` says why the last try did not confirm it.
    """
    parameters: Message = {
        "operation": needed.operation, "parameters": needed.parameters,
        "origin": visit.request.origin,
    }  # fmt: skip
    try:
        begun, fault = await visit.login.connection.call("begin_confirmation", parameters), before
    except HiveError as error:
        begun, fault = {}, str(error)
    methods = begun.get("methods")
    facts = await _read_facts(visit, needed)
    values = [(key, json.dumps(value)) for key, value in sorted(needed.parameters.items())]
    return visit.page(
        "confirm", "Confirm", status, needed=needed, begun=begun, fault=fault, values=values,
        packed=json.dumps(needed.parameters), challenge=json.dumps(begun),
        methods=methods if isinstance(methods, list) else [],
        sentence=decision_sentence(needed.operation, needed.parameters, facts),
        command=command_of(needed.operation, needed.parameters),
    )  # fmt: skip


async def _read_facts(visit: Visit, needed: ConfirmationNeeded) -> Message:
    """What hived says of the id in the call: whose change, plan or question it is."""
    read = _READS.get(needed.operation)
    if read is None:
        return {}
    operation, id_, part, more = read
    reply = await visit.try_read(operation, **{id_: needed.parameters.get(id_), **more})
    row = reply.get(part)
    return row if isinstance(row, dict) else {}


async def confirm(visit: Visit) -> Response:
    """Complete a confirmation, and make the change that it is bound to."""
    form = visit.form
    try:
        parameters = json.loads(form.get("parameters", ""))
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"not parameters: {error}", field="parameters") from error
    if not isinstance(parameters, dict):
        raise InvalidArgument("not parameters", field="parameters")
    operation, back = form.get("operation", ""), own_address(form.get("back", "/"))
    try:
        await visit.login.connection.call("complete_confirmation", _answer(visit))
    except (NotAllowed, LimitReached) as error:
        needed = ConfirmationNeeded(operation, parameters, back)
        status = 429 if isinstance(error, LimitReached) else 403
        return await ask_confirmation(visit, needed, str(error), status)
    await visit.call(operation, parameters, back)
    return redirect(back)


def _answer(visit: Visit) -> Message:
    """What confirms it: what a passkey has signed, else a code."""
    answer: Message = {"nonce": visit.form.get("nonce", "")}
    if text := visit.form.get("assertion"):
        return {**answer, "assertion": assertion_of(text)}
    return {**answer, "code": visit.form.get("code", "").strip()}


async def show_passkey(visit: Visit) -> Response:
    """Offer to make a passkey, while the login by a link is new."""
    parameters: Message = {
        "operation": "add_passkey",
        "parameters": {},
        "origin": visit.request.origin,
    }
    try:
        begun, fault = await visit.login.connection.call("begin_confirmation", parameters), ""
    except HiveError as error:
        begun, fault = {}, str(error)
    return visit.page(
        "passkey",
        "Passkey",
        challenge=json.dumps({**begun, "account": visit.login.account}),
        fault=fault,
    )


async def add_passkey(visit: Visit) -> Response:
    value = assertion_of(visit.form.get("assertion", ""))
    name = visit.form.get("name", "").strip() or "passkey"
    parameters = {
        "nonce": visit.form.get("nonce", ""), "name": name,
        "client_data": value.get("client_data", ""), "attestation": value.get("attestation", ""),
    }  # fmt: skip
    await visit.login.connection.call("add_passkey", parameters)
    return redirect("/")
