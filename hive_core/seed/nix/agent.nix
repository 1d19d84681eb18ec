# agent.nix: what runs in this agent's container beside hive's own, as one NixOS module.
#
# It is evaluated as the inside of the container only: what the container itself may do (mounts,
# network, limits) is asked for in `[request]` of agent.toml. Evaluation is pure; nothing is fetched
# and nothing is built meanwhile. Take `pkgs` as an argument (`{ pkgs, ... }:`) for packages.
{ ... }:
{
  # Programs of the agent.
  # environment.systemPackages = [ pkgs.ripgrep pkgs.jq ];

  # Variables of its services.
  # systemd.globalEnvironment.EDITOR = "true";

  # A service of its own.
  # systemd.services.notes = {
  #   wantedBy = [ "multi-user.target" ];
  #   serviceConfig.ExecStart = "${pkgs.coreutils}/bin/sleep infinity";
  # };
}
