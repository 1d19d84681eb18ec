"""Attack 9: project quotas of a real file system, in a small kernel of its own that has them.

It is User-mode Linux, an ordinary program, which sees the files of this machine and one disk image.
https://docs.kernel.org/virt/uml/user_mode_linux_howto_v2.html
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import hive_core

CHECKOUT = Path(hive_core.__file__).parents[1]
pytestmark = pytest.mark.long
NEEDED = ("linux.uml", "mkfs.ext4", "setpriv", "unshare")
INIT = """#!/bin/sh
mount -t proc proc /proc && mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /var/lib
mkdir /var/lib/hive
exec >/proc/1/fd/1 2>&1
/usr/bin/python3 -IS {script} || echo FAILED
echo o >/proc/sysrq-trigger
while :; do sleep 1; done
"""
SCRIPT = """
import ctypes, glob, json, os, subprocess, sys
sys.path.insert(0, {checkout!r})
from hive_core.plan.actions import STORAGE_BASE
from hive_core.privd import mounts, tree

BASE, MIB = 0x30010000, 1 << 20
libc = ctypes.CDLL(None, use_errno=True)
for name in ("quota_tree", "quota_v2"):
    module = os.open(glob.glob(f"/usr/lib/uml/modules/*/kernel/fs/quota/{{name}}.ko")[0], 0)
    assert libc.syscall(313, module, b"", 0) == 0  # finit_module
subprocess.run(["mount", "-t", "ext4", "-o", "prjquota", "/dev/ubdb", tree.STATE], check=True)
os.mkdir(tree.TREE)
tree.make_node(("0123abcd",))
tree.make_node(("0123abcd", "89abcdef"))
mounts.hold(("0123abcd",), BASE, 8 * MIB, 50)
state = f"{{tree.TREE}}/0123abcd/state"


def as_agent(script, *more):
    user = ["setpriv", f"--reuid={{STORAGE_BASE}}", f"--regid={{STORAGE_BASE}}", "--clear-groups"]
    done = subprocess.run([*user, *more, "sh", "-c", f"cd {{state}}; {{script}}"],
                          capture_output=True, text=True)
    return (done.stdout + done.stderr).strip()


FREE = '''exec /usr/bin/python3 -ISc "
import fcntl, struct
for flags, project in ((0x200, 7), (0, {{base}}), (0, 0)):
    try:
        fcntl.ioctl(open('.').fileno(), 0x401C5820, struct.pack('4I12x', flags, 0, 0, project))
        print('changed')
    except OSError as error:
        print('refused')
"'''
found = {{
    "bytes": as_agent("dd if=/dev/zero of=fill bs=1M count=20 2>&1 | grep -o 'quota exceeded'"),
    "written": os.stat(f"{{state}}/fill").st_size,
    "config": as_agent("dd if=/dev/zero of=../config/more bs=1M count=1 2>&1"),
    "files": as_agent("rm -f fill; while i=$((i + 1)); (: >n$i) 2>/dev/null; do :; done; echo $i"),
    "root inside": as_agent(FREE.format(base=BASE), "unshare", "--user", "--map-root-user"),
    "after": as_agent("rm -f n*; echo word >again; cat again"),
}}
mounts.hold(("0123abcd",), BASE, 0, 0)
found["unbounded"] = as_agent("dd if=/dev/zero of=fill bs=1M count=20 2>&1 | tail -1")
os.rename(f"{{tree.TREE}}/0123abcd/kids/89abcdef", f"{{tree.TREE}}/89abcdef")
found["moved"] = os.path.isdir(f"{{tree.TREE}}/89abcdef/state")
print("FOUND " + json.dumps(found))
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    if missing := [name for name in NEEDED if shutil.which(name) is None]:
        pytest.skip(f"no kernel with project quotas to try: {', '.join(missing)} not installed")
    folder = tmp_path_factory.mktemp("quota")
    image, init, script = folder / "disk", folder / "init", folder / "script"
    image.write_bytes(b"")
    with image.open("r+b") as file:
        file.truncate(64 << 20)
    quiet = ("mkfs.ext4", "-q", "-O", "quota,project", "-E", "quotatype=prjquota")
    subprocess.run([*quiet, image], check=True)
    script.write_text(SCRIPT.format(checkout=str(CHECKOUT)))
    init.write_text(INIT.format(script=script))
    init.chmod(0o755)
    kernel = ("linux.uml", "mem=128M", "rootfstype=hostfs", "rootflags=/", "ro", f"init={init}",
              f"ubdb={image}", "con=null", "con0=null,fd:1", "quiet")  # fmt: skip
    # Some of its processes would outlive the first one: all of them end with the group.
    process = subprocess.Popen(
        kernel, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, start_new_session=True,
    )  # fmt: skip
    try:
        said, _ = process.communicate(timeout=120)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    lines = [line for line in said.splitlines() if line.startswith("FOUND ")]
    assert lines, said
    result: dict[str, Any] = json.loads(lines[0].removeprefix("FOUND "))
    return result


def test_the_file_system_stops_an_agent_that_writes_beyond_its_bytes(
    answers: dict[str, Any],
) -> None:
    assert answers["bytes"] == "quota exceeded"
    assert 7 << 20 < answers["written"] <= 8 << 20
    assert "quota exceeded" in answers["config"].lower()  # both count as one


def test_the_file_system_stops_an_agent_that_makes_too_many_files(answers: dict[str, Any]) -> None:
    assert 40 < int(answers["files"]) <= 50


def test_root_of_a_container_changes_neither_its_project_nor_that_it_is_handed_on(
    answers: dict[str, Any],
) -> None:
    assert answers["root inside"].split() == ["refused"] * 3


def test_an_agent_that_cleans_up_may_write_again_and_no_bound_is_none(
    answers: dict[str, Any],
) -> None:
    assert answers["after"] == "word"
    assert "20971520 bytes" in answers["unbounded"]


def test_nodes_move_as_before(answers: dict[str, Any]) -> None:
    """A rename into a directory that hands another project on fails: nodes and kids/ do not."""
    assert answers["moved"] is True
