"""models.toml: every fault has a name and a place, and nothing that is written there breaks us."""

from __future__ import annotations

import tomllib

import pytest
from each import for_each
from hypothesis import given
from hypothesis import strategies as st

from hive_core.errors import InvalidArgument
from hive_core.model.config.models import (
    BYTES_MOST,
    ModelsFile,
    ProviderKind,
    Wire,
    parse_models,
)
from hive_core.surfaces.models_file import models_page

HEAD = """
[providers.a]
base_url = "https://api.example.com/v1/"
key = "a"
[providers.b]
wire = "messages"
base_url = "unix:/run/b/b.sock"
[providers.rules]
kind = "scripted"
path = "/etc/hive/rules.toml"
[models.big]
provider = "a"
name = "big-1"
fallback = ["rules"]
[models.rules]
provider = "rules"
name = "rules"
[models.other]
provider = "b"
name = "other"
"""
PROVIDER = "[providers.x]\n"
MODEL = HEAD + '[models.x]\nprovider = "a"\nname = "x"\n'


def test_a_file_without_tables_is_the_embedded_model() -> None:
    for text in ("", "[limits]\nconcurrent = 2\n", 'default = "hive-small"'):
        models = parse_models(text)
        assert models.default_alias == "hive-small"
        assert models.provider_of("hive-small").kind is ProviderKind.GGUF
        assert models.wire_of("hive-small") is Wire.CHAT


def test_a_file_with_tables_has_nothing_else() -> None:
    models = parse_models(HEAD)
    assert set(models.models) == {"big", "rules", "other"}
    assert models.provider_of("big").base_url == "https://api.example.com/v1"
    assert models.wire_of("other") is Wire.MESSAGES
    assert models.default_alias is None
    assert parse_models('default = "big"\n' + HEAD).default_alias == "big"
    assert parse_models("[models]\n").models == {}


FAULTS = [
    ("x = 1", "x", "unknown key"),
    ('default = "nobody"', "default", "nobody is not in [models]"),
    (PROVIDER, "providers.x.base_url", "is missing"),
    (PROVIDER + 'kind = "grpc"', "providers.x.kind", '"http"'),
    (PROVIDER + 'wire = "soap"', "providers.x.wire", '"chat"'),
    (PROVIDER + 'base_url = "ftp://x/"', "providers.x.base_url", "must start with https://"),
    (PROVIDER + 'base_url = "http://10.0.0.1/v1"', "providers.x.base_url", "must be https"),
    (PROVIDER + 'base_url = "http://127.0.0.1.example.com/"', "providers.x.base_url", "https"),
    (PROVIDER + 'base_url = "https://u:p@h/v1"', "providers.x.base_url", "user or password"),
    (PROVIDER + 'base_url = "https://h/v1?x=1"', "providers.x.base_url", "query"),
    (PROVIDER + 'base_url = "https://h:99999/"', "providers.x.base_url", "is not a URL"),
    (PROVIDER + 'base_url = "https:///v1"', "providers.x.base_url", "has no host"),
    (PROVIDER + 'base_url = "https://h/a b"', "providers.x.base_url", "without spaces"),
    (PROVIDER + 'base_url = "unix:x.sock"', "providers.x.base_url", "absolute path"),
    (PROVIDER + 'base_url = "unix:/run/../x"', "providers.x.base_url", "absolute path"),
    (PROVIDER + 'key = "../x"\nbase_url = "https://h"', "providers.x.key", "matches"),
    (PROVIDER + 'kind = "gguf"\nkey = "x"', "providers.x.key", 'only for providers of kind "http"'),
    (PROVIDER + 'kind = "gguf"\nwire = "messages"', "providers.x.wire", 'the wire "chat"'),
    (PROVIDER + 'kind = "gguf"\npath = "x"', "providers.x.path", "matches"),
    (PROVIDER + 'kind = "scripted"', "providers.x.path", "is missing"),
    (PROVIDER + 'base_url = "https://h"\npath = "/x"', "providers.x.path", "is only for"),
    ('[providers.a]\nkind = "gguf"\n[providers.b]\nkind = "gguf"', "providers.b.kind", "one"),
    ('[providers.A]\nbase_url = "https://h"', "providers.A", "matches"),
    ('[models.X]\nprovider = "a"\nname = "x"', "models.X", "matches"),
    ('[models.x]\nname = "x"', "models.x.provider", "is missing"),
    ('[models.x]\nprovider = "a"', "models.x.name", "is missing"),
    ('[models.x]\nprovider = "a"\nname = "x"', "models.x.provider", "a is not in [providers]"),
    ('[models.x]\nprovider = "a"\nname = "x\\n"', "models.x.name", "printable"),
    (MODEL + "context = 0", "models.x.context", "from 1"),
    (MODEL + "context = 100\nmax_output = 101", "models.x.max_output", "larger than context"),
    (MODEL + 'fallback = ["x"]', "models.x.fallback[0]", "is the model itself"),
    (MODEL + 'fallback = ["big", "no"]', "models.x.fallback[1]", "no is not in [models]"),
    (MODEL + 'fallback = ["other"]', "models.x.fallback[0]", "hive does not translate"),
    (MODEL + 'fallback = ["big", "big", "big", "big", "big"]', "models.x.fallback", "at most 4"),
    (MODEL + "price_in = -1", "models.x.price_in", "from 0"),
    (MODEL + "price_in = nan\nprice_out = 1", "models.x.price_in", "from 0 to"),
    (MODEL + "price_in = 1", "models.x.price_out", "is missing"),
    (MODEL + "price_out = 1", "models.x.price_in", "is missing"),
    (MODEL + "price_cache_read = 1", "models.x.price_in", "is missing"),
    (MODEL + "price_cache_write = 1", "models.x.price_in", "is missing"),
    ('[limits]\nbody = "300M"', "limits.body", "from 1024"),
    ("[limits]\nconcurrent = 0", "limits.concurrent", "from 1"),
    ("[limits]\nconcurrent_all = 0", "limits.concurrent_all", "from 1"),
    ("[limits]\ncalls_a_minute = 0", "limits.calls_a_minute", "from 1"),
    ("[limits]\nfirst_byte = 0", "limits.first_byte", "above 0"),
    ("[limits]\nsilence = inf", "limits.silence", "above 0"),
    ("[limits", "models.toml", "not valid TOML"),
    ("a = " + "[" * 5000, "models.toml", "not valid TOML"),
    ("#" * (BYTES_MOST + 1), "models.toml", "larger than"),
]


@for_each("text, field, reason", FAULTS)
def test_a_fault_names_its_key(text: str, field: str, reason: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_models(text)
    assert caught.value.field == field
    assert reason in caught.value.reason
    assert caught.value.reason.startswith("models.toml: ")
    assert caught.value.reason.isascii()


@for_each(
    "url",
    [
        "https://api.example.com", "https://h:8443/a/b", "http://localhost:8080/v1",
        "http://127.9.9.9/v1", "http://[::1]:1/v1", "unix:/run/x/y.sock",
    ],
)  # fmt: skip
def test_these_urls_are_accepted(url: str) -> None:
    provider = parse_models(f'[providers.x]\nbase_url = "{url}"').providers["x"]
    assert provider.base_url == url


def parsed_or_fault(text: str) -> ModelsFile | InvalidArgument:
    try:
        return parse_models(text)
    except InvalidArgument as error:
        return error


@given(st.text(max_size=200))
def test_whatever_text_it_is_parses_or_has_a_fault(text: str) -> None:
    result = parsed_or_fault(text)
    if isinstance(result, InvalidArgument):
        assert result.field
        assert result.reason.isascii()


LINES = [line for text, _, _ in FAULTS[:-3] for line in (text + "\n" + HEAD).splitlines() if line]


@given(st.lists(st.sampled_from(sorted(set(LINES))), max_size=12))
def test_lines_of_models_in_any_order_parse_or_have_a_fault(lines: list[str]) -> None:
    text = "\n".join(lines)
    models = parsed_or_fault(text)
    if isinstance(models, InvalidArgument):
        assert models.field
        return
    tables = tomllib.loads(text)
    assert set(models.models) == set(tables.get("models", models.models))
    for alias, model in models.models.items():
        assert {models.wire_of(other) for other in model.fallback} <= {models.wire_of(alias)}


def test_every_key_has_a_row_and_a_word_about_it() -> None:
    rows = [line for line in models_page().splitlines() if line.startswith("| `")]
    assert len(rows) > 20
    assert [row for row in rows if row.endswith("|  |")] == []
