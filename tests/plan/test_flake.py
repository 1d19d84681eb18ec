"""The generated flake: the same bytes for the same hive, and no text of anybody becomes code."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from fixtures.plans import hive, spec
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_core.model.config.settings import NixSettings
from hive_core.plan.flake import Pin, pins, quote, render

NIX = NixSettings(
    inputs={"hive": "github:somebody/hive", "nixpkgs": "path:/usr/share/x?a=b&c=${d}"[:24]}
)
PIN = Pin("bob", "0" * 36, "alice", ("spawn",), "c" * 40, "sha256-" + "A" * 43 + "=")
# What the language gives a meaning to, near what it does not.
HOSTILE = st.text(st.sampled_from("\\\"'${}\n\r\t;#/* x") | st.characters(codec="utf-8"))


def nix(folder: Path, expression: str) -> object:
    """What Nix itself makes of an expression: it is parsed and evaluated, nothing is built."""
    (folder / "expression.nix").write_bytes(expression.encode())
    store = ["--store", f"{folder}/root"]
    words = ["nix-instantiate", *store, "--eval", "--strict", "--json", f"{folder}/expression.nix"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def parse(folder: Path, flake: bytes) -> object:
    """The file as Nix sees it, with a stand-in for what mkAgent and the fetcher do."""
    (folder / "flake.nix").write_bytes(flake)
    outputs = '(f.outputs { hive.lib.mkAgent = a: removeAttrs a [ "modules" ]; nixpkgs = 1; })'
    return nix(folder, f"let f = import {folder}/flake.nix; in {{ inherit (f) inputs;"
                       f" agents = {outputs}.nixosConfigurations; }}")  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("flake")


@settings(max_examples=10)
@given(texts=st.lists(HOSTILE.filter(lambda text: "\0" not in text), min_size=40, max_size=80))
def test_every_quoted_text_is_that_text_to_nix(folder: Path, texts: list[str]) -> None:
    values = nix(folder, "[" + " ".join(map(quote, texts)) + "]")
    assert values == texts


def test_a_text_that_nix_cannot_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="NUL"):
        quote("a\0b")


@settings(max_examples=8)
@given(name=HOSTILE, capability=HOSTILE, commit=HOSTILE)
def test_no_name_becomes_code(folder: Path, name: str, capability: str, commit: str) -> None:
    """Names are checked long before; the rendering does not rely on that."""
    texts = [text.replace("\0", "") for text in (name, capability, commit)]
    pin = replace(PIN, name=texts[0], capabilities=(texts[1],), commit=texts[2])
    values = parse(folder, render(NIX, [pin]))
    wanted = {"name": texts[0], "parent": "alice", "capabilities": [texts[1]], "nixpkgs": 1,
              "system": "x86_64-linux"}  # fmt: skip
    assert values == {"inputs": inputs(), "agents": {texts[0]: wanted}}


def inputs() -> Mapping[str, object]:
    rows: dict[str, dict[str, object]] = {name: {"url": url} for name, url in NIX.inputs.items()}
    rows["hive"]["inputs"] = {"nixpkgs": {"follows": "nixpkgs"}}
    return rows


def test_the_same_agents_in_any_order_give_the_same_bytes() -> None:
    others = [replace(PIN, name=name, capabilities=("b", "a")) for name in ("x", "a", "m")]
    again = [replace(pin, capabilities=("a", "b")) for pin in reversed(others)]
    assert render(NIX, others) == render(NIX, again)


def test_the_flake_holds_the_agents_of_the_image_nix_that_have_a_configuration() -> None:
    """H4: with the parent of each; agents of other images do not concern Nix."""
    made = {"config": PIN.commit, "nar": PIN.nar, "title": '"; evil = "'}
    tree = {"alice": None, "bob": "alice", "carl": "bob", "dora": "bob"}
    specs = {
        "bob": spec(1, image="nix", **made),
        "carl": spec(2, image="host", **made),
        "dora": spec(3, image="nix"),
    }
    (pin,) = pins(hive(tree, specs))
    assert (pin.name, pin.parent, pin.commit) == ("bob", "alice", PIN.commit)
    assert pin.path == f"/run/hive/agents/{specs['bob'].id}/run/.configs/{PIN.commit}"
    text = render(NIX, [pin]).decode()
    assert 'parent = "alice";' in text
    assert "evil" not in text


@pytest.mark.parametrize("missing", ["hive", "nixpkgs"])
def test_without_the_inputs_that_systems_are_made_of_there_are_none(
    folder: Path, missing: str
) -> None:
    less = NixSettings(inputs={name: url for name, url in NIX.inputs.items() if name != missing})
    values = parse(folder, render(less, [PIN]))
    assert isinstance(values, dict)
    assert values["agents"] == {}
