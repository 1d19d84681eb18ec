"""A secret of hive-notify that is missing or wrong: the commands name its route and its file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli.run import Hive

from hive_core.cli.host.doctor import check_routes

KEY = "whsec_" + "A" * 32
HOOK = '[notify.routes.tickets]\ntype = "webhook"\nurl = "https://example.org"\n'
MISSING = "this file is missing or empty: it has to have "


@pytest.fixture(name="settings")
def _settings(tmp_path: Path) -> Path:
    (tmp_path / "notify").mkdir()
    return tmp_path / "hive.toml"


@pytest.mark.parametrize(
    ("secret", "fault"),
    [
        (None, MISSING + "the key, whsec_ and 24 to 64 bytes in base64"),
        (" \n", MISSING + "the key, whsec_ and 24 to 64 bytes in base64"),
        ("whsec_short", "the secret of a webhook is whsec_ and 24 to 64 bytes in base64"),
        (
            "whsec_\u00e9" + "A" * 32,
            "the secret of a webhook is whsec_ and 24 to 64 bytes in base64",
        ),
        (KEY + "\n", ""),
    ],
)
def test_the_key_of_a_webhook(hive: Hive, settings: Path, secret: str | None, fault: str) -> None:
    settings.write_text(HOOK, encoding="utf-8")
    file = settings.parent / "notify/tickets"
    if secret is not None:
        file.write_text(secret, encoding="utf-8")
    done = hive("config", "check", str(settings))
    line = f"{file}: notify.routes.tickets: {fault}"
    assert (done.status, done.out.strip()) == ((1, line) if fault else (0, ""))
    details = [(row.verdict, row.detail) for row in check_routes(settings)]
    assert details == [("fail", f"nothing is sent by this route: {line}")] * bool(fault)


def test_faults_of_keys_and_of_secrets_are_listed_together(hive: Hive, settings: Path) -> None:
    settings.write_text(
        HOOK + '[notify.routes.home]\ntype = "apprise"\n[notify.routes.phone]\ntype = "ntfy"\n'
        '[notify.routes.login]\ntype = "ntfy"\nurl = "https://ntfy.sh"\ntopic = "t"\n',
        encoding="utf-8",
    )
    done = hive("config", "check", str(settings), "-o", "json")
    rows = [(row["key"], row["reason"].partition(":")[0]) for row in json.loads(done.out)]
    assert rows == [
        ("notify.routes.phone", "a route of type ntfy needs `url`"),
        ("notify.routes.tickets", "this file is missing or empty"),
        ("notify.routes.home", "this file is missing or empty"),
        ("notify.routes.login", "no route can have this name"),
    ]
