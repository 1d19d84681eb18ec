"""Whose storage is mounted, read from the kernel's list."""

from pathlib import Path

from hive_core.host.storage.mountinfo import Mounts, mounted_agents, visible_stores

FOLDER, SOCKET_DIRECTORIES = Path("/var/lib/hive/mounts"), Path("/run/hive/agents")
ONE, TWO = "0a0b0c0d-0000-4000-8000-000000000001", "0a0b0c0d-0000-4000-8000-000000000002"
ROOT = "1 0 8:1 / / rw shared:7 master:1 - ext4 /dev/sda rw\n"
HOME = "9 1 8:1 /var/lib/hive /var/lib/hive rw {} - ext4 /dev/sda rw\n"


def line(uuid: str, leaf: str) -> str:
    return f"2 1 8:1 /x /var/lib/hive/mounts/{uuid}/{leaf} rw,nosuid shared:9 - ext4 /dev/sda rw\n"


def test_an_agent_is_mounted_when_root_and_node_are() -> None:
    text = ROOT + line(ONE, "root") + line(ONE, "tree") + line(TWO, "tree")
    assert mounted_agents(FOLDER, text) == frozenset({ONE})


def test_one_mount_over_another_counts_once() -> None:
    assert mounted_agents(FOLDER, ROOT + line(TWO, "tree") * 2) == frozenset()


def test_where_mounts_of_the_host_do_not_show_nothing_is_said() -> None:
    """hived started while the host's root was private: its list will never change."""
    text = ROOT + HOME.format("shared:3") + line(ONE, "root") + line(ONE, "tree")
    assert mounted_agents(FOLDER, text) is None
    assert mounted_agents(FOLDER, text.replace("shared:3", "shared:3 master:4")) == frozenset({ONE})


def test_other_mounts_are_nobodys() -> None:
    text = ROOT + line("stranger", "tree") + line(ONE, "root").replace("/root ", "/root/deep ")
    assert mounted_agents(FOLDER, text) == frozenset()


RUN = "3 1 0:25 / /run rw shared:5 master:2 - tmpfs tmpfs rw\n"


def hung(uuid: str, store: str, root: str = "/meta") -> str:
    place = f"{SOCKET_DIRECTORIES}/{uuid}/{store}"
    return f"4 3 8:1 {root} {place} ro,nosuid shared:9 idmapped - ext4 /dev/sda rw\n"


def test_stores_in_socket_directories_are_listed_by_agent() -> None:
    text = RUN + hung(ONE, "meta") + hung(ONE, "applied", "/var/lib/hive/applied")
    assert visible_stores(SOCKET_DIRECTORIES, text + hung(TWO, "run")) == frozenset(
        {(ONE, "meta"), (ONE, "applied")}
    )
    mounts = Mounts(None, visible_stores(SOCKET_DIRECTORIES, text))
    assert mounts.visible_stores(ONE, frozenset()) == {"meta", "applied"}
    assert mounts.visible_stores(TWO, frozenset({"meta"})) == frozenset()


def test_a_repository_that_was_replaced_is_not_the_one_that_hangs_there() -> None:
    assert (
        visible_stores(SOCKET_DIRECTORIES, RUN + hung(ONE, "meta", "/meta//deleted")) == frozenset()
    )


def test_where_mounts_do_not_appear_recorded_actions_decide() -> None:
    text = RUN.replace(" master:2", "") + hung(ONE, "meta")
    assert visible_stores(SOCKET_DIRECTORIES, text) is None
    assert Mounts(None, None).visible_stores(ONE, frozenset({"meta"})) == {"meta"}
