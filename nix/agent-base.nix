# The common base of every agent of image `nix`. hive sets the container itself, its mounts and its
# limits: neither this file nor an agent's module can change them.
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
        The command of the agent if its spec has none. Empty: the agent runs nothing, and its mail
        waits. Its configuration is in /run/hive/config.
      '';
    };
    environment = mkOption {
      type = types.attrsOf types.str;
      default = { };
      description = "Additional variables. Do not put secrets here: every agent can read the store.";
    };
    path = mkOption {
      type = types.listOf (types.either types.package types.str);
      default = [ ];
      description = "Packages on the agent's PATH.";
    };
    secrets = mkOption {
      type = types.listOf (types.strMatching "[A-Za-z0-9][A-Za-z0-9._-]{0,63}");
      default = [ ];
      example = [ "api-key" ];
      description = ''
        Secrets that the agent needs, as granted by the capability secret:KEY. They are files in the
        directory CREDENTIALS_DIRECTORY. The agent does not start without them.
      '';
    };
  };

  config = {
    boot = { isContainer = true; }
      // lib.optionalAttrs (options ? boot.isNspawnContainer) { isNspawnContainer = true; };

    networking.useHostResolvConf = false;
    networking.useDHCP = mkDefault false;
    # Only the loopback network exists; a capability adds a network, with rules of the host.
    networking.firewall.enable = mkDefault false;

    # Manuals take half the time of an evaluation.
    documentation.enable = mkDefault false;
    documentation.nixos.enable = mkDefault false;

    users.mutableUsers = false;
    users.allowNoPasswordLogin = true;
    # Containers get no new privileges, so sudo cannot work.
    security.sudo.enable = mkDefault false;

    # An agent has no Nix daemon. Its system is built on the host after approval.
    nix.enable = mkDefault false;

    # The agent edits its configuration in git.
    programs.git.enable = mkDefault true;

    # The console forwards log lines to the host; the journal inside is for `systemctl status`.
    environment.etc."systemd/journald.conf.d/hive.conf".text = ''
      [Journal]
      Storage=volatile
      RuntimeMaxUse=16M
      ForwardToConsole=yes
      MaxLevelConsole=info
    '';
    systemd.services.console-getty.enable = false;

    # hive-agent is bound from the host, which may expect its Python under this path.
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

    # The agent's files are in /tree; the rest of its system is created again at each start.
    system.stateVersion = mkDefault "25.05";
  };
}
