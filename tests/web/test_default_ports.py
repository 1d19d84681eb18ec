"""Addresses of the dashboard that name the default port of their scheme: browsers leave it out."""

from __future__ import annotations

from pathlib import Path

from each import for_each

from hive_core.model.config.web import WebSettings
from hive_core.web.settings import load_settings


@for_each("written, sent", [
    ("https://hive.example.org:443", "https://hive.example.org"),
    ("http://localhost:80", "http://localhost"),
    ("https://hive.example.org:4443", "https://hive.example.org:4443"),
    ("https://hive.example.org:80", "https://hive.example.org:80"),
])  # fmt: skip
def test_hived_and_hive_web_know_an_origin_as_browsers_send_it(
    tmp_path: Path, written: str, sent: str
) -> None:
    """hived has to find it in what an authenticator has signed, hive-web in `Host`."""
    file = tmp_path / "hive.toml"
    file.write_text(f'[web]\norigins = ["{written}"]\n', encoding="utf-8")
    assert WebSettings(origins=(written,)).origins == (sent,)
    assert load_settings(file).hosts == {sent.partition("://")[2]: sent}
