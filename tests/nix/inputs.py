"""Inputs that stand in for nixpkgs and hive: nothing is fetched, real systems come out.

A system starts in a container that shows the store and nothing else of the host, so a shell, its
first process and (`python=True`) what `hive-agent` needs lie in the store, as part of the input.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).parent / "fixture"
_SKIPPED: Final = shutil.ignore_patterns(
    "__pycache__", "test*", "idlelib", "ensurepip", "lib2to3", "tkinter", "pydoc_data", "dist-*",
    "config-*", "turtle*", "distutils", "unittest", "*.a",
)  # fmt: skip


def make(folder: Path, *, python: bool = False) -> dict[str, str]:
    """The inputs below `folder`, and the references for `[nix] inputs`."""
    shutil.copytree(SOURCE / "nixpkgs", folder / "nixpkgs")
    shutil.copytree(SOURCE / "hive", folder / "hive")
    usr = folder / "nixpkgs/usr"
    (usr / "bin").mkdir(parents=True)
    shutil.copy2("/bin/busybox", usr / "bin/busybox")
    compiler = ["gcc", "-O1", "-static", "-Wno-unused-result", "-o"]
    subprocess.run([*compiler, usr / "bin/init", SOURCE / "init.c"], check=True)
    if python:
        _python(usr)
    return {name: f"path:{folder / name}" for name in ("hive", "nixpkgs")}


def _python(usr: Path) -> None:
    """Debian's interpreter with its standard library and the libraries that these load."""
    (source,) = Path("/usr/lib").glob("python3.1[0-9]")
    version = source.name
    shutil.copy2(f"/usr/bin/{version}", usr / "bin/python3")
    shutil.copytree(source, usr / "lib" / version, ignore=_SKIPPED)
    (usr / "lib64").mkdir()
    for library in _libraries(Path(f"/usr/bin/{version}")):
        place = "lib64" if library.name.startswith("ld-") else "lib"
        shutil.copy2(library, usr / place / library.name)


def _libraries(program: Path) -> list[Path]:
    listing = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return [Path(path) for path in re.findall(r"(/\S+\.so\S*)", listing)]
