# Tests on virtual machines; they need nixpkgs: `nix flake check`.
# https://nixos.org/manual/nixos/stable/#sec-nixos-tests
{ self, nixpkgs, pkgs }:
let
  run = file: pkgs.testers.runNixOSTest (import file { inherit self nixpkgs; });
in
{
  host = run ./host.nix;
  config = run ./config.nix;
  nix-image = run ./nix-image.nix;
  demo = run ./demo.nix;
  refusals = import ./refusals.nix { inherit self nixpkgs pkgs; };
}
