# Configurations that must be refused, with the expected messages.
{ self, nixpkgs, pkgs }:
let
  inherit (nixpkgs) lib;
  said = hive:
    let
      made = nixpkgs.lib.nixosSystem {
        modules = [
          self.nixosModules.default
          {
            nixpkgs.pkgs = pkgs;
            services.hive = { enable = true; } // hive;
            boot.loader.grub.enable = false;
            fileSystems."/" = { device = "none"; fsType = "tmpfs"; };
            system.stateVersion = "25.05";
          }
        ];
      };
    in
    map (each: each.message) (lib.filter (each: !each.assertion) made.config.assertions);
  refused = text: hive: lib.assertMsg (lib.any (lib.hasInfix text) (said hive)) "no message contains: ${text}";
in
assert said { } == [ ];
assert refused "neither the root agent nor declared" { agents.a.parent = "nobody"; };
assert refused "its own ancestor" { agents = { a.parent = "b"; b.parent = "a"; }; };
assert refused "must be 1 to 32" { agents.A = { }; };
assert refused "unknown image" { defaultImage = "web"; };
pkgs.runCommand "hive-refusals" { } "touch $out"
