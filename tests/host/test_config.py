"""The operator's file: all defaults, named faults."""

from pathlib import Path

import pytest

from hive_core.errors import InvalidArgument
from hive_core.host.config import load
from hive_core.model.settings import Settings


def written(folder: Path, text: str) -> Path:
    path = folder / "hive.toml"
    path.write_text(text)
    return path


def test_no_file_and_an_empty_file_are_all_defaults(tmp_path: Path) -> None:
    assert load(tmp_path / "none.toml") == Settings() == load(written(tmp_path, ""))


def test_what_is_set_stands_beside_the_defaults(tmp_path: Path) -> None:
    text = 'default_image = "debian"\n[root]\nname = "chief"\ncommand = ["a", "b"]\n'
    text += '[images]\ndebian = "/srv/debian"\nhost = ""\n[limits]\nstarts_at_once = 2\n'
    found = load(written(tmp_path, text))
    assert (found.root.name, found.root.command) == ("chief", ("a", "b"))
    assert found.images == {"host": None, "debian": Path("/srv/debian")}
    assert (found.limits.starts_at_once, found.limits.depth) == (2, 32)
    assert found.paths.socket("u") == Path("/run/hive/agents/u/run/broker.sock")


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("limit = 3", "limit"),
        ("[limits]\ndeep = 3", "limits.deep"),
        ("[limits]\ndepth = 65", "limits.depth"),
        ('[root]\nname = "operator"', "root.name"),
        ('default_image = "nowhere"', ""),
        ('[images]\ndebian = "srv"', "images.debian"),
        ('[images]\ndebian = "/srv/../etc"', "images.debian"),
        ('[images]\nhost = "/srv"', ""),
        ("uid_start = 1000", ""),
        ('[paths]\nstate = "relative"', "paths.state"),
    ],
)
def test_a_wrong_key_is_named(tmp_path: Path, text: str, key: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        load(written(tmp_path, text))
    assert caught.value.field.startswith(key)
    assert str(tmp_path) in caught.value.reason


def test_what_is_no_toml_is_refused_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="line 1"):
        load(written(tmp_path, "= 3"))
    with pytest.raises(InvalidArgument, match="cannot read"):
        load(tmp_path)
