"""The second confirmation: hived says what is to be signed, and alone decides whether it was."""

from __future__ import annotations

import json

from starlette.responses import Response

from hive_core.errors import HiveError, InvalidArgument
from hive_core.varlink import Message
from hive_core.web.pages.login import assertion_of
from hive_core.web.visit import ConfirmationNeeded, Visit, redirect


async def ask_confirmation(visit: Visit, needed: ConfirmationNeeded) -> Response:
    """The page with exactly what is confirmed, and the ways to confirm it that the account has."""
    parameters: Message = {
        "operation": needed.operation, "parameters": needed.parameters,
        "origin": visit.request.origin,
    }  # fmt: skip
    try:
        begun, fault = await visit.login.connection.call("begin_confirmation", parameters), ""
    except HiveError as error:
        begun, fault = {}, str(error)
    methods = begun.get("methods")
    values = [(key, json.dumps(value)) for key, value in sorted(needed.parameters.items())]
    return visit.page(
        "confirm", "Confirm", needed=needed, begun=begun, fault=fault, values=values,
        packed=json.dumps(needed.parameters), challenge=json.dumps(begun),
        methods=methods if isinstance(methods, list) else [],
    )  # fmt: skip


async def confirm(visit: Visit) -> Response:
    """Complete a confirmation, and make the change that it is bound to."""
    form = visit.form
    try:
        parameters = json.loads(form.get("parameters", ""))
    except ValueError as error:
        raise InvalidArgument(f"not parameters: {error}", field="parameters") from error
    if not isinstance(parameters, dict):
        raise InvalidArgument("not parameters", field="parameters")
    answer: Message = {"nonce": form.get("nonce", "")}
    if text := form.get("assertion"):
        answer["assertion"] = assertion_of(text)
    else:
        answer["code"] = form.get("code", "").strip()
    await visit.login.connection.call("complete_confirmation", answer)
    back = form.get("back", "/")
    await visit.call(form.get("operation", ""), parameters, back)
    return redirect(back)


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
