"""What the shipped settings file and the reference say of the settings."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import hive_core.cli.host.install
from hive_core.model.config.settings import Settings
from hive_core.surfaces.settings import settings_page

TEMPLATE = Path(hive_core.cli.host.install.__file__).with_name("hive.toml")


def test_every_commented_line_of_the_template_shows_the_real_default() -> None:
    """Every table and every key; twelve of them had been forgotten while one wrote them by hand."""
    text = TEMPLATE.read_text(encoding="utf-8")
    bare = re.sub(r"^#(?! |$)", "", text, flags=re.MULTILINE)
    shown = tomllib.loads(bare)
    assert Settings.model_validate(shown) == Settings()
    defaults = Settings().model_dump(mode="json", exclude_none=True)
    assert shown.keys() == defaults.keys()
    for name, field in Settings.model_fields.items():
        for key in getattr(type(field.default), "model_fields", {}):
            there = key in shown[name] or f"# `{key}`, absent by default: " in text
            assert there or f"[{name}.{key}.NAME]" in text, f"{name}.{key}"
        if isinstance(shown[name], dict):
            assert shown[name].items() <= {**defaults[name], "host": ""}.items()


def test_the_template_as_shipped_changes_nothing() -> None:
    shipped = tomllib.loads(TEMPLATE.read_text(encoding="utf-8"))
    assert Settings.model_validate(shipped) == Settings()


def test_every_setting_has_a_line_and_a_word_about_it() -> None:
    page = settings_page()
    for name, field in Settings.model_fields.items():
        assert f"`{name}`" in page or f"[{name}]" in page
        nested = getattr(type(field.default), "model_fields", {})
        for key in nested:
            assert f"| `{key}` |" in page
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert [row for row in rows if row.endswith("|  |")] == []
