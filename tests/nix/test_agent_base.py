"""nix/agent-base.nix and nix/mk-agent.nix: what is inside an agent of image `nix`."""

from __future__ import annotations

from typing import Any

from each import for_each
from nix.module import HERE, NIX, ask, assignments, expression

BASE = f"s.evaluate (import {NIX}/agent-base.nix)"


def inside(wanted: str, **harness: object) -> Any:  # noqa: ANN401 - JSON
    return ask(f"let a = {BASE} ({expression({'hive': {'harness': harness}})}); in {wanted}")


def unit(**harness: object) -> dict[tuple[str, str], list[str]]:
    return assignments(inside("s.units a.config", **harness)["hive-harness.service"])


def test_the_image_leaves_out_what_a_container_cannot_use() -> None:
    config = inside('removeAttrs a.config [ "systemd" ]')
    assert config["boot"] == {"isContainer": True}
    assert config["networking"]["useHostResolvConf"] is False
    assert (config["nix"]["enable"], config["security"]["sudo"]["enable"]) == (False, False)
    assert config["users"]["mutableUsers"] is False
    assert config["documentation"] == {"enable": False, "nixos": {"enable": False}}


def test_log_lines_go_to_the_host_and_are_not_stored_inside() -> None:
    text = inside('a.config.environment.etc."systemd/journald.conf.d/hive.conf".text')
    values = assignments(text)
    assert values["Journal", "ForwardToConsole"] == ["yes"]
    assert values["Journal", "Storage"] == ["volatile"]
    assert values["Journal", "RuntimeMaxUse"] == ["16M"]


def test_the_harness_gets_its_identity_and_secrets() -> None:
    """Rows H4 and H28: HIVE_PARENT from outside, and secrets as credentials."""
    values = unit(command=["serve", "a b", "100%"], secrets=["api-key"], environment={"A": "b"})
    assert values["Service", "PassEnvironment"] == [
        "HIVE_NAME", "HIVE_PARENT", "HIVE_SOCKET", "PYTHONPATH",
    ]  # fmt: skip
    assert values["Service", "LoadCredential"] == ["api-key:/run/hive/credentials/api-key"]
    assert values["Service", "ExecStart"] == [':"serve" "a b" "100%%"']
    assert '"A=b"' in values["Service", "Environment"]


def test_without_a_command_there_is_no_harness() -> None:
    assert "hive-harness.service" not in inside("s.units a.config")


def mk_agent(asked: str) -> Any:  # noqa: ANN401 - JSON
    """mkAgent over a nixosSystem that returns its arguments."""
    nixpkgs = (
        "{ lib = s.lib // { nixosSystem = given: given; }; legacyPackages.x86_64-linux = { }; }"
    )
    return ask(f"let mk = import {NIX}/mk-agent.nix {{ nixpkgs = {nixpkgs}; }}; in {asked}")


def test_h4_parent_and_rights_are_no_part_of_the_system() -> None:
    """Row H4: a move rebuilds nothing, and neither does a capability."""
    one = 'mk { name = "ann"; parent = "root"; capabilities = [ "meta.read" ]; }'
    other = 'mk { name = "ann"; parent = "bob"; }'
    bare = '(removeAttrs (%s) [ "passthru" ])'
    assert mk_agent(f"{bare % one} == {bare % other}")
    assert not mk_agent(f"{bare % one} == {bare % other.replace('ann', 'eve')}")
    assert mk_agent(f"({one}).passthru.hive") == {
        "name": "ann", "parent": "root", "capabilities": ["meta.read"]
    }  # fmt: skip


@for_each(
    "attribute",
    ["nixosModules", "lib", "packages", "apps", "devShells", "checks"],
)
def test_the_flake_has_the_documented_outputs(attribute: str) -> None:
    nixpkgs = (
        "{ lib = s.lib // { genAttrs = names: f: builtins.listToAttrs (map (name: { inherit name;"
        " value = f name; }) names); }; legacyPackages = { x86_64-linux = { callPackage = _: _: 1;"
        ' stdenv.hostPlatform.system = "x86_64-linux"; testers.runNixOSTest = _: { driver = 1; };'
        " mkShell = _: 1; }; aarch64-linux = { }; }; }"
    )
    flake = f"(import {HERE.parents[1]}/flake.nix)"
    outputs = f"let self = {flake}.outputs {{ inherit self; nixpkgs = {nixpkgs}; }}; in self"
    system = "" if attribute in ("nixosModules", "lib") else ".x86_64-linux"
    expected = {
        "nixosModules": ["agent", "default"], "lib": ["mkAgent"], "apps": ["demo"],
        "packages": ["default", "hive"], "devShells": ["default"],
        "checks": ["config", "demo", "host", "nix-image", "package", "refusals"],
    }  # fmt: skip
    assert ask(f"builtins.attrNames ({outputs}).{attribute}{system}") == expected[attribute]
    assert ask(f"builtins.attrNames {flake}.inputs") == ["nixpkgs"]
