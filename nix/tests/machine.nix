# A small hive host for the tests; agents share the host's programs unless a test changes that.
{ self }:
{ lib, pkgs, ... }:
{
  imports = [ self.nixosModules.default ];
  services.hive = {
    enable = true;
    operators = [ "alice" ];
    defaultImage = lib.mkDefault "host";
    deploy.healthWindow = 2;
  };
  users.users.alice.isNormalUser = true;
  environment.systemPackages = [ pkgs.git pkgs.jq pkgs.python3 ];
  virtualisation.memorySize = 2048;
  virtualisation.diskSize = 4096;
}
