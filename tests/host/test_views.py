"""What an agent sees in its socket directory."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from hive_core.errors import NotFound
from hive_core.host.storage.views import Views, show_identity
from hive_core.plan.daemon_actions import ShowIdentity, ShowView


def show(views: Views, folder: Path, action: ShowView) -> None:
    asyncio.run(views.show(folder, action))


def links(folder: Path) -> dict[str, str]:
    return {path.name: str(path.readlink()) for path in folder.iterdir()}


def test_the_identity_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "identity.json"
    show_identity(path, ShowIdentity("u", {"name": "ann"}, 1))
    before = path.stat().st_ino
    show_identity(path, ShowIdentity("u", {"name": "bob"}, 2))
    assert json.loads(path.read_text()) == {"name": "bob"}
    assert path.stat().st_ino != before
    assert path.stat().st_mode & 0o777 == 0o644
    assert [path.name for path in tmp_path.iterdir()] == ["identity.json"]


def test_a_view_follows_and_touches_only_what_differs(tmp_path: Path) -> None:
    views = Views()
    show(views, tmp_path, ShowView("u", (("ann", "/tree"), ("bob", "/tree/kids/1")), 1))
    inode = (tmp_path / "ann").lstat().st_ino
    show(views, tmp_path, ShowView("u", (("ann", "/tree"), ("cat", "/tree/kids/2")), 2))
    assert links(tmp_path) == {"ann": "/tree", "cat": "/tree/kids/2"}
    assert (tmp_path / "ann").lstat().st_ino == inode


def test_an_unknown_view_is_brought_up_to_date(tmp_path: Path) -> None:
    (tmp_path / "old").symlink_to("/tree")
    (tmp_path / "ann").symlink_to("/elsewhere")
    (tmp_path / "bob").write_text("no link")
    show(Views(), tmp_path, ShowView("u", (("ann", "/tree"), ("bob", "/tree/kids/1")), 1))
    assert links(tmp_path) == {"ann": "/tree", "bob": "/tree/kids/1"}


def test_a_view_that_could_not_be_written_is_looked_at_anew(tmp_path: Path) -> None:
    views, folder = Views(), tmp_path / "view"
    with pytest.raises(NotFound):
        show(views, folder, ShowView("u", (("ann", "/tree"),), 1))
    folder.mkdir()
    show(views, folder, ShowView("u", (("ann", "/tree"),), 1))
    views.forget("u")
    (folder / "ann").unlink()
    show(views, folder, ShowView("u", (("ann", "/tree"),), 1))
    assert links(folder) == {"ann": "/tree"}


def test_a_long_view_lets_others_have_a_turn(tmp_path: Path) -> None:
    async def story() -> int:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        many = tuple((f"a{number}", "/tree") for number in range(1000))
        await Views().show(tmp_path, ShowView("u", many, 1))
        task.cancel()
        return turns

    assert asyncio.run(story()) >= 9
    assert len(links(tmp_path)) == 1000


def test_without_a_socket_directory_there_is_no_identity(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        show_identity(tmp_path / "none" / "identity.json", ShowIdentity("u", {}, 1))
