# What every agent of image `nix` has inside. The container itself, its mounts and its limits are
# hive's: nothing that stands here or in an agent's module reaches them.
{ config, lib, options, pkgs, ... }:
let
  inherit (lib) mkDefault mkIf mkOption types;

  cfg = config.hive.harness;
  variables = [ "HIVE_NAME" "HIVE_PARENT" "HIVE_SOCKET" "PYTHONPATH" ];
in
{
  options.hive.harness = {
    command = mkOption {
      type = types.listOf types.str;
      default = [ ];
      example = [ "/tree/state/bin/agent" "--serve" ];
      description = ''
        What the agent runs, when its spec has no command; empty: it holds, and its mail waits. It
        reads its configuration in /run/hive/config.
      '';
    };
    environment = mkOption {
      type = types.attrsOf types.str;
      default = { };
      description = "More variables. Never a secret: every agent can read the store.";
    };
    path = mkOption {
      type = types.listOf (types.either types.package types.str);
      default = [ ];
      description = "Packages on its PATH.";
    };
    secrets = mkOption {
      type = types.listOf (types.strMatching "[A-Za-z0-9][A-Za-z0-9._-]{0,63}");
      default = [ ];
      example = [ "api-key" ];
      description = ''
        Secrets that it must have, which the capability secret:KEY gives; it finds them in the
        directory that CREDENTIALS_DIRECTORY names. Without one of them it does not start.
      '';
    };
  };

  config = {
    boot = { isContainer = true; }
      // lib.optionalAttrs (options ? boot.isNspawnContainer) { isNspawnContainer = true; };

    networking.useHostResolvConf = false;
    networking.useDHCP = mkDefault false;
    # There is the loopback alone; a network comes by capability, with rules of the host's.
    networking.firewall.enable = mkDefault false;

    # Half the time of an evaluation goes into manuals that nobody reads.
    documentation.enable = mkDefault false;
    documentation.nixos.enable = mkDefault false;

    users.mutableUsers = false;
    users.allowNoPasswordLogin = true;
    # No new privileges: it could not work.
    security.sudo.enable = mkDefault false;

    # An agent has no Nix daemon. Its system is built on the host, once that is approved.
    nix.enable = mkDefault false;

    # It edits its configuration in git.
    programs.git.enable = mkDefault true;

    # Lines go to the host by the console; what is kept inside is for `systemctl status`.
    environment.etc."systemd/journald.conf.d/hive.conf".text = ''
      [Journal]
      Storage=volatile
      RuntimeMaxUse=16M
      ForwardToConsole=yes
      MaxLevelConsole=info
    '';
    systemd.services.console-getty.enable = false;

    # hive-agent is bound into the container from the host, which may know its Python as this.
    systemd.tmpfiles.rules = [ "L+ /usr/bin/python3 - - - - ${pkgs.python3}/bin/python3" ];

    systemd.services.hive-harness = mkIf (cfg.command != [ ]) {
      description = "The agent";
      wantedBy = [ "multi-user.target" ];
      after = [ "hive-seed.service" ];
      unitConfig.ConditionPathExists = "/run/hive/broker.sock";
      inherit (cfg) environment;
      path = [ "/opt/hive" ] ++ cfg.path;
      serviceConfig = {
        ExecStart = ":${lib.concatMapStringsSep " " builtins.toJSON (map (lib.replaceStrings [ "%" ] [ "%%" ]) cfg.command)}";
        PassEnvironment = variables;
        LoadCredential = map (key: "${key}:/run/hive/credentials/${key}") cfg.secrets;
        WorkingDirectory = "/tree/state";
        Restart = "on-failure";
        RestartSec = "1s";
        OOMPolicy = "continue";
      };
    };

    # What an agent keeps lies in /tree; the rest of its system is made anew at each start.
    system.stateVersion = mkDefault "25.05";
  };
}
