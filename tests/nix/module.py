"""nix/module.nix, evaluated with the small stand-in for nixpkgs in standin.nix."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from hive_core.plan.flake import quote

HERE: Final = Path(__file__).parent
NIX: Final = HERE.parents[1] / "nix"
STORE: Final = "/nix/store/00000000000000000000000000000000-hive"  # the package of the stand-in


class Refused(Exception):
    """Nix refuses the module; holds its message."""


def expression(value: object) -> str:
    """A value of Python as an expression of Nix."""
    if isinstance(value, dict):
        return "{ " + " ".join(f"{quote(k)} = {expression(v)};" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[ " + " ".join(map(expression, value)) + " ]"
    return quote(value) if isinstance(value, str) else json.dumps(value)


def ask(wanted: str, host: Mapping[str, object] | None = None) -> Any:  # noqa: ANN401 - JSON
    """Evaluate `what`, in which `s` is the stand-in and `e` the module with this host."""
    text = (
        f"let s = import {HERE}/standin.nix; "
        f"e = s.evaluate (import {NIX}/module.nix) ({expression(host or host_with())}); in {wanted}"
    )
    done = subprocess.run(
        ["nix-instantiate", "--store", "dummy://", "--eval", "--strict", "--json", "-E", text],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise Refused(done.stderr)
    return json.loads(done.stdout)


def host_with(**options: object) -> dict[str, object]:
    """A host that has hive, with these options."""
    return {"services": {"hive": {"enable": True, **options}}}


def units() -> dict[str, str]:
    written: dict[str, str] = ask(
        "s.units e.config", host_with(agents={"ann": {}}, models={"small": {"enable": True}})
    )
    return written


def assignments(unit: str) -> dict[tuple[str, str], list[str]]:
    """A unit as what it assigns: values of (section, key) in their order."""
    values: dict[tuple[str, str], list[str]] = {}
    section = ""
    for line in unit.splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith(("#", ";")):
            key, _, value = line.partition("=")
            values.setdefault((section, key), []).append(value)
    return values
