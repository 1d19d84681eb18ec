"""The tests in virtual machines need nixpkgs to run; that they are whole is seen here."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import tomllib

from each import for_each
from nix.module import HERE, NIX, ask

from hive_core.cli.main import COMMANDS

MACHINES = ("host", "config", "nix-image", "demo")


def script(name: str) -> str:
    expression = f'(import {NIX}/tests/{name}.nix {{ self = "/src"; nixpkgs = {{ }}; }}).testScript'
    text: str = ask(expression)
    return text


@for_each("name", MACHINES)
def test_a_script_is_python_and_uses_existing_commands(name: str) -> None:
    tree = ast.parse(script(name))
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    words = {
        word
        for text in texts
        if isinstance(text, str)
        for word in re.findall(r"(?:^|[\"' ])hive ([a-z-]+)", text)
    }
    assert words <= set(COMMANDS), words
    assert name in ("demo", "nix-image") or words


def test_each_machine_is_a_check_of_the_flake() -> None:
    listed = (NIX / "tests" / "default.nix").read_text()
    files = {path.stem for path in (NIX / "tests").glob("*.nix")}
    assert files == {*MACHINES, "default", "machine", "refusals"}
    for name in MACHINES:
        assert f"{name} = run ./{name}.nix;" in listed


def test_edits_of_a_machine_match_the_template() -> None:
    """Its calls of sed, tried on agent.toml."""
    text = script("config")
    template = HERE.parents[1] / "hive_core/seed/host/agent.toml"
    edits: dict[str, object] = {}
    for edit in re.findall(r"edit\((\".*sed.*\")\)", text):
        words = shlex.split(ast.literal_eval(edit).partition(";")[0])
        assert (words[:2], words[3:]) == (["sed", "-i"], ["agent.toml"])
        done = subprocess.run(
            ["sed", words[2], template], capture_output=True, text=True, check=True
        )
        made = tomllib.loads(done.stdout)
        edits |= {**made["harness"], **made["request"]}
    assert (edits["reload"], edits["command"]) == ("live", ["false"])
