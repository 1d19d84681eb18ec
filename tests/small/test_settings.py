"""Which model hive-small loads: from the same file that hived and hive-model validate."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from each import for_each
from hypothesis import given
from hypothesis import strategies as st

from hive_core.small.settings import BadSettings, EngineSettings, read_settings, settings_of

OWN = """
[providers.mine]
kind = "gguf"
path = "/srv/models/own.gguf"
threads = 4
[models.own]
provider = "mine"
name = "own"
context = 16384
[models.other]
provider = "elsewhere"
context = 1048576
"""


def read(folder: Path, text: str) -> EngineSettings:
    file = folder / "models.toml"
    file.write_text(text)
    return read_settings(file)


@pytest.mark.parametrize("text", ["", "[limits]\nconcurrent = 2\n"])
def test_without_providers_it_is_the_embedded_model(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text) == EngineSettings()
    assert read_settings(tmp_path / "absent") == EngineSettings()


def test_an_own_file_has_the_context_of_its_models_and_its_threads(tmp_path: Path) -> None:
    assert read(tmp_path, OWN) == EngineSettings(Path("/srv/models/own.gguf"), 16384, 4)


@for_each(
    "text, reason",
    [
        ("[", "cannot read"),
        ('[providers.p]\nkind = "http"\n', "no provider of kind gguf"),
        ('[providers.p]\nkind = "gguf"\nthreads = 0\n', "threads must be a number from 1 to 256"),
        ('[providers.p]\nkind = "gguf"\nthreads = true\n', "threads must be"),
        (OWN.replace("16384", '"16384"'), "context must be a number"),
    ],
)
def test_a_file_that_names_no_model_says_why(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(BadSettings, match=reason):
        read(tmp_path, text)


@given(
    st.recursive(
        st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(["providers", "models", "kind", "provider", "context", "x"]), inner
            )
        ),
    ).filter(lambda value: isinstance(value, dict))
)
def test_any_tables_are_settings_or_refused(tables: dict[str, object]) -> None:
    with suppress(BadSettings):
        assert settings_of(tables).context > 0
