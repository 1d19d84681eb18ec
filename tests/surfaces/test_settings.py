"""What the shipped settings file and the reference say of the settings."""

from __future__ import annotations

import tomllib
from pathlib import Path

import hive_core.cli.install
from hive_core.model.settings import Settings
from hive_core.surfaces.settings import settings_page

TEMPLATE = Path(hive_core.cli.install.__file__).with_name("hive.toml")


def test_every_commented_line_of_the_template_shows_the_real_default() -> None:
    lines = TEMPLATE.read_text(encoding="utf-8").splitlines()
    bare = "\n".join(line.removeprefix("#") if not line.startswith("# ") else "" for line in lines)
    shown = tomllib.loads(bare)
    assert Settings.model_validate(shown) == Settings()
    told = Settings.model_validate(shown).model_dump(exclude_unset=True)
    tables = ("limits", "retention", "back_off", "grace", "approvals", "deploy", "intake", "nix")
    for name in tables:
        assert told[name].keys() == getattr(Settings(), name).model_dump().keys()


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
