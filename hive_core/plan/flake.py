"""The generated `flake.nix`: one system for each agent of the image `nix`. Pure.

Every name and reference is rendered as a quoted string, so none of them can become code. The same
hive gives the same bytes. An agent's module is pinned by path and hash; as an input of the flake,
each deploy would rewrite `flake.lock` (H13).
https://nix.dev/manual/nix/latest/language/string-literals lists what is special within quotes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Self

from hive_core.model.agents.agent import AgentSpec
from hive_core.model.agents.hive import Hive
from hive_core.model.config.settings import NIX_IMAGE, NixSettings

RUNTIME: Final = "/run/hive"
NEEDED: Final = ("hive", "nixpkgs")  # inputs that every system needs
MODULE: Final = "agent.nix"
_HEAD: Final = """\
# Written by hive with every commit: changes by hand are overwritten, and never used.
# What it is made from: agents/*.json, topology.json and [nix] in /etc/hive/hive.toml.
{
"""
_AGENT: Final = """
  outputs = inputs:
    let
      agent = name: { parent, capabilities, path, narHash }:
        inputs.hive.lib.mkAgent {
          inherit name parent capabilities;
          inherit (inputs) nixpkgs;
          system = %s;
          modules = [ "${builtins.fetchTree { type = "path"; inherit path narHash; }}/%s" ];
        };
    in
    {
      nixosConfigurations = builtins.mapAttrs agent {
"""
_ESCAPES: Final = {"\\": r"\\", '"': r"\"", "$": r"\$", "\n": r"\n", "\r": r"\r", "\t": r"\t"}


@dataclass(frozen=True, slots=True)
class Pin:
    """One agent of the flake: its identity, and exactly which files it is built from."""

    name: str
    uuid: str
    parent: str | None
    capabilities: tuple[str, ...]
    commit: str
    nar: str
    runtime: str = RUNTIME

    @property
    def path(self) -> str:
        """The path where an evaluation finds the files of the commit: the one that the agent has.

        So the operator can evaluate a deployed flake on the host. Jobs put the files there.
        """
        return f"{self.runtime}/agents/{self.uuid}/run/.configs/{self.commit}"

    @classmethod
    def of(cls, name: str, parent: str | None, spec: AgentSpec) -> Self | None:
        """None when the agent is not built by Nix, or has no configuration yet."""
        if spec.image != NIX_IMAGE or spec.config is None or spec.nar is None:
            return None
        return cls(name, spec.id, parent, spec.capabilities, spec.config, spec.nar)


def pins(hive: Hive) -> list[Pin]:
    """The agents that the flake holds."""
    parents = hive.topology.parents
    candidates = (Pin.of(name, parents[name], spec) for name, spec in hive.specs.items())
    return [pin for pin in candidates if pin is not None]


def agents_built_from_inputs(hive: Hive) -> list[str]:
    """The agents that are built from the inputs, parents first."""
    topology = hive.topology
    order = (name for root in topology.roots for name in topology.subtree(root))
    specs = ((name, hive.specs[name]) for name in order)
    return [name for name, spec in specs if spec.image == NIX_IMAGE and spec.config is not None]


def render(nix: NixSettings, agents: Iterable[Pin]) -> bytes:
    """The whole file. Without the inputs that every system needs, it contains no system."""
    whole = all(name in nix.inputs for name in NEEDED)
    lines = [_HEAD, "  inputs = {\n", *_inputs(nix.inputs), "  };\n"]
    lines.append(_AGENT % (quote(nix.system), MODULE))
    lines += [_agent(pin) for pin in sorted(agents, key=lambda pin: pin.name)] if whole else []
    return "".join([*lines, "      };\n    };\n}\n"]).encode()


def quote(text: str) -> str:
    """A string literal of the Nix language for exactly this text."""
    if "\0" in text:
        raise ValueError("a Nix string cannot contain NUL")
    return '"' + "".join(_ESCAPES.get(char, char) for char in text) + '"'


def _inputs(inputs: Mapping[str, str]) -> Iterable[str]:
    for name, reference in sorted(inputs.items()):
        yield f"    {quote(name)}.url = {quote(reference)};\n"
        if name == "hive" and "nixpkgs" in inputs:
            yield f'    {quote(name)}.inputs.nixpkgs.follows = "nixpkgs";\n'


def _agent(pin: Pin) -> str:
    capabilities = "".join(f" {quote(capability)}" for capability in sorted(pin.capabilities))
    fields = {
        "parent": "null" if pin.parent is None else quote(pin.parent),
        "capabilities": f"[{capabilities} ]",
        "path": quote(pin.path),
        "narHash": quote(pin.nar),
    }
    lines = "".join(f"          {key} = {value};\n" for key, value in fields.items())
    return f"        {quote(pin.name)} = {{\n{lines}        }};\n"
