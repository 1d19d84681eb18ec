"""A world has the open ledger and files of the one before it, and nothing of what that wrote."""

from __future__ import annotations

from pathlib import Path

from fixtures.kept_folders import discard_folders
from fixtures.world import World, world

EDGES = ("root/a", "a/a1", "root/b")


def files(folder: Path) -> dict[str, bytes]:
    """Those beside the ledger; each start names the owner of locks anew."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(("hive.db", "hive-lock"))
    }


def read_disk(made: World) -> tuple[list[str], dict[str, bytes], dict[tuple[str, str], int]]:
    tables = list(made.ledger.connection._raw.iterdump())
    return tables, files(made.folder), made.ledger.stored.recorded_sizes()


def write_everywhere(made: World) -> None:
    """Change rows of the seed, add others to guarded tables, and move the branch."""
    made.call("a", "send", to="root", body="x")
    made.call("a", "note_event", kind="step", text="one")
    made.call("a", "assign_task", agent="a1", description="work")
    made.call("a", "open_queue", name="tiles")
    made.call("a", "put", queue="tiles", body="one")
    made.call("operator", "set_secret", agent="a", key="key", value="hidden")
    made.grow("a/a2")
    for _ in range(3):
        made.call("a1", "recv")


def test_a_world_finds_neither_rows_nor_files_of_the_one_before_it() -> None:
    discard_folders()
    with world(None, *EDGES) as first:
        folder, clean = first.folder, read_disk(first)
        write_everywhere(first)
        assert all(now != then for now, then in zip(read_disk(first), clean, strict=True))
    with world(None, *EDGES) as second:
        assert second.folder == folder
        assert read_disk(second) == clean
        write_everywhere(second)
        second.restart()
    with world(None, "root/c") as other:
        assert other.folder == folder
        assert sorted(other.hive.specs) == ["c", "root"]
        other.call("c", "send", to="root", body="x")
    with world(None, *EDGES) as third:
        assert third.folder == folder
        assert read_disk(third) == clean


def test_a_world_beside_another_one_has_a_folder_of_its_own() -> None:
    with world(None, *EDGES) as first, world(None, *EDGES) as second:
        assert first.folder != second.folder
        first.call("a", "send", to="root", body="x")
        assert not second.mail("root")
