"""What other sites, other logins and broken clients try: they get nothing, change nothing (Q49)."""

from __future__ import annotations

import socket
from contextlib import suppress

import pytest
from fixtures.dashboard import FakeBrowser, RunningDashboard, read_answer

from hive_core.web.request_limits import BODY_MOST

FOREIGN = (
    "evil.example",
    "localhost",
    "localhost:1",
    "LOCALHOST:{port}.",
    "127.0.0.1.nip.io:{port}",
)


@pytest.mark.parametrize("host", FOREIGN)
def test_a_foreign_host_is_refused(browser: FakeBrowser, host: str) -> None:
    answer = browser.get("/", host=host.format(port=browser.web.port))

    assert answer.status == 421
    assert "alice" not in answer.text


def test_a_browser_that_came_by_number_is_sent_to_the_name(browser: FakeBrowser) -> None:
    answer = browser.get("/tree", host=f"127.0.0.1:{browser.web.port}")

    assert answer.status == 307
    assert answer.headers["location"] == f"{browser.web.origin}/"


@pytest.mark.parametrize(
    ("origin", "site"),
    [
        ("http://evil.example", "cross-site"), ("http://localhost:1", "same-site"),
        ("null", "cross-site"), ("null", None), (None, None), (None, "same-origin"),
        ("own", "cross-site"), ("own", "same-site"),
    ],
)  # fmt: skip
def test_a_form_of_another_site_changes_nothing(
    browser: FakeBrowser, origin: str | None, site: str | None
) -> None:
    sent = browser.web.origin if origin == "own" else origin

    answer = browser.post("/agents/w-9/do/stop", {}, origin=sent, sec_fetch_site=site)

    assert answer.status == 403
    assert "stop" not in [event["operation"] for event in _events(browser)]


def test_the_token_of_another_login_is_refused(web: RunningDashboard, browser: FakeBrowser) -> None:
    other = FakeBrowser(web, "bob")

    for token in (other.token(), "", "AAAA", browser.token()[:-8] + "AAAAAAAA", "\u00e9"):
        answer = browser.post("/agents/w-9/do/stop", {"form_token": token})
        assert answer.status == 403, token


def test_a_token_is_masked_anew_each_time(browser: FakeBrowser) -> None:
    assert len({browser.token() for _ in range(3)}) == 3


def test_a_get_changes_nothing(browser: FakeBrowser) -> None:
    for path in ("/agents/w-9/do/stop", "/logout", "/agents/w-9/say", "/confirm"):
        assert browser.get(path).status in (404, 405), path


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(browser: FakeBrowser, method: str) -> None:
    assert browser.web.ask(method, "/tree", cookie=browser.cookie).status in (403, 405)


def test_a_cross_site_link_gets_a_page_that_loads_itself_again(web: RunningDashboard) -> None:
    answer = web.ask("GET", "/tree", sec_fetch_site="cross-site")

    assert answer.status == 200
    assert 'http-equiv="refresh"' in answer.text
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("path", ["/live?topics=tree", "/badge"])
def test_nothing_live_is_served_without_a_login(web: RunningDashboard, path: str) -> None:
    for cookie in (None, "__Host-hive=login_wrong", "__Host-hive=token_x", "hive=x"):
        assert web.ask("GET", path, cookie=cookie).status == 401


def test_a_planted_second_cookie_is_no_login(browser: FakeBrowser) -> None:
    planted = f"__Host-hive=login_planted; {browser.cookie}"

    assert browser.web.ask("GET", "/badge", cookie=planted).status == 401


def test_a_login_gets_a_secret_of_its_own_and_ends_the_one_before(
    web: RunningDashboard, browser: FakeBrowser
) -> None:
    body = f"secret={web.hived.link()}".encode()

    answer = web.ask("POST", "/login", body, cookie=browser.cookie)

    assert browser.cookie not in answer.headers["set-cookie"]
    assert web.ask("GET", "/badge", cookie=browser.cookie).status == 401


def test_a_login_that_the_operator_ends_loses_its_stream(browser: FakeBrowser) -> None:
    stream = browser.web.connect()
    stream.sendall(browser.web.request("GET", "/live?topics=tree", cookie=browser.cookie))
    assert stream.recv(4096).startswith(b"HTTP/1.1 200")

    browser.web.hived.end_logins()

    with suppress(ConnectionResetError):
        while stream.recv(4096):
            pass
    stream.close()
    assert browser.web.ask("GET", "/badge", cookie=browser.cookie).status == 401


def test_an_upgrade_is_no_websocket(browser: FakeBrowser) -> None:
    answer = browser.get(
        "/badge", connection="Upgrade", upgrade="websocket", sec_websocket_key="x" * 22 + "==",
        sec_websocket_version="13", origin=browser.web.origin,
    )  # fmt: skip

    assert answer.status == 200
    assert answer.headers["connection"] == "close"
    assert answer.headers.keys().isdisjoint({"upgrade", "sec-websocket-accept"})


def test_a_huge_body_is_refused_before_it_is_read(browser: FakeBrowser) -> None:
    answer = browser.web.ask(
        "POST", "/login", b"secret=x", content_length=str(BODY_MOST + 1), cookie=browser.cookie
    )

    assert answer.status == 413


def test_chunks_without_an_end_are_cut_off(web: RunningDashboard) -> None:
    head = web.request("POST", "/login", content_length=None, transfer_encoding="chunked")
    with web.connect() as connection:
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(head)
            for _ in range(64):
                connection.sendall(b"1000\r\n" + b"x" * 4096 + b"\r\n")
        assert read_answer(connection).status in (0, 413)


@pytest.mark.parametrize(
    "headers",
    [
        {"content_length": "5", "transfer_encoding": "chunked"},
        {"content_length": "5, 6"},
        {"content_length": "-1"},
        {"transfer_encoding": "gzip, chunked"},
    ],
)
def test_a_request_of_two_lengths_is_refused(
    web: RunningDashboard, headers: dict[str, str]
) -> None:
    answer = web.ask("POST", "/login", b"0\r\n\r\nGET /tree HTTP/1.1\r\n\r\n", **headers)

    assert answer.status in (0, 400)
    assert answer.body.count(b"HTTP/1.1") == 0


def test_one_connection_is_one_request(browser: FakeBrowser) -> None:
    both = browser.web.request("GET", "/badge", cookie=browser.cookie) * 2

    answer = browser.web.send(both)

    assert answer.status == 200
    assert b"HTTP/1.1" not in answer.body


@pytest.mark.parametrize(
    "line", ["GET  / HTTP/1.1", "GET /\x00 HTTP/1.1", "GET / HTTP/9", "\x16\x03\x01", "GET"]
)
def test_what_is_no_request_is_answered_by_an_error_or_the_end(
    web: RunningDashboard, line: str
) -> None:
    answer = web.send(f"{line}\r\nhost: localhost:{web.port}\r\n\r\n".encode())

    assert answer.status in (0, 303, 400, 404)


@pytest.mark.parametrize("body", ["secret", "secret=%ff", "secret=a&secret=b", "&" * 500])
def test_a_broken_form_is_refused(web: RunningDashboard, body: str) -> None:
    assert web.ask("POST", "/login", body.encode()).status == 400


def test_a_form_of_another_type_is_refused(web: RunningDashboard) -> None:
    assert web.ask("POST", "/login", b"{}", content_type="text/plain").status == 415


def test_the_sixth_login_of_an_address_in_a_minute_waits(web: RunningDashboard) -> None:
    web.app.web.logins.clock = lambda: 1e9
    tries = [web.ask("POST", "/login", b"secret=link_wrong").status for _ in range(6)]

    assert tries[-1] == 429
    assert set(tries) <= {403, 429}


def test_a_login_sends_no_more_requests_than_its_rate(browser: FakeBrowser) -> None:
    login = browser.web.app.web.logins.any()
    assert login is not None
    for _ in range(100):
        with suppress(Exception):
            login.requests.count_request(0.0)
    browser.web.app.clock = lambda: 0.0

    assert browser.get("/badge").status == 429
    browser.web.app.clock = lambda: 1e6


def test_a_login_has_four_streams(browser: FakeBrowser) -> None:
    request = browser.web.request("GET", "/live?topics=tree", cookie=browser.cookie)
    streams: list[socket.socket] = []
    for _ in range(4):
        streams.append(browser.web.connect())
        streams[-1].sendall(request)
        assert streams[-1].recv(4096).startswith(b"HTTP/1.1 200")

    assert browser.web.send(request).status == 429
    for stream in streams:
        stream.close()
    while (status := browser.web.ask("GET", "/badge", cookie=browser.cookie).status) == 200:
        if not browser.web.app.web.logins.streams:
            break
    assert status == 200


def _events(browser: FakeBrowser) -> list[dict[str, object]]:
    listed = browser.web.hived.call("operator", "list_events", limit=1000)["events"]
    assert isinstance(listed, list)
    return [event for event in listed if event["target"] == "w-9"]
