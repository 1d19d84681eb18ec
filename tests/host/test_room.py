"""Where agent storage lies: whether the file system holds agents to limits, and how full it is."""

from __future__ import annotations

import os
from pathlib import Path

from hive_core.host.storage.disk_usage import disk_usage, has_quota, with_limits
from hive_core.plan.actions import Mount

TREE = Path("/var/lib/hive/tree")
ROOT = "/dev/a / ext4 rw,relatime 0 0\n"
WITH = "/dev/b /var/lib ext4 rw,prjquota 0 0\n"
OVER = "memory /var/lib/hive tmpfs rw 0 0\n"
ACTION = Mount("0123abcd-0000-4000-8000-000000000001", ("0123abcd",), 0x30010000, "host", 1 << 20)


def test_quotas_are_seen_in_the_options_of_the_nearest_mount() -> None:
    """Attack 9."""
    assert not has_quota(TREE, ROOT)
    assert has_quota(TREE, ROOT + WITH)
    assert not has_quota(TREE, ROOT + WITH + OVER)
    assert has_quota(TREE, f"{ROOT}/dev/c {TREE} xfs rw,nosuid,prjquota 0 0\n")


def test_of_several_mounts_on_one_place_the_last_counts() -> None:
    over = "memory /var/lib tmpfs rw 0 0\n"
    assert not has_quota(TREE, ROOT + WITH + over)
    assert has_quota(TREE, ROOT + over + WITH)


def test_limits_go_to_the_root_helper_only_where_quotas_are() -> None:
    there, none = with_limits(ACTION, quota=True), with_limits(ACTION, quota=False)
    assert (there.disk, there.inodes) == (1 << 20, 0)
    assert (none.disk, none.inodes) == (None, None)


def test_how_full_it_is_grows_with_what_is_written(tmp_path: Path) -> None:
    before = disk_usage(tmp_path)
    for number in range(20):
        (tmp_path / str(number)).write_bytes(os.urandom(1 << 16))
    assert disk_usage(tmp_path).disk > before.disk
