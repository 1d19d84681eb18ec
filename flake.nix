{
  description = "A tree of AI agents on one host, each in its own systemd-nspawn container";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      inherit (nixpkgs) lib;
      each = make: lib.genAttrs [ "x86_64-linux" "aarch64-linux" ] (system: make nixpkgs.legacyPackages.${system});
      tests = pkgs: import ./nix/tests { inherit self nixpkgs pkgs; };
    in
    {
      nixosModules = {
        default = ./nix/module.nix;
        agent = ./nix/agent-base.nix;
      };

      lib.mkAgent = import ./nix/mk-agent.nix { inherit nixpkgs; };

      overlays.default = final: _: { hive = final.callPackage ./nix/package.nix { }; };

      packages = each (pkgs: rec {
        hive = pkgs.callPackage ./nix/package.nix { };
        default = hive;
      });

      # The scenes of scripts/demo, on a virtual NixOS machine.
      apps = each (pkgs: {
        demo = {
          type = "app";
          program = lib.getExe (tests pkgs).demo.driver;
          meta.description = "The main job of hive, start to end, on a virtual machine";
        };
      });

      devShells = each (pkgs: {
        default = pkgs.mkShell {
          inputsFrom = [ self.packages.${pkgs.stdenv.hostPlatform.system}.hive ];
          packages = with pkgs.python3.pkgs; [ hypothesis import-linter mypy pytest pytest-xdist pkgs.ruff ];
        };
      });

      checks = each (pkgs: tests pkgs // { package = self.packages.${pkgs.stdenv.hostPlatform.system}.hive; });
    };
}
