"""Second confirmations: begun for one call, given by a passkey or a code, then taken by the call.

All of it is bound: to the login, the operation, its parameters, and the state of what it is about.
"""

from __future__ import annotations

import secrets
from typing import Any, Final

from pydantic import Field, SecretStr, ValidationError

from hive_core.broker.authorize import judge, refusal
from hive_core.broker.call import Call, Record
from hive_core.broker.confirmation import FRESH, challenge_of, request_digest
from hive_core.broker.login_rule import ANY_LOGIN
from hive_core.broker.operation import (
    REGISTRY,
    Confidential,
    Mutation,
    Operation,
    Params,
    Result,
    operation,
)
from hive_core.broker.scopes import level_of
from hive_core.broker.validation import validation_error
from hive_core.errors import AlreadyExists, InvalidArgument, LimitReached, NotAllowed
from hive_core.ledger.accounts.confirmations import Confirmation
from hive_core.model.config.web import host_of
from hive_core.model.operator.account import Login, Passkey
from hive_core.model.operator.totp import matching_step
from hive_core.operations.accounts.logins import may_add_passkey, own_login, seat_of
from hive_core.operations.accounts.passkeys import (
    OPEN_LOGIN,
    Assertion,
    Base64,
    check_assertion,
    read_new_passkey,
    to_base64,
)
from hive_core.policy.rules import OPERATOR

# Seconds in which one that was begun is given, and one that was given is taken.
SECONDS: Final = 120.0
ADD_PASSKEY: Final = "add_passkey"
PASSKEYS_MOST: Final = 16  # of one account
_RULE: Final = "confirm"


class BeginConfirmationParams(Mutation):
    operation: str = Field(
        max_length=64,
        description="Name of the operation; `open_login` and `add_passkey` for what a passkey signs"
        " there.",
    )
    parameters: dict[str, Any] = Field({}, description="The parameters of the call to confirm.")
    origin: str = Field(max_length=300, description="Web address of the page; one of the settings.")


class BegunConfirmation(Result):
    nonce: str = Field(description="Number of this confirmation, used once.")
    challenge: str = Field(description="What the passkey signs, in base64url.")
    rp_id: str = Field(description="Host to which the passkey belongs.")
    credentials: list[str] = Field(description="Ids of the account's passkeys for this host.")
    methods: list[str] = Field(description="How it can be given: `passkey`, `totp`.")
    level: str = Field(description="`each`: for one call; `fresh`: for 5 minutes; else `passkey`.")
    expires: float = Field(description="Until when it can be given, in seconds since 1970.")


class CompleteConfirmationParams(Confidential):
    nonce: str = Field(max_length=64, description="The nonce of `begin_confirmation`.")
    assertion: Assertion | None = Field(None, description="What a passkey has signed.")
    code: SecretStr | None = Field(
        None, max_length=16, description="Instead of it, the code of an app."
    )


class GivenConfirmation(Result):
    operation: str = Field(description="Name of the operation.")
    until: float = Field(description="Until when the call can be made, in seconds since 1970.")


class AddPasskeyParams(Confidential):
    nonce: str = Field(max_length=64, description="The nonce of `begin_confirmation`.")
    client_data: Base64 = Field(description="The browser's clientDataJSON.")
    attestation: Base64 = Field(description="The authenticator's attestation object.")
    name: str = Field("", max_length=64, description="What its owner calls it.")


class AddedPasskey(Result):
    passkey: str = Field(description="Id of the passkey.")


@operation(action="administer", allow=OPERATOR, login=ANY_LOGIN)
def begin_confirmation(call: Call, params: BeginConfirmationParams) -> Record[BegunConfirmation]:
    """Begin the second confirmation of one call of this login.

    The passkey signs a digest of the operation, its parameters and the state of what it is about.
    Give it with `complete_confirmation`, then make the call.
    """
    seat_of(call)
    if params.origin not in call.settings.web.origins:
        raise InvalidArgument("is not one of the origins in hive.toml", field="origin")
    login = None if params.operation == OPEN_LOGIN else own_login(call)
    if login is None:
        _count_begun(call)
    level, request = _request_of(call, login, params)
    nonce, expires = secrets.token_urlsafe(24), call.now + SECONDS
    begun = Confirmation(
        nonce, login.id if login else "", params.operation, level, request,
        challenge_of(nonce, request), params.origin, "", expires,
    )  # fmt: skip
    call.ledger.confirmations.add(begun, call.now)
    fields = {"confirms": params.operation}
    return Record(_view(call, login, begun), fields=fields)


def _count_begun(call: Call) -> None:
    """Count a confirmation that was begun without a login: each is a row and an event."""
    after = call.ledger.begun.take(call.uid, call.now)
    if after > 0:
        reason = "cannot begin a login by a passkey: too many were begun, try again in"
        raise LimitReached(f"{reason} {after:.0f} s", retry_after=after)


def _request_of(
    call: Call, login: Login | None, params: BeginConfirmationParams
) -> tuple[str, str]:
    """The level of what is to be confirmed, and its digest. Only what the login may do has one."""
    if login is None:
        return "passkey", OPEN_LOGIN
    if params.operation == ADD_PASSKEY:
        _check_may_add(call, login)
        return "passkey", ADD_PASSKEY
    confirmed = REGISTRY.get(params.operation)
    if confirmed is None or confirmed.login.confirm is None:
        raise InvalidArgument(
            "must name an operation that requires a confirmation", field="operation"
        )
    wanted = _parse(confirmed, params.parameters)
    target, decision = judge(call, confirmed, wanted)
    if not decision.allowed:
        raise refusal(confirmed, wanted, target, decision)
    level = level_of(call, confirmed, wanted)
    if level is None:
        raise InvalidArgument("this call needs no confirmation", field="parameters")
    return level, request_digest(call, confirmed, wanted)


def _parse(confirmed: Operation, parameters: dict[str, Any]) -> Params:
    try:
        return confirmed.params.__pydantic_validator__.validate_python(parameters)  # type: ignore[no-any-return]  # pydantic's own
    except ValidationError as error:
        raise validation_error(error, parameters, confirmed.params) from None


def _view(call: Call, login: Login | None, begun: Confirmation) -> BegunConfirmation:
    accounts, host = call.ledger.accounts, host_of(begun.origin)
    passkeys = accounts.passkeys(login.account, host) if login is not None else []
    methods = ["passkey"] if passkeys or begun.level == "passkey" else []
    if login is not None and begun.level != "passkey" and accounts.totp(login.account) is not None:
        methods.append("totp")
    return BegunConfirmation(
        nonce=begun.nonce, challenge=to_base64(begun.challenge), rp_id=host, level=begun.level,
        credentials=[key.id for key in passkeys], methods=methods, expires=begun.expires,
    )  # fmt: skip


@operation(action="administer", allow=OPERATOR, login=ANY_LOGIN)
def complete_confirmation(
    call: Call, params: CompleteConfirmationParams
) -> Record[GivenConfirmation]:
    """Give a confirmation that was begun: with what a passkey has signed, or with a code.

    The login then makes the call within 120 seconds, once. Each code counts once, and an account
    has 5 tries in 5 minutes.
    """
    login, now, store = own_login(call), call.now, call.ledger.confirmations
    if (params.assertion is None) is (params.code is None):
        raise InvalidArgument("give an assertion or a code", field="code")
    begun = store.take_begun(params.nonce, login.id, now)
    if begun is None or begun.level == "passkey":
        raise NotAllowed(
            "cannot confirm: the confirmation is over or was not begun by this login", rule=_RULE
        )
    if params.assertion is not None:
        method = _check_passkey(call, login, begun, params.assertion)
    else:
        method = _check_code(call, login, params.code.get_secret_value() if params.code else "")
    call.ledger.logins.record_confirmation(login.id, now + FRESH)
    until = now + (FRESH if begun.level == "fresh" else SECONDS)
    if begun.level == "each":
        store.add_given(begun, method, until, now)
    result = GivenConfirmation(operation=begun.operation, until=until)
    return Record(result, fields={"confirms": begun.operation, "confirmed": method})


def _check_passkey(call: Call, login: Login, begun: Confirmation, assertion: Assertion) -> str:
    passkey = call.ledger.accounts.passkey(assertion.credential)
    if passkey is None or passkey.account != login.account or assertion.nonce != begun.nonce:
        raise NotAllowed(
            f"cannot confirm: the passkey does not belong to {login.account}", rule=_RULE
        )
    check_assertion(call, begun, passkey, assertion)
    return "passkey"


def _check_code(call: Call, login: Login, code: str) -> str:
    """Count a try of the account, and take the code: it does not count again."""
    after = call.ledger.codes.take(login.account, call.now)
    if after > 0:
        reason = f"cannot confirm: {login.account} has tried too many codes, try again in"
        raise LimitReached(f"{reason} {after:.0f} s", rule=_RULE, retry_after=after)
    key = call.ledger.accounts.totp(login.account)
    step = matching_step(key[0], code, call.now, key[1]) if key is not None else None
    if key is None or step is None:
        raise NotAllowed("cannot confirm: the code is wrong, or was used", rule=_RULE)
    call.ledger.accounts.set_totp(login.account, key[0], step)
    return "totp"


def _check_may_add(call: Call, login: Login) -> None:
    if not may_add_passkey(call, login):
        reason = "cannot add a passkey: only within 5 minutes after `hive web login`"
        raise NotAllowed(reason, rule=_RULE)


@operation(action="administer", allow=OPERATOR, login=ANY_LOGIN)
def add_passkey(call: Call, params: AddPasskeyParams) -> Record[AddedPasskey]:
    """Add a passkey to the account of this login, within 5 minutes after its login link."""
    login, accounts = own_login(call), call.ledger.accounts
    _check_may_add(call, login)
    begun = call.ledger.confirmations.take_begun(params.nonce, login.id, call.now)
    if begun is None or begun.operation != ADD_PASSKEY:
        raise NotAllowed("cannot add a passkey: it was not begun by this login", rule=_RULE)
    if len(accounts.passkeys(login.account)) >= PASSKEYS_MOST:
        raise LimitReached(f"cannot add a passkey: limit ({PASSKEYS_MOST}) reached")
    id_, key = read_new_passkey(begun, params.client_data, params.attestation)
    if accounts.passkey(id_) is not None:
        raise AlreadyExists("cannot add the passkey: it is known already")
    host = host_of(begun.origin)
    accounts.add_passkey(Passkey(id_, login.account, host, params.name, key, 0, call.now))
    return Record(AddedPasskey(passkey=id_), fields={"passkey": id_, "host": host})
