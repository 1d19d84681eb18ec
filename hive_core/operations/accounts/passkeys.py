"""Checks what passkeys have signed (WebAuthn). Nothing but the daemon decides on a signature."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field

from hive_core.broker.call import Call
from hive_core.broker.operation import Params
from hive_core.errors import NotAllowed
from hive_core.ledger.accounts.confirmations import Confirmation
from hive_core.model.config.web import host_of
from hive_core.model.operator.account import Passkey

if TYPE_CHECKING:
    from fido2.server import Fido2Server

RULE: Final = "passkey"
OPEN_LOGIN: Final = "open_login"
_TEXT_MOST: Final = 16 << 10
Base64 = Annotated[str, Field(max_length=_TEXT_MOST, pattern=r"^[A-Za-z0-9_-]*$")]


class Assertion(Params):
    """What a passkey has signed, as the browser gives it; all in base64url without padding."""

    nonce: str = Field(max_length=64, description="The nonce of `begin_confirmation`.")
    credential: Base64 = Field(description="Id of the passkey.")
    client_data: Base64 = Field(description="The browser's clientDataJSON.")
    authenticator_data: Base64 = Field(description="The authenticator's data.")
    signature: Base64 = Field(description="The signature.")


def to_base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def from_base64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def account_of_assertion(call: Call, assertion: Assertion) -> str | None:
    """The account whose passkey has signed that it opens a login; None: the nonce is not open."""
    begun = call.ledger.confirmations.take_begun(assertion.nonce, "", call.now)
    passkey = call.ledger.accounts.passkey(assertion.credential)
    if begun is None or begun.operation != OPEN_LOGIN or passkey is None:
        return None
    check_assertion(call, begun, passkey, assertion)
    return passkey.account


def check_assertion(
    call: Call, begun: Confirmation, passkey: Passkey, assertion: Assertion
) -> None:
    """Refuse an assertion that is not this passkey's, with the user verified, for just this.

    A counter that does not rise says that the passkey was copied.
    """
    from fido2.webauthn import AttestedCredentialData  # noqa: PLC0415 - takes 50 ms, used seldom

    response = {
        "rawId": assertion.credential,
        "response": {
            "clientDataJSON": assertion.client_data,
            "authenticatorData": assertion.authenticator_data,
            "signature": assertion.signature,
        },
    }
    if passkey.rp_id != host_of(begun.origin):
        raise _refusal("it is of another web address")
    try:
        _check_origin_of_frame(assertion.client_data)
        credential = AttestedCredentialData(passkey.public_key)
        _server(begun.origin).authenticate_complete(_state(begun), [credential], response)
        counter = _counter(assertion.authenticator_data)
    except NotAllowed:
        raise
    except Exception as error:  # noqa: BLE001 - whatever the library cannot read is no assertion
        raise _refusal(str(error).rstrip(".")) from None
    if counter <= passkey.counter and (counter or passkey.counter):
        raise _refusal("its counter did not rise, so that a copy of it may exist")
    call.ledger.accounts.set_counter(passkey.id, counter)


def read_new_passkey(begun: Confirmation, client_data: str, attestation: str) -> tuple[str, bytes]:
    """The id and the public key of a passkey that a browser has just made."""
    try:
        _check_origin_of_frame(client_data)
        response = {"clientDataJSON": client_data, "attestationObject": attestation}
        registered = {"rawId": "", "response": response}
        data = _server(begun.origin).register_complete(_state(begun), registered)
    except NotAllowed:
        raise
    except Exception as error:  # noqa: BLE001 - whatever the library cannot read is no passkey
        raise _refusal(str(error).rstrip(".")) from None
    credential = data.credential_data
    if credential is None:
        raise _refusal("it has no key")
    return to_base64(credential.credential_id), bytes(credential)


def _server(origin: str) -> Fido2Server:
    from fido2.server import Fido2Server  # noqa: PLC0415 - takes 50 ms, used seldom
    from fido2.webauthn import PublicKeyCredentialRpEntity  # noqa: PLC0415

    entity = PublicKeyCredentialRpEntity(name="hive", id=host_of(origin))
    return Fido2Server(entity, verify_origin=lambda signed: signed == origin)


def _state(begun: Confirmation) -> dict[str, Any]:
    return {"challenge": to_base64(begun.challenge), "user_verification": "required"}


def _check_origin_of_frame(client_data: str) -> None:
    """A page of another origin that has ours in a frame gets no signature for it."""
    from fido2.webauthn import CollectedClientData  # noqa: PLC0415 - takes 50 ms, used seldom

    try:
        is_cross = CollectedClientData(from_base64(client_data)).cross_origin
    except (ValueError, KeyError, binascii.Error):
        raise _refusal("its client data cannot be read") from None
    if is_cross:
        raise _refusal("it was made in a frame of another origin")


def _counter(authenticator_data: str) -> int:
    from fido2.webauthn import AuthenticatorData  # noqa: PLC0415 - takes 50 ms, used seldom

    return int(AuthenticatorData(from_base64(authenticator_data)).counter)


def _refusal(reason: str) -> NotAllowed:
    return NotAllowed(f"cannot accept the passkey: {reason}", rule=RULE)
