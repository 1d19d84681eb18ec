"""Second confirmations (attack 24): a passkey or a code confirms one call, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fixtures.approvals import ONE, TWO, row, waits
from fixtures.logins import ORIGIN, LoginClient, Reply, login_link, open_login, with_passkey
from fixtures.world import World, rows
from pydantic import SecretStr

from hive_core.broker.scopes import OperationClass, class_of
from hive_core.errors import HiveError, InvalidArgument, LimitReached, NotAllowed
from hive_core.model.operator.totp import STEP, totp_code
from hive_core.model.wire.record import OPERATOR
from hive_core.operations import load
from hive_core.testing.passkeys import MemoryAuthenticator

EACH = {
    "approve", "rollback", "restore", "grant_capability", "allow", "set_definition", "set_agent",
    "push_pack",
}  # fmt: skip
FRESH = {"approve_plan", "destroy", "allocate_budget", "fund_task"}
BY_PARAMS = {"answer", "assign_task", "spawn", "spawn_agent_and_assign_task", "set_trigger"}
GRANT = {"agent": "a", "capability": "broadcast"}


@pytest.fixture(name="ann")
def _ann(world: World) -> tuple[LoginClient, MemoryAuthenticator]:
    """A login of ann, whose account has a passkey."""
    client = open_login(world)
    return client, with_passkey(client)


def confirm(
    client: LoginClient, key: MemoryAuthenticator, operation: str, /, **params: object
) -> Reply:
    begun = client.begin(operation, **params)
    assertion = key.sign(begun["nonce"], begun["challenge"])
    return client.call("complete_confirmation", nonce=begun["nonce"], assertion=assertion)


def rule_of(error: HiveError) -> object:
    assert isinstance(error, NotAllowed)
    return error.fields.get("rule")


def test_the_operations_that_take_a_confirmation_are_these() -> None:
    registry = load()
    assert {op.name for op in registry.values() if op.login.confirm == "each"} == EACH
    assert {op.name for op in registry.values() if op.login.confirm == "fresh"} == FRESH
    by_params = {op.name for op in registry.values() if class_of(op) is OperationClass.BY_PARAMS}
    assert by_params == BY_PARAMS
    assert class_of(registry["move"]) is OperationClass.APPROVER


def test_what_is_confirmed_has_no_secret_among_its_params() -> None:
    for name in EACH | {"move"}:
        fields = load()[name].params.model_fields.values()
        assert all(SecretStr not in (field.annotation, *getattr(field.annotation, "__args__", ()))
                   for field in fields), name  # fmt: skip


def test_a_passkey_confirms_one_call_once_and_the_event_says_so(
    world: World, ann: tuple[LoginClient, MemoryAuthenticator]
) -> None:
    client, key = ann
    assert rule_of(client.refusal("grant_capability", **GRANT)) == "confirm"
    done = confirm(client, key, "grant_capability", **GRANT)
    assert done["operation"] == "grant_capability"
    assert "broadcast" in client.call("grant_capability", **GRANT)["capabilities"]
    event = world.ledger.events.page(0, 10_000)[-1]
    assert (event.operation, event.fields["account"], event.fields["confirmed"]) == (
        "grant_capability", "ann", "passkey",
    )  # fmt: skip
    world.call(OPERATOR, "revoke_capability", **GRANT)
    assert rule_of(client.refusal("grant_capability", **GRANT)) == "confirm"


def test_attack_24_a_change_is_approved_with_a_passkey_and_the_approval_has_the_account(
    world: World, ann: tuple[LoginClient, MemoryAuthenticator]
) -> None:
    client, key = ann
    decision = {"id": waits(world), "commit": ONE[:8]}
    assert rule_of(client.refusal("approve", **decision)) == "confirm"
    confirm(client, key, "approve", **decision)
    assert rule_of(client.refusal("approve", id=waits(world, commit=TWO), commit=TWO[:8])) == (
        "confirm"
    )
    assert client.call("approve", **decision)["state"] == "approved"
    assert row(world, decision["id"]).decided_by == "account:ann"


def test_a_confirmation_is_for_no_other_call_login_or_time(
    world: World, ann: tuple[LoginClient, MemoryAuthenticator]
) -> None:
    client, key = ann
    confirm(client, key, "grant_capability", **GRANT)
    other = {**GRANT, "agent": "b"}
    assert rule_of(client.refusal("grant_capability", **other)) == "confirm"
    assert rule_of(client.refusal("allow", agent="a", other="b")) == "confirm"
    assert rule_of(open_login(world).refusal("grant_capability", **GRANT)) == "confirm"
    world.advance(121)
    assert rule_of(client.refusal("grant_capability", **GRANT)) == "confirm"


def test_a_retried_call_with_its_key_needs_no_other_confirmation(
    ann: tuple[LoginClient, MemoryAuthenticator],
) -> None:
    client, key = ann
    confirm(client, key, "grant_capability", **GRANT)
    first = client.call("grant_capability", **GRANT, idempotency_key="k")
    assert client.call("grant_capability", **GRANT, idempotency_key="k") == first


def test_an_assertion_is_accepted_once(
    ann: tuple[LoginClient, MemoryAuthenticator],
) -> None:
    client, key = ann
    begun = client.begin("grant_capability", **GRANT)
    assertion = key.sign(begun["nonce"], begun["challenge"])
    client.call("complete_confirmation", nonce=begun["nonce"], assertion=assertion)
    again = client.refusal("complete_confirmation", nonce=begun["nonce"], assertion=assertion)
    assert rule_of(again) == "confirm"
    later = client.begin("grant_capability", **GRANT)
    replayed = {**assertion, "nonce": later["nonce"]}
    error = client.refusal("complete_confirmation", nonce=later["nonce"], assertion=replayed)
    assert "Wrong challenge" in str(error)


def signed_for_another_decision(key: MemoryAuthenticator, client: LoginClient) -> dict[str, str]:
    other = client.begin("grant_capability", agent="b", capability="broadcast")
    return key.sign("", other["challenge"])


def signed_elsewhere(key: MemoryAuthenticator, client: LoginClient) -> dict[str, str]:
    del client
    key.origin = "http://localhost:9999"  # the same host, so the same passkey: another program
    return {}


def signed_in_a_frame(key: MemoryAuthenticator, client: LoginClient) -> dict[str, str]:
    del client
    key.is_framed = True
    return {}


def signed_without_the_user(key: MemoryAuthenticator, client: LoginClient) -> dict[str, str]:
    del client
    key.is_verified = False
    return {}


def signed_by_another_key(key: MemoryAuthenticator, client: LoginClient) -> dict[str, str]:
    del client
    key.key = MemoryAuthenticator().key
    return {}


@pytest.mark.parametrize(("attack", "why"), [
    (signed_for_another_decision, "Wrong challenge"),
    (signed_elsewhere, "Invalid origin"),
    (signed_in_a_frame, "frame of another origin"),
    (signed_without_the_user, "User verification required"),
    (signed_by_another_key, "Invalid signature"),
])  # fmt: skip
def test_attack_24_an_assertion_that_was_made_for_something_else_confirms_nothing(
    ann: tuple[LoginClient, MemoryAuthenticator],
    attack: Callable[[MemoryAuthenticator, LoginClient], dict[str, str]],
    why: str,
) -> None:
    client, key = ann
    stolen = attack(key, client)
    begun = client.begin("grant_capability", **GRANT)
    assertion = {**(stolen or key.sign("", begun["challenge"])), "nonce": begun["nonce"]}
    error = client.refusal("complete_confirmation", nonce=begun["nonce"], assertion=assertion)
    assert (rule_of(error), why in str(error)) == ("passkey", True), str(error)
    assert rule_of(client.refusal("grant_capability", **GRANT)) == "confirm"


def test_attack_24_a_passkey_of_another_account_or_a_copy_confirms_nothing(world: World) -> None:
    client, eve = open_login(world), open_login(world, "eve")
    with_passkey(client)
    begun = client.begin("grant_capability", **GRANT)
    theirs = with_passkey(eve).sign(begun["nonce"], begun["challenge"])
    error = client.refusal("complete_confirmation", nonce=begun["nonce"], assertion=theirs)
    assert "the passkey does not belong to ann" in str(error)

    counting = with_passkey(client)
    counting.counter = 7
    confirm(client, counting, "grant_capability", **GRANT)
    counting.counter = 5  # the copy has signed less often
    begun = client.begin("grant_capability", **GRANT)
    copied = counting.sign(begun["nonce"], begun["challenge"])
    error = client.refusal("complete_confirmation", nonce=begun["nonce"], assertion=copied)
    assert "counter did not rise" in str(error)


@pytest.mark.parametrize("damage", ["", "AAAA", "_" * 200])
def test_attack_24_bytes_that_are_no_assertion_are_refused_in_a_sentence(
    ann: tuple[LoginClient, MemoryAuthenticator], damage: str
) -> None:
    client, key = ann
    begun = client.begin("grant_capability", **GRANT)
    for field in ("client_data", "authenticator_data", "signature"):
        assertion = {**key.sign(begun["nonce"], begun["challenge"]), field: damage}
        error = client.refusal("complete_confirmation", nonce=begun["nonce"], assertion=assertion)
        assert rule_of(error) == "passkey", field


def test_attack_24_a_token_or_a_viewer_decides_nothing(world: World) -> None:
    login_link(world)
    token = world.call(OPERATOR, "create_token", account="ann", scopes=["viewer", "operator"])
    program, viewer = LoginClient(world), open_login(world, "eve", ["viewer"])
    program.call("open_login", credential=token["token"])
    for client in (program, viewer):
        assert rule_of(client.refusal("grant_capability", **GRANT)) == "scope"
        assert rule_of(client.refusal("approve", id="x" * 12, commit="ab" * 6)) == "scope"
        begun = {"operation": "grant_capability", "parameters": GRANT}
        refused = client.refusal("begin_confirmation", **begun, origin="http://localhost:4483")
        assert rule_of(refused) == "scope"


def test_a_code_counts_once_and_an_account_has_five_tries(world: World) -> None:
    client = open_login(world)
    world.call(OPERATOR, "set_totp", account="ann")
    stored = world.ledger.accounts.totp("ann")
    assert stored is not None
    world.advance(STEP)

    def give(code: str) -> Reply:
        nonce = client.begin("grant_capability", **GRANT)["nonce"]
        return client.call("complete_confirmation", nonce=nonce, code=code)

    code = totp_code(stored[0], int(world.clock.now()) // STEP)
    give(code)
    assert client.call("grant_capability", **GRANT)
    for wrong in (code, "000000", "99999"):
        with pytest.raises(NotAllowed, match="wrong, or was used"):
            give(wrong)
    with pytest.raises(NotAllowed):
        give("")
    world.advance(STEP)
    later = totp_code(stored[0], int(world.clock.now()) // STEP)
    with pytest.raises(LimitReached):
        give(later)
    world.advance(300)
    give(totp_code(stored[0], int(world.clock.now()) // STEP))


def test_a_fresh_confirmation_counts_for_five_minutes(
    world: World, ann: tuple[LoginClient, MemoryAuthenticator]
) -> None:
    client, key = ann
    assert rule_of(client.refusal("destroy", agent="a2")) == "confirm"
    confirm(client, key, "destroy", agent="a2")
    assert client.call("destroy", agent="a2")["agents"] == ["a2"]
    world.advance(299)
    assert client.call("move", agent="a11", parent="b")
    assert rule_of(client.refusal("grant_capability", **GRANT)) == "confirm"  # takes one each time
    world.advance(2)
    assert rule_of(client.refusal("destroy", agent="b1")) == "confirm"
    assert client.call("move", agent="a11", parent="a1", dry_run=True)  # it changes nothing


def test_a_new_agent_takes_a_confirmation_for_more_than_its_role_has(world: World) -> None:
    client = open_login(world, scopes=["operator"])
    assert client.call("spawn", name="new", parent="a")["name"] == "new"
    for more in (
        {"network": "host"}, {"image": "/srv/image"}, {"add_capabilities": ["broadcast"]},
        {"funds": {"tokens": 1000}},
    ):  # fmt: skip
        error = client.refusal("spawn", name="other", parent="a", **more)
        assert rule_of(error) == "scope", more
    trigger = {
        "agent": "a", "name": "t", "when": {"every": 60.0},
        "action": {"kind": "spawn", "text": "x", "agent": {"name": "n", "capabilities": ["spawn"]}},
    }  # fmt: skip
    assert rule_of(client.refusal("set_trigger", **trigger)) == "scope"
    approver = open_login(world, "boss")
    assert rule_of(approver.refusal("spawn", name="other", network="host")) == "confirm"
    params = {"agent_role": "x", "agent_type": "worker", "task_description": "x", "network": "host"}
    assert rule_of(approver.refusal("spawn_agent_and_assign_task", **params)) == "confirm"


def test_a_confirmation_begins_only_where_one_is_taken(world: World) -> None:
    client = open_login(world)
    for operation, params in (("stop", {"agent": "a"}), ("spawn", {"name": "n"}), ("none", {})):
        with pytest.raises(InvalidArgument):
            client.begin(operation, **params)
    with pytest.raises(InvalidArgument, match="origins"):
        client.begin("destroy", "http://evil.example", agent="a")
    world.advance(301)
    with pytest.raises(NotAllowed, match="within 5 minutes"):
        with_passkey(client)


def test_the_operators_own_socket_needs_no_second_confirmation(world: World) -> None:
    assert world.call(OPERATOR, "grant_capability", **GRANT)
    assert (
        world.fault(OPERATOR, "begin_confirmation", operation="destroy", origin="x") == "NotAllowed"
    )


def test_a_budget_takes_a_fresh_confirmation_whichever_call_gives_it(
    world: World, ann: tuple[LoginClient, MemoryAuthenticator]
) -> None:
    client, key = ann
    bob = open_login(world, "bob", ["operator"])
    task: Reply = {"agent": "a", "description": "mend it", "budget": {"tokens": 1000}}
    made: Reply = {
        "agent_role": "Tester", "task_description": "test", "agent_type": "worker", "parent": "a",
        "budget": {"tokens": 1000},
    }  # fmt: skip
    world.call(OPERATOR, "allocate_budget", agent="root", kind="tokens", amount=10)
    world.call("root", "report_usage", tokens_in=10)
    (question,) = rows(world.call(OPERATOR, "list_questions")["questions"])
    answer: Reply = {"question": question["id"], "answers": ["500"]}
    calls = {"assign_task": task, "spawn_agent_and_assign_task": made, "answer": answer}
    for operation, params in calls.items():
        assert rule_of(bob.refusal(operation, **params)) == "scope"
        assert rule_of(client.refusal(operation, **params)) == "confirm"
    confirm(client, key, "answer", **answer)
    assert client.call("answer", **answer)["state"] == "answered"
    assert bob.call("assign_task", agent="a", description="mend it")["task"]


def test_attack_24_nobody_pushes_out_what_another_login_has_begun(
    world: World, ann: tuple[LoginClient, MemoryAuthenticator]
) -> None:
    client, key = ann
    begun = client.begin("grant_capability", **GRANT)
    world.advance(1)
    stranger, other = LoginClient(world), open_login(world)
    for _ in range(60):
        stranger.begin("open_login")
    refused = stranger.refusal("begin_confirmation", operation="open_login", origin=ORIGIN)
    assert isinstance(refused, LimitReached)
    for _ in range(40):
        other.begin("allow", agent="a", other="b")
    assertion = key.sign(begun["nonce"], begun["challenge"])
    client.call("complete_confirmation", nonce=begun["nonce"], assertion=assertion)
    sql = "SELECT count(*) FROM confirmations GROUP BY login"
    assert sorted(count for (count,) in world.ledger.connection.rows(sql)) == [1, 32, 60]


def test_a_confirmation_is_not_for_another_agent_that_got_the_name(
    world: World, ann: tuple[LoginClient, MemoryAuthenticator]
) -> None:
    client, key = ann
    world.call("a", "spawn", name="child")
    grant = {**GRANT, "agent": "child"}
    confirm(client, key, "grant_capability", **grant)
    world.call("a", "destroy", agent="child")
    world.call("a", "spawn", name="child", command=["other"])
    assert rule_of(client.refusal("grant_capability", **grant)) == "confirm"


def test_what_was_confirmed_counts_no_more_once_a_passkey_is_removed(
    world: World, ann: tuple[LoginClient, MemoryAuthenticator]
) -> None:
    client, key = ann
    confirm(client, key, "grant_capability", **GRANT)
    (passkey,) = rows(world.call(OPERATOR, "list_passkeys")["passkeys"])
    world.call(OPERATOR, "remove_passkey", passkey=passkey["passkey"])
    assert rule_of(client.refusal("grant_capability", **GRANT)) == "confirm"
    assert rule_of(client.refusal("destroy", agent="b")) == "confirm"
