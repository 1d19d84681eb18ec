# A small hive host for the tests; agents share the programs of the host unless a test says more.
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
