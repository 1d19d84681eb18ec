"""A socket that cannot be opened is a refusal like any other, and no end of the daemon."""

from __future__ import annotations

from pathlib import Path

import pytest

from hive_core.errors import Internal
from hive_core.host.sockets.server import Access, bind_socket


@pytest.mark.parametrize(
    ("place", "access"),
    [
        ("no/folder", Access(0o666)),
        ("x" * 120, Access(0o666)),
        ("s", Access(0o660, "no-such-group")),
    ],
)
def test_what_cannot_be_listened_on_is_named(tmp_path: Path, place: str, access: Access) -> None:
    with pytest.raises(Internal, match=r"cannot listen on .*: "):
        bind_socket(tmp_path / place, access)
