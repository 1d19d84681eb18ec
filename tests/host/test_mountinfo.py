"""Whose storage is mounted, read from the kernel's list."""

from pathlib import Path

from hive_core.host.mountinfo import mounted

FOLDER = Path("/var/lib/hive/mounts")
ONE, TWO = "0a0b0c0d-0000-4000-8000-000000000001", "0a0b0c0d-0000-4000-8000-000000000002"
ROOT = "1 0 8:1 / / rw shared:7 master:1 - ext4 /dev/sda rw\n"
HOME = "9 1 8:1 /var/lib/hive /var/lib/hive rw {} - ext4 /dev/sda rw\n"


def line(uuid: str, leaf: str) -> str:
    return f"2 1 8:1 /x /var/lib/hive/mounts/{uuid}/{leaf} rw,nosuid shared:9 - ext4 /dev/sda rw\n"


def test_an_agent_is_mounted_when_root_and_node_are() -> None:
    text = ROOT + line(ONE, "root") + line(ONE, "tree") + line(TWO, "tree")
    assert mounted(FOLDER, text) == frozenset({ONE})


def test_one_mount_over_another_counts_once() -> None:
    assert mounted(FOLDER, ROOT + line(TWO, "tree") * 2) == frozenset()


def test_where_mounts_of_the_host_do_not_show_nothing_is_said() -> None:
    """hived started while the host's root was private: its list will never change."""
    text = ROOT + HOME.format("shared:3") + line(ONE, "root") + line(ONE, "tree")
    assert mounted(FOLDER, text) is None
    assert mounted(FOLDER, text.replace("shared:3", "shared:3 master:4")) == frozenset({ONE})


def test_other_mounts_are_nobodys() -> None:
    text = ROOT + line("stranger", "tree") + line(ONE, "root").replace("/root ", "/root/deep ")
    assert mounted(FOLDER, text) == frozenset()
