"""The operator's file: all defaults, named faults."""

from pathlib import Path

import pytest
from each import for_each

from hive_core.errors import InvalidArgument
from hive_core.host.config.settings import check, load
from hive_core.model.config.settings import Settings


def write_settings(folder: Path, text: str) -> Path:
    path = folder / "hive.toml"
    path.write_text(text)
    return path


def test_no_file_and_an_empty_file_are_all_defaults(tmp_path: Path) -> None:
    assert load(tmp_path / "none.toml") == Settings() == load(write_settings(tmp_path, ""))


def test_what_is_set_stands_beside_the_defaults(tmp_path: Path) -> None:
    text = 'default_image = "debian"\n[root]\nname = "chief"\ncommand = ["a", "b"]\n'
    text += '[images]\ndebian = "/srv/debian"\nhost = ""\n[limits]\nstarts_at_once = 2\n'
    settings = load(write_settings(tmp_path, text))
    assert (settings.root.name, settings.root.command) == ("chief", ("a", "b"))
    assert settings.images == {"host": None, "debian": Path("/srv/debian")}
    assert (settings.limits.starts_at_once, settings.limits.depth) == (2, 32)
    assert settings.paths.socket("u") == Path("/run/hive/agents/u/run/broker.sock")


@for_each(
    "text, key",
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
        load(write_settings(tmp_path, text))
    assert caught.value.field.startswith(key)
    assert str(tmp_path) in caught.value.reason


def test_what_is_no_toml_is_refused_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"hive\.toml:1: not valid TOML"):
        load(write_settings(tmp_path, "= 3"))
    with pytest.raises(InvalidArgument, match="cannot read the file"):
        load(tmp_path)


WRONG = """\
default_image = "host"
colour = "blue"

[limits]
# Levels.
depht = 3
agents = 0
children = "many"
inbox_bytes = "16 oranges"

[root]
command = [
    "a",
    7,
]
boot = "perhaps"
[agent_limits]
memory_max = "1K"
[nix]
system = "windows"
[queues]
copies = "all"
[daemons]
maid = true
[maid.checks.disk]
evry = 3
"""


def test_every_fault_has_its_line_its_key_and_what_is_allowed(tmp_path: Path) -> None:
    """`hive doctor` said `config ok`, and the log of a hived that did not start named no line."""
    path = write_settings(tmp_path, WRONG)
    by_key = {
        setting_fault.key: (setting_fault.line, setting_fault.reason)
        for setting_fault in check(path)
    }
    expected = {
        "colour": (2, "unknown key"),
        "limits.depht": (6, "unknown key; did you mean depth?"),
        "limits.agents": (7, "0 does not fit; allowed is a whole number from 1 to 12000"),
        "limits.children": (8, '"many" does not fit; allowed is a whole number from 0 to 10000'),
        "limits.inbox_bytes": (9, "'16 oranges' is not a size; write 512M, 2G or a number"),
        "root.command[1]": (12, "7 does not fit; allowed is a text in quotes"),
        "root.boot": (16, '"perhaps" does not fit; allowed is true or false'),
        "agent_limits.memory_max": (
            18, "1024 does not fit; allowed is a whole number from 16777216 to 1125899906842624",
        ),
        "nix.system": (20, '"windows" does not fit; allowed is a text that matches'),
        "queues.copies": (22, '"all" does not fit; allowed is "off" or "low"'),
        "maid.checks.disk.evry": (26, "unknown key; did you mean every?"),
        "maid.checks.disk.command": (25, "is missing"),
    }  # fmt: skip
    assert by_key.keys() == expected.keys()
    for key, (line, reason) in expected.items():
        assert by_key[key][0] == line, key
        assert by_key[key][1].startswith(reason), by_key[key]
    with pytest.raises(InvalidArgument) as caught:
        load(path)
    count = len(expected) - 1
    assert f"(and {count} more: `hive config check {path}`)" in caught.value.reason


@for_each("text, place, reason", [
    ('default_image = "x"', (1, "default_image"), "image x is not in [images]; there are host"),
    ('\n[root]\nimage = "x"', (3, "root.image"), "image x is not in [images]; there are host"),
    ('[images]\ndebian = ""', (2, "images.debian"), "only host and nix have no path"),
    ("uid_start = 1000", (1, "uid_start"), "1000 does not fit; allowed are 524288, 589824 and"),
    ('[maid.checks.a]\ncommand = "df -h"', (1, "maid.checks"), "checks need the maid"),
    ("a = 1\nb = 2 3", (2, ""), "not valid TOML: Expected newline or end of document"),
    ("a = [1,\n2", (None, ""), "not valid TOML: Unclosed array"),
])  # fmt: skip
def test_what_does_not_fit_together_has_a_place_too(
    tmp_path: Path, text: str, place: tuple[int | None, str], reason: str
) -> None:
    (setting_fault,) = check(write_settings(tmp_path, text))
    assert (setting_fault.line, setting_fault.key) == place
    assert setting_fault.reason.startswith(reason)


def test_sizes_and_commands_may_be_texts(tmp_path: Path) -> None:
    text = (
        'ballast = "1M"\n[root]\ncommand = "sh -c \'echo hi\'"\n[limits]\ninbox_bytes = "2 GiB"\n'
    )
    text += '[agent_limits]\nmemory_max = "512M"\n[all_limits]\nmemory_max = 16777216\n'
    settings = load(write_settings(tmp_path, text))
    assert (settings.ballast, settings.limits.inbox_bytes) == (1 << 20, 2 << 30)
    assert settings.root.command == ("sh", "-c", "echo hi")
    assert (settings.agent_limits.memory_max, settings.all_limits.memory_max) == (
        512 << 20,
        16 << 20,
    )


def test_a_number_too_long_to_be_written_has_a_place_too(tmp_path: Path) -> None:
    """Python refuses to write it in digits, which ended the daemon without a word of the file."""
    (finding,) = check(write_settings(tmp_path, f"[limits]\nchildren = 0x{'f' * 5000}\n"))
    assert (finding.line, finding.key) == (2, "limits.children")
    assert finding.reason.startswith("a number of that size does not fit; allowed is")
