# mkAgent: one agent of image `nix` as a NixOS system. The flake that hive writes calls only this.
#
# The agent's parent and rights are stored outside the system, so that a move or another capability
# rebuilds nothing.
{ nixpkgs }:
let
  ours = nixpkgs;
in
{ name
, parent ? null
, capabilities ? [ ]
, modules ? [ ]
, system ? "x86_64-linux"
, nixpkgs ? ours
  # The same for every agent, so that packages are evaluated once.
, pkgs ? nixpkgs.legacyPackages.${system}
, specialArgs ? { }
}:
nixpkgs.lib.nixosSystem
  {
    inherit system specialArgs;
    modules = [
      ./agent-base.nix
      {
        networking.hostName = nixpkgs.lib.mkForce name;
        nixpkgs.pkgs = nixpkgs.lib.mkDefault pkgs;
      }
    ] ++ modules;
  } // {
  passthru.hive = { inherit name parent capabilities; };
}
