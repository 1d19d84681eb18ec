"""docs/why/dependencies.md gives a reason for each dependency that pyproject.toml names."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    names = {re.split(r"[><=\[]", entry)[0] for group in groups for entry in group}
    page = (ROOT / "docs/why/dependencies.md").read_text(encoding="utf-8")
    cells = {
        name.strip()
        for row in re.findall(r"^\| ([^|]+) \|", page, re.MULTILINE)
        for name in re.split(r",| and ", row)
    }
    assert names - cells == set()
