# The scenes of scripts/demo on a NixOS machine; `nix run .#demo`.
{ self, ... }:
{
  name = "hive-demo";
  nodes.host = {
    imports = [ (import ./machine.nix { inherit self; }) ];
  };
  testScript = ''
    host.wait_for_unit("hived.service")
    host.succeed("bash ${self}/scripts/demo --inside >&2")
  '';
}
