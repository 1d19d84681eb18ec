"""The same programs with the Nix of Debian 13 (2.26), from that tree."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TREE = Path("/var/cache/hive-lab/trixie-nix")
CHECKOUT = Path(__file__).resolve().parents[2]
# A real root and not a chroot, in which no user namespace can be made, so no sandbox either. It
# sees our /tmp, where the stores of the tests lie.
SHIM = f"""#!/bin/sh
exec unshare --mount --propagation private sh -ec '
mount --bind {TREE} {TREE}; cd {TREE}; mount -t proc proc proc; mount --rbind /dev dev
mount -t tmpfs tmpfs run; mount --bind /tmp tmp; mkdir -p .old; pivot_root . .old; umount -l /.old
exec /usr/bin/nix "$@"' sh "$@"
"""


@pytest.fixture(scope="module")
def tree() -> Path:
    if not (TREE / ".complete").exists():
        subprocess.run([CHECKOUT / "scripts/setup", "--trixie"], check=True)  # brings mmdebstrap
        make = ["mmdebstrap", "--quiet", "--variant=minbase", "--include=nix-bin", "trixie"]
        subprocess.run(["rm", "-rf", TREE], check=True)
        subprocess.run([*make, TREE], check=True)
        (TREE / ".complete").touch()
    return TREE


@pytest.mark.long
def test_evaluations_and_builds_of_hostile_modules_with_a_newer_nix(
    tree: Path, tmp_path: Path
) -> None:
    (tmp_path / "nix").write_text(SHIM)
    (tmp_path / "nix").chmod(0o755)
    newer = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    completed = subprocess.run(
        ["nix", "--version"], env=newer, capture_output=True, text=True, check=True
    )
    assert (tree / "usr/bin/nix").exists()
    assert completed.stdout.rpartition(" ")[2] > "2.2"
    assert "2.8" not in completed.stdout
    files = [str(Path(__file__).parent / name) for name in ("test_programs.py", "test_builder.py")]
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files]
    done = subprocess.run(
        words, env=newer, cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:]
