"""Logins on login.sock: what opens one, what it may do, when it ends (Q49)."""

from __future__ import annotations

import pytest
from fixtures.logins import LoginClient, login_link, open_login, with_passkey
from fixtures.world import World

from hive_core.broker.scopes import OperationClass, class_of
from hive_core.errors import LimitReached, NotAllowed, NotFound
from hive_core.model.wire.record import OPERATOR, Event
from hive_core.operations import load
from hive_core.operations.accounts.new_login import IDLE_SECONDS, LOGIN_SECONDS


def rows(world: World, operation: str, field: str) -> list[dict[str, object]]:
    listed = world.call(OPERATOR, operation)[field]
    assert isinstance(listed, list)
    return listed


def last_event(world: World) -> Event:
    return world.ledger.events.page(0, 10_000)[-1]


def test_each_operation_is_in_exactly_one_class_of_logins() -> None:
    classes: dict[OperationClass, set[str]] = {class_: set() for class_ in OperationClass}
    for operation in load().values():
        classes[class_of(operation)].add(operation.name)
    assert classes[OperationClass.LOCAL] == {
        "create_account", "remove_account", "list_accounts", "create_login_link", "create_token",
        "set_totp", "list_passkeys", "remove_passkey", "list_logins", "end_login", "set_secret",
        "import_state",
    }  # fmt: skip
    assert classes[OperationClass.ANY_LOGIN] == {
        "open_login", "close_login", "begin_confirmation", "complete_confirmation", "add_passkey",
        "show_link", "use_link", "use_login",
    }  # fmt: skip
    assert classes[OperationClass.NOTIFIER] == {"offer_links", "note_routes"}
    assert {"recv", "use_tool", "keep_turn", "take", "reserve_model", "open_egress", "ack",
            "finish_task", "stream_turn", "subscribe"} <= classes[OperationClass.AGENT]  # fmt: skip
    assert {"list_agents", "list_events", "get_approval", "todo"} <= classes[OperationClass.VIEWER]
    assert {"stop", "send", "deny"} <= classes[OperationClass.OPERATOR]
    assert {"spawn", "assign_task", "answer"} <= classes[OperationClass.BY_PARAMS]
    assert sum(map(len, classes.values())) == len(load())


def test_what_a_viewer_may_call_writes_nothing() -> None:
    viewer = [op for op in load().values() if class_of(op) is OperationClass.VIEWER]
    assert not [operation.name for operation in viewer if operation.mutates or operation.writes]


def test_attack_56_before_a_login_nothing_else_is_served(world: World) -> None:
    client = LoginClient(world)
    for operation in ("list_agents", "todo", "list_logins", "whoami", "close_login", "recv"):
        error = client.refusal(operation)
        assert isinstance(error, NotAllowed)
        assert error.fields["rule"] in ("login", "scope"), operation


def test_a_link_opens_one_login_and_its_secret_opens_it_again(world: World) -> None:
    secret = login_link(world)
    client = LoginClient(world)
    opened = client.call("open_login", credential=secret, address="203.0.113.7")
    assert (opened["account"], opened["via"]) == ("ann", "link")
    assert opened["scopes"] == ["viewer", "operator", "approver"]
    event = last_event(world)
    assert (event.operation, event.fields["account"], event.fields["via"]) == (
        "open_login", "ann", "link",
    )  # fmt: skip
    assert event.fields["address"] == "203.0.113.7"
    assert client.call("list_agents")["agents"]

    again = LoginClient(world)
    assert again.refusal("open_login", credential=secret).fields["rule"] == "credential"
    back = again.call("open_login", credential=opened["credential"])
    assert (back["login"], back["credential"]) == (opened["login"], None)


def test_no_secret_is_stored_or_recorded(world: World) -> None:
    secret = login_link(world)
    opened = LoginClient(world).call("open_login", credential=secret)
    token = world.call(OPERATOR, "create_token", account="ann", idempotency_key="t")["token"]
    world.ledger.checkpoint()
    stored = b"".join(path.read_bytes() for path in world.folder.glob("hive.db*"))
    for text in (secret, opened["credential"], token):
        assert str(text).encode() not in stored
        assert str(text).partition("_")[2].encode() not in stored


def test_who_names_an_account_or_a_login_that_is_not_there_is_told_what_to_do(
    world: World,
) -> None:
    with pytest.raises(NotFound, match="no account carol; `hive web account create carol`"):
        world.call(OPERATOR, "create_login_link", account="carol")
    with pytest.raises(NotFound, match="no login l9; `hive web session` lists"):
        world.call(OPERATOR, "end_login", login="l9")


def test_a_late_link_opens_nothing(world: World) -> None:
    secret = login_link(world)
    world.advance(121)
    error = LoginClient(world).refusal("open_login", credential=secret)
    assert str(error) == "cannot open a login: no valid credential"
    assert last_event(world).kind == "refusal"


def test_a_connection_has_one_login(world: World) -> None:
    client = open_login(world)
    error = client.refusal("open_login", credential=login_link(world, "bob"))
    assert error.fields["rule"] == "credential"
    assert client.call("close_login")["account"] == "ann"


def test_the_scopes_bound_a_login_and_not_the_name_of_the_account(world: World) -> None:
    viewer = open_login(world, "eve", ["viewer"])
    assert viewer.refusal("stop", agent="a").fields["rule"] == "scope"
    assert viewer.call("list_agents")
    client = open_login(world, "ann", ["operator"])
    assert client.call("send", to="a", body="hello")
    event = last_event(world)
    assert (event.caller, event.fields["account"]) == (OPERATOR, "ann")
    for local in ("create_account", "create_token", "set_secret", "list_accounts"):
        params = {"name": "x"} if local == "create_account" else {"account": "ann"}
        if local == "set_secret":
            params = {"agent": "a", "key": "k", "value": "v"}
        if local == "list_accounts":
            params = {}
        assert client.refusal(local, **params).fields["rule"] == "scope"


def test_the_operators_own_socket_has_no_logins(world: World) -> None:
    assert world.fault(OPERATOR, "open_login", credential="link_x") == "NotAllowed"
    assert world.fault(OPERATOR, "close_login") == "NotAllowed"
    assert world.fault("a", "open_login", credential=login_link(world)) == "NotAllowed"


def test_a_login_ends_when_it_is_idle_or_old_but_a_token_is_never_idle(world: World) -> None:
    client = open_login(world)
    token = str(world.call(OPERATOR, "create_token", account="ann", days=30)["token"])
    for _ in range(13):  # used once in 11 hours, it goes on until it is 7 days old
        world.advance(IDLE_SECONDS - 3600)
        assert client.call("use_login")["ends"] <= LOGIN_SECONDS + world.clock.now()
    world.advance(LOGIN_SECONDS - 13 * (IDLE_SECONDS - 3600) - 1)
    other = open_login(world)
    world.advance(2)
    assert client.refusal("list_agents").fields["rule"] == "login"
    world.advance(IDLE_SECONDS)
    assert other.refusal("list_agents").fields["rule"] == "login"
    program = LoginClient(world)
    assert program.call("open_login", credential=token)["idle"] == 0
    assert program.refusal("stop", agent="a").fields["rule"] == "scope"


def test_what_a_page_that_is_left_open_reads_does_not_keep_its_login(world: World) -> None:
    secret = login_link(world)
    client = LoginClient(world)
    credential = client.call("open_login", credential=secret)["credential"]
    ends = client.call("use_login")["ends"]
    assert ends == world.clock.now() + IDLE_SECONDS
    world.advance(IDLE_SECONDS - 1)
    assert client.call("list_agents")
    assert LoginClient(world).call("open_login", credential=credential)  # for a stream
    world.advance(1)
    assert client.refusal("list_agents").fields["rule"] == "login"


def test_the_last_use_of_a_login_outlives_a_restart(world: World) -> None:
    client = open_login(world)
    world.advance(IDLE_SECONDS - 60)
    client.call("use_login")
    world.call(OPERATOR, "send", to="a", body="x")  # the next transaction has it
    world.restart()
    world.advance(IDLE_SECONDS - 60)
    assert world.call(OPERATOR, "list_logins")["logins"]
    world.set_clock(86_400.0)
    assert world.call(OPERATOR, "list_logins")["logins"]


def with_room(world: World) -> LoginClient:
    """A login that is opened a minute after the one before."""
    world.advance(60)
    return open_login(world)


def test_a_login_too_many_ends_another_login_and_never_a_token(world: World) -> None:
    login_link(world, "ann")
    token = str(world.call(OPERATOR, "create_token", account="ann", scopes=["viewer"])["token"])
    logins = [with_room(world) for _ in range(65)]
    assert isinstance(logins[0].refusal("whoami"), NotAllowed)
    program = LoginClient(world)
    assert program.call("open_login", credential=token)["account"] == "ann"
    world.call(OPERATOR, "create_account", name="bot", scopes=["viewer"])
    for _ in range(64):
        world.call(OPERATOR, "create_token", account="bot", scopes=["viewer"])
    with pytest.raises(LimitReached, match="it has 64 tokens"):
        world.call(OPERATOR, "create_token", account="bot", scopes=["viewer"])


def test_a_login_that_is_ended_may_do_nothing_more(world: World) -> None:
    client = open_login(world)
    (row,) = rows(world, "list_logins", "logins")
    world.call(OPERATOR, "end_login", login=row["login"])
    assert client.refusal("list_agents").fields["rule"] == "login"
    second = open_login(world)
    world.call(OPERATOR, "create_account", name="ann", scopes=["viewer"])
    assert second.refusal("list_agents").fields["rule"] == "login"
    third = open_login(world)
    world.call(OPERATOR, "remove_account", account="ann")
    assert third.refusal("list_agents").fields["rule"] == "login"


def test_an_address_opens_five_logins_a_minute(world: World) -> None:
    for _ in range(5):
        LoginClient(world).refusal("open_login", credential="link_wrong", address="198.51.100.1")
    secret = login_link(world)
    client = LoginClient(world)
    late = client.refusal("open_login", credential=secret, address="198.51.100.1")
    assert isinstance(late, LimitReached)
    assert client.call("open_login", credential=secret, address="198.51.100.2")


def test_wrong_tokens_of_an_address_keep_no_person_out(world: World) -> None:
    for _ in range(6):
        LoginClient(world).refusal("open_login", credential="token_wrong", address="198.51.100.1")
    secret = login_link(world)
    assert LoginClient(world).call("open_login", credential=secret, address="198.51.100.1")


def test_refusals_without_a_login_leave_room_for_those_of_the_operator(world: World) -> None:
    client = LoginClient(world)
    for _ in range(world.settings.limits.refusals_kept + 5):
        client.refusal("list_agents")
    assert world.fault(OPERATOR, "close_login") == "NotAllowed"
    assert last_event(world).operation == "close_login"
    world.advance(2)
    client.refusal("list_agents")
    assert last_event(world).fields["not_kept"] == 5


def test_a_repeated_key_gives_a_login_no_result_that_its_scope_does_not_have(world: World) -> None:
    params = {"to": "a", "body": "hello", "idempotency_key": "k1"}
    world.call(OPERATOR, "send", **params)
    assert open_login(world, "eve", ["viewer"]).refusal("send", **params).fields["rule"] == "scope"


def test_a_passkey_opens_a_login_of_its_account(world: World) -> None:
    passkey = with_passkey(open_login(world))
    client = LoginClient(world)
    begun = client.begin("open_login")
    assert begun["credentials"] == []  # nobody learns which there are
    assertion = passkey.sign(begun["nonce"], begun["challenge"])
    opened = client.call("open_login", assertion=assertion)
    assert (opened["account"], opened["via"], opened["may_add_passkey"]) == (
        "ann",
        "passkey",
        False,
    )
    again = LoginClient(world).refusal("open_login", assertion=assertion)
    assert again.fields["rule"] == "credential"
    (row,) = rows(world, "list_passkeys", "passkeys")
    world.call(OPERATOR, "remove_passkey", passkey=row["passkey"])
    assert client.refusal("list_agents").fields["rule"] == "login"


def test_a_login_gets_no_result_of_another_login_by_its_idempotency_key(world: World) -> None:
    ann, bob = open_login(world), open_login(world, "bob")
    assert ann.call("close_login", idempotency_key="k")["account"] == "ann"
    assert isinstance(LoginClient(world).refusal("close_login", idempotency_key="k"), NotAllowed)
    assert bob.call("close_login", idempotency_key="k")["account"] == "bob"
    assert [login.account for login in world.ledger.logins.all()] == []
