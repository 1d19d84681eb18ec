"""What an agent is shown in its door."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hive_core.errors import NotFound
from hive_core.host.views import Views, show_identity
from hive_core.plan.local import ShowIdentity, ShowView


def links(folder: Path) -> dict[str, str]:
    return {each.name: str(each.readlink()) for each in folder.iterdir()}


def test_the_identity_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "identity.json"
    show_identity(path, ShowIdentity("u", {"name": "ann"}, 1))
    before = path.stat().st_ino
    show_identity(path, ShowIdentity("u", {"name": "bob"}, 2))
    assert json.loads(path.read_text()) == {"name": "bob"}
    assert path.stat().st_ino != before
    assert path.stat().st_mode & 0o777 == 0o644
    assert [each.name for each in tmp_path.iterdir()] == ["identity.json"]


def test_a_view_follows_and_touches_only_what_differs(tmp_path: Path) -> None:
    views = Views()
    views.show(tmp_path, ShowView("u", (("ann", "/tree"), ("bob", "/tree/kids/1")), 1))
    kept = (tmp_path / "ann").lstat().st_ino
    views.show(tmp_path, ShowView("u", (("ann", "/tree"), ("cat", "/tree/kids/2")), 2))
    assert links(tmp_path) == {"ann": "/tree", "cat": "/tree/kids/2"}
    assert (tmp_path / "ann").lstat().st_ino == kept


def test_a_view_that_nobody_remembers_is_brought_up_to_date(tmp_path: Path) -> None:
    (tmp_path / "old").symlink_to("/tree")
    (tmp_path / "ann").symlink_to("/elsewhere")
    (tmp_path / "bob").write_text("no link")
    Views().show(tmp_path, ShowView("u", (("ann", "/tree"), ("bob", "/tree/kids/1")), 1))
    assert links(tmp_path) == {"ann": "/tree", "bob": "/tree/kids/1"}


def test_a_view_that_could_not_be_written_is_looked_at_anew(tmp_path: Path) -> None:
    views, folder = Views(), tmp_path / "view"
    with pytest.raises(NotFound):
        views.show(folder, ShowView("u", (("ann", "/tree"),), 1))
    folder.mkdir()
    views.show(folder, ShowView("u", (("ann", "/tree"),), 1))
    views.forget("u")
    (folder / "ann").unlink()
    views.show(folder, ShowView("u", (("ann", "/tree"),), 1))
    assert links(folder) == {"ann": "/tree"}


def test_without_a_door_there_is_no_identity(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        show_identity(tmp_path / "none" / "identity.json", ShowIdentity("u", {}, 1))
