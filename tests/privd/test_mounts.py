"""Mount points: what is unmounted, and what stays where one cannot be removed."""

import subprocess
import sys
from pathlib import Path

import hive_core

ROOT = Path(hive_core.__file__).parents[1]
UUID = "0b6d0c56-6f0f-5d2c-9c3b-3a1b0f8f2d11"
# In mount and user namespaces of its own; something stands in each mount point, below the mount.
SCRIPT = f"""
import subprocess
from hive_core.privd import mounts, tree

subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/var/lib"], check=True)
place = tree.MOUNTS / "{UUID}"
for leaf in ("in", "out", "root"):
    (place / leaf).mkdir(parents=True)
    (place / leaf / "left").touch()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place / leaf], check=True)
try:
    mounts.detach("{UUID}")
except OSError as error:
    print(error.strerror)
print(*sorted(leaf.name for leaf in place.iterdir() if leaf.is_mount()), sep=",")
print(*sorted(leaf.name for leaf in place.iterdir() if (leaf / "left").exists()), sep=",")
for leaf in place.iterdir():
    (leaf / "left").unlink()
print(mounts.detach("{UUID}"), place.exists(), mounts.detach("{UUID}"))
"""


def test_a_mount_point_with_something_in_it_keeps_nothing_mounted_and_loses_nothing() -> None:
    """It was written while nothing was mounted there: whose it is, root has to decide.

    Another one that stayed mounted would keep the uid range of a job from all other jobs.
    """
    words = ["unshare", "--user", "--map-root-user", "--mount", sys.executable, "-c", SCRIPT]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.stdout.splitlines(), done.stderr) == (
        ["Directory not empty", "", "in,out,root", "True False False"], "",
    )  # fmt: skip
