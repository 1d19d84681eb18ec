"""nix/package.nix: what it lays down is where the units of the module look for it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from nix.module import HERE, NIX, STORE, ask

import hive_core

SITE = "lib/python3.99/site-packages"
NEEDED = ("sh", "bash", "env", "python3", "git", "nix", "find", "cp", "sed", "grep", "mount",
          "mountpoint", "tar")  # fmt: skip


@pytest.fixture(scope="module")
def package() -> dict[str, Any]:
    derivation: dict[str, Any] = ask(f'import {HERE}/package.nix {{ inherit s; site = "{SITE}"; }}')
    return derivation


@pytest.fixture(scope="module")
def out(package: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An output, as the scripts of the package leave it."""
    out = tmp_path_factory.mktemp("out")
    shutil.copytree(Path(hive_core.__file__).parent, out / SITE / "hive_core", symlinks=True)
    text = package["postInstall"] + package["postFixup"].partition("installShellCompletion")[0]
    subprocess.run(["bash", "-euc", text], check=True, env={**os.environ, "out": str(out)})
    return out


def test_the_units_name_existing_files(out: Path) -> None:
    named = {
        path
        for unit in (HERE / "golden").iterdir()
        for path in re.findall(rf"{STORE}(/lib/[^\s:\"]*)", unit.read_text())
    }
    assert named >= {"/lib/hive/hive_core/privd/hive-prepare", "/lib/hive/usr/bin"}
    for path in named:
        assert (out / path[1:]).exists(), path


def test_containers_find_programs_and_the_identity_of_the_system(out: Path) -> None:
    programs = out / "lib/hive/usr/bin"
    assert [name for name in NEEDED if not (programs / name).exists()] == []
    assert (out / "lib/hive/usr/sbin/sh").exists()
    assert (out / "lib/hive/usr/lib/os-release").readlink() == Path("/etc/os-release")


def test_programs_for_containers_are_not_patched(out: Path) -> None:
    """Not every image shows the store, so no path of it may stand in a first line."""
    for name, first in (("hive-start", "#!/bin/sh"), ("hive-agent", "#!/usr/bin/python3 -I")):
        file = out / "lib/hive/hive_core/privd/guest/bin" / name
        assert os.access(file, os.X_OK)
        assert file.read_text().splitlines()[0] == first


def test_the_package_has_version_and_dependencies_of_pyproject(package: dict[str, Any]) -> None:
    project = tomllib.loads((NIX.parent / "pyproject.toml").read_text())["project"]
    wanted = {re.split(r"[><=]", name)[0] for name in project["dependencies"]}
    names = set(package["dependencies"]) - {"typing-extensions"}  # comes with pydantic elsewhere
    assert names == {name.removesuffix("-python") for name in wanted}
    assert package["version"] == hive_core.VERSION
    for path in package["enabledTestPaths"]:
        assert (NIX.parent / path).is_dir()
