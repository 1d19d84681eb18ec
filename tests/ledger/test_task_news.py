"""The next news of an assigner: the last of its tasks that changed, each once."""

from __future__ import annotations

from pathlib import Path

from hive_core.ledger.core.ledger import Ledger
from hive_core.ledger.tasks.notices import TASKS_PER_MESSAGE, NewsState

IDS = [f"{number:012x}" for number in range(TASKS_PER_MESSAGE + 20)]


def test_what_changes_again_is_told_last_and_the_oldest_are_left_out(folder: Path) -> None:
    fresh, again = list[str](), [IDS[number * 37 % len(IDS)] for number in range(200)]
    ledger = Ledger.open(folder / "hive.db", primed=0)
    news = ledger.tasks.news
    with ledger.transaction():
        news.save(NewsState("anna", at=7.0))
        for task in [*IDS, *again]:
            fresh = [*(item for item in fresh if item != task), task][-TASKS_PER_MESSAGE:]
            assert news.add("anna", task, 7.01, 0.1)
            assert news.get("anna") == NewsState("anna", pending=tuple(fresh), at=7.0, due=7.1)
    ledger.close()


def test_what_an_older_daemon_kept_is_told_too(folder: Path) -> None:
    """It put no blank behind the last one."""
    ledger = Ledger.open(folder / "hive.db", primed=0)
    with ledger.transaction():
        ledger.tasks.news.save(NewsState("anna", at=7.0))
        sql = "UPDATE task_news SET fresh = ?"
        ledger.connection.run(sql, (" ".join(IDS[:3]),))
        assert ledger.tasks.news.add("anna", IDS[1], 7.01, 0.1)
        assert ledger.tasks.news.get("anna").pending == (IDS[0], IDS[2], IDS[1])
    ledger.close()


def test_only_a_moment_that_has_begun_takes_more(folder: Path) -> None:
    ledger = Ledger.open(folder / "hive.db", primed=0)
    news = ledger.tasks.news
    with ledger.transaction():
        assert not news.add("anna", IDS[0], 7.0, 0.1)
        news.save(NewsState("anna", at=7.0))
        assert not news.add("anna", IDS[0], 7.2, 0.1)
        assert not news.add("anna", IDS[0], 6.9, 0.1)  # the clock was set back
        assert news.get("anna").pending == ()
    ledger.close()
