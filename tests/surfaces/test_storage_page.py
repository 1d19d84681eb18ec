"""Attack 62: everything that is stored stands on one page with its bound."""

from __future__ import annotations

import re
from pathlib import Path

import hive_core.privd.tree as trees
from hive_core.ledger.core.ledger import Ledger
from hive_core.ledger.core.storage_use import TABLES
from hive_core.model.config.settings import Paths, Settings

PAGE = Path(__file__).resolve().parents[2] / "docs/how-to/bound-the-disk.md"
_ROW = re.compile(r"^\| (.+) \|$", re.MULTILINE)


def rows() -> list[list[str]]:
    entries = [row.split(" | ") for row in _ROW.findall(PAGE.read_text(encoding="utf-8"))]
    return [row for row in entries if row[0] not in ("what", "directory") and set(row[0]) != {"-"}]


def test_attack_62_every_table_of_the_ledger_stands_on_the_page(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "hive.db")
    names = ledger.connection.rows("SELECT name FROM sqlite_schema WHERE type = 'table'")
    ledger.close()
    shown = {name for row in rows() for name in re.findall(r"`([a-z_]+)`", row[1])}
    assert {name for (name,) in names} == shown


def test_attack_62_every_directory_stands_on_the_page() -> None:
    paths = Paths()
    there = {
        getattr(paths, name) for name, value in vars(Paths).items() if isinstance(value, property)
    } | {paths.runtime / "agents", Path(trees.TREE), Path(trees.ROOTS), Path(trees.MOUNTS)}
    page = PAGE.read_text(encoding="utf-8")
    missing = {
        place for place in there
        if f"`{place}`" not in page and not (place.suffix == ".sock" and f"`{place.name}`" in page)
    }  # fmt: skip
    assert missing == set()


def test_attack_62_every_setting_that_the_page_names_is_one() -> None:
    whole, named = Settings().model_dump(), 0
    for row in rows():
        for table, key in re.findall(r"`\[([a-z_]+)\] ([a-z_]+)`", row[-1]):
            assert key in whole[table], f"[{table}] {key}"
            named += 1
    assert named > 40


def test_attack_62_what_counts_for_an_agent_is_said_to() -> None:
    (live,) = (row for row in rows() if row[0].startswith("live things"))
    (over,) = (row for row in rows() if row[0].startswith("what is over"))
    for table in TABLES:
        assert f"`{table.table}`" in live[1] + over[1], table.table
