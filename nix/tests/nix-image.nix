# Agents of image `nix`: systems that are built on the host from the flake that hive writes. Without a
# network: everything that a build needs is in the machine's store beforehand.
{ self, nixpkgs }:
{
  name = "hive-nix-image";
  nodes.host = { lib, pkgs, ... }:
    let
      agent = name: extra: self.lib.mkAgent {
        inherit name nixpkgs pkgs;
        system = pkgs.stdenv.hostPlatform.system;
        modules = [ ../../hive_core/seed/nix/agent.nix ] ++ extra;
      };
      systems = [
        (agent "worker" [ ])
        (agent "worker" [{ environment.etc."second".text = "second"; }])
      ];
    in
    {
      imports = [ (import ./machine.nix { inherit self; }) ];
      services.hive = {
        defaultImage = "nix";
        root.image = "host";
        meta.flakeInputs = { nixpkgs = "path:${nixpkgs}"; hive = "path:${self}"; };
      };
      # The outputs and everything needed to build them again.
      system.extraDependencies = map (each: each.config.system.build.toplevel) systems
        ++ map (each: each.config.system.build.toplevel.inputDerivation) systems
        ++ [ pkgs.stdenv pkgs.stdenvNoCC ];
      system.includeBuildDependencies = true;
      nix.settings.substituters = lib.mkForce [ ];
      virtualisation.memorySize = 6144;
      virtualisation.diskSize = 16384;
      virtualisation.writableStore = true;
    };

  testScript = ''
    host.wait_for_unit("hived.service")

    with subtest("a new agent is built and boots NixOS"):
        host.succeed("hive agent create worker --no-wait")
        host.succeed("hive wait worker --for running --timeout 900", timeout=1000)
        host.succeed("hive shell worker -- test -e /run/current-system")
        host.succeed("hive shell worker -- test ! -e /nix/var/nix/daemon-socket/socket")

    with subtest("a change is switched to in place"):
        before = host.succeed("systemctl show -P MainPID hive-agent@worker.service")
        host.succeed(
            "hive shell worker -- sh -ec 'cd /tree/config; sed -i \"s|^{ ... }:.*|{ ... }:|; s|^}|environment.etc.second.text = \\\"second\\\"; }|\" agent.nix;"
            " git add -A; git -c user.name=w -c user.email=w@hive commit -qm second'"
        )
        commit = host.succeed("hive shell worker -- git -C /tree/config rev-parse HEAD").strip()
        host.succeed(f"hive call request_apply_commit '{{\"agent\": \"worker\", \"commit\": \"{commit}\", \"message\": \"second\"}}'")
        host.wait_until_succeeds("hive approval list -o json | grep pending")
        approval = host.succeed("hive approval list -o name").split()[0]
        host.succeed(f"hive approval approve {approval} --commit {commit[:8]} --yes --no-wait")
        host.wait_until_succeeds("hive shell worker -- grep second /etc/second", timeout=900)
        assert before == host.succeed("systemctl show -P MainPID hive-agent@worker.service")

    with subtest("the collector of garbage takes nothing that runs"):
        host.succeed("nix-collect-garbage")
        host.succeed("hive restart worker")
        host.succeed("hive wait worker --for running --timeout 60")
        host.succeed("hive shell worker -- grep second /etc/second")
  '';
}
