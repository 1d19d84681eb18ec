# hive as a NixOS module: `services.hive.enable = true` makes this machine a hive host.
{ config, lib, pkgs, ... }:
let
  inherit (lib) mkDefault mkIf mkOverride optionalAttrs;

  cfg = config.services.hive;
  names = import ./names.nix { inherit lib; };
  toTOML = import ./toml.nix { inherit lib; };

  # Paths in the package, as set by package.nix.
  home = "${cfg.package}/lib/hive";
  tools = "${home}/usr";
  units = import ./units.nix {
    inherit lib;
    places = {
      BIN = "${cfg.package}/bin";
      PYTHON = "${tools}/bin/python3";
      PACKAGE = "${home}/hive_core";
      SMALL = "${cfg.models.small.package}";
    };
  };
  model = "hive-model"; # the account that calls providers
  egress = "hive-egress"; # the account that connects agents to the internet
  hostUnits = ../hive_core/host/unit_files;
  privdUnits = ../hive_core/privd/unit_files;

  present = lib.filterAttrs (_: value: value != null);

  given = lib.recursiveUpdate {
    default_image = cfg.defaultImage;
    uid_start = cfg.uidStart;
    images = lib.mapAttrs (_: path: "${path}") cfg.images // { host = ""; nix = ""; };
    root = present { inherit (cfg.root) name autostart image boot command; };
    nix = { inputs = cfg.meta.flakeInputs; system = pkgs.stdenv.hostPlatform.system; };
    approvals = { inherit (cfg.approval) pending expires; a_day = cfg.approval.perDay; };
    deploy = {
      window = cfg.deploy.healthWindow;
      inherit (cfg.retention) generations;
      first_wave = cfg.deploy.firstWave;
      second_wave = cfg.deploy.secondWave;
      evaluation = cfg.deploy.evalTimeout;
      build = cfg.deploy.buildTimeout;
      switch = cfg.deploy.switchTimeout;
    };
    grace.start = cfg.deploy.startTimeout;
    web = { inherit (cfg.web) origins; };
    retention.archive = cfg.retention.archive;
  } (lib.recursiveUpdate
    (optionalAttrs (cfg.notify.routes != { }) { notify = { inherit (cfg.notify) routes; }; }
      // optionalAttrs (cfg.otel.url != "") { otel = { inherit (cfg.otel) url service texts; }; })
    cfg.settings);

  # Whether a receiver is set, by an option or by `settings`.
  hasReceiver = (given.notify.routes or { }) != { } || (given.otel.url or "") != "";

  # The file for `hive declare`, with the parameters of the operation that creates an agent.
  declared = lib.mapAttrs
    (_: agent: present {
      inherit (agent) parent role tier title image boot command capabilities tools wakes;
      add_capabilities =
        if agent.secretFiles == { } then null else map (key: "secret:${key}") (lib.attrNames agent.secretFiles);
      limits = present {
        memory_max = agent.limits.memoryMax;
        memory_high = agent.limits.memoryHigh;
        tasks_max = agent.limits.tasksMax;
        cpu_quota = agent.limits.cpuQuota;
        cpu_weight = agent.limits.cpuWeight;
        io_weight = agent.limits.ioWeight;
        inherit (agent.limits) disk inodes;
      };
    })
    cfg.agents;

  # Each secret of a declared agent: the agent, the key, and the file on this host.
  secrets = lib.concatMap
    (name: lib.mapAttrsToList (key: file: { inherit name key; file = toString file; }) cfg.agents.${name}.secretFiles)
    (lib.attrNames cfg.agents);

  files = {
    "hive/hive.toml" = toTOML given;
    # The root helper accepts paths of images only from this file.
    "hive/images" = lib.concatStrings (lib.mapAttrsToList (name: path: "${name} ${path}\n") cfg.images);
    "hive/agents.json" = builtins.toJSON declared;
  } // optionalAttrs (cfg.models.settings != { }) {
    "hive/models.toml" = toTOML cfg.models.settings;
  } // optionalAttrs (cfg.approval.allowedSigners != "") {
    "hive/allowed_signers" = cfg.approval.allowedSigners;
  };
  # Enough for a command that only uses one socket.
  forClients = {
    CapabilityBoundingSet = "";
    DevicePolicy = "closed";
    IPAddressDeny = "any";
    LimitCORE = "0";
    LockPersonality = "yes";
    MemoryDenyWriteExecute = "yes";
    NoNewPrivileges = "yes";
    PrivateDevices = "yes";
    PrivateNetwork = "yes";
    PrivateTmp = "yes";
    ProcSubset = "pid";
    ProtectClock = "yes";
    ProtectControlGroups = "yes";
    ProtectHome = "yes";
    ProtectHostname = "yes";
    ProtectKernelLogs = "yes";
    ProtectKernelModules = "yes";
    ProtectKernelTunables = "yes";
    ProtectProc = "invisible";
    ProtectSystem = "strict";
    RemoveIPC = "yes";
    RestrictAddressFamilies = "AF_UNIX";
    RestrictNamespaces = "yes";
    RestrictRealtime = "yes";
    RestrictSUIDSGID = "yes";
    SystemCallArchitectures = "native";
    SystemCallErrorNumber = "EPERM";
    SystemCallFilter = [ "@system-service" "~@privileged @resources" ];
    UMask = "0077";
  };
  mark = name: builtins.hashString "sha256" files.${name};
  markOf = value: builtins.hashString "sha256" (builtins.toJSON value);
in
{
  options.services.hive = import ./options.nix { inherit lib pkgs names; };

  config = mkIf cfg.enable {
    assertions = import ./assertions.nix { inherit lib cfg config names given; };

    warnings =
      lib.optional (cfg.defaultImage == "nix" && !(cfg.meta.flakeInputs ? nixpkgs && cfg.meta.flakeInputs ? hive))
        "services.hive.meta.flakeInputs lacks nixpkgs or hive: agents of image nix can be made, but none can be built"
      ++ lib.optional (cfg.operators == [ ])
        "services.hive.operators is empty: only root can run `hive` and approve";

    environment.systemPackages = [ cfg.package ];
    environment.etc = lib.mapAttrs (_: text: { inherit text; }) files;

    users.groups.${cfg.group} = { };
    users.groups.${cfg.operatorGroup}.members = cfg.operators;
    users.users.${cfg.user} = {
      isSystemUser = true;
      inherit (cfg) group;
      home = cfg.stateDir;
      description = "hive daemon";
      extraGroups = [ "systemd-journal" ];
    };
    users.groups.${model} = { };
    users.users.${model} = {
      isSystemUser = true;
      group = model;
      description = "hive model proxy";
    };
    users.groups.${egress} = { };
    users.users.${egress} = {
      isSystemUser = true;
      group = egress;
      description = "hive egress proxy";
    };
    # They act on login.sock on behalf of accounts.
    users.groups.hive-web = { };
    users.groups.hive-notify = { };
    users.groups.hive-otel = { };
    users.groups.hive-login.members = [ "hive-web" "hive-notify" "hive-otel" ];
    users.users.hive-web = {
      isSystemUser = true;
      group = "hive-web";
      description = "hive dashboard";
    };
    users.users.hive-notify = {
      isSystemUser = true;
      group = "hive-notify";
      description = "hive notifications";
    };
    users.users.hive-otel = {
      isSystemUser = true;
      group = "hive-otel";
      description = "hive traces";
    };
    users.groups.hive-small = { };
    users.users.hive-small = {
      isSystemUser = true;
      group = "hive-small";
      description = "embedded model of hive";
    };

    systemd.tmpfiles.rules = units.rules (privdUnits + "/hive.tmpfiles") ++ [
      # Garbage collector roots of the generations of agents.
      "d /nix/var/nix/profiles/hive 0755 ${cfg.user} ${cfg.group}"
      "d /etc/hive/keys 0750 root ${model}"
      "d /etc/hive/notify 0700 root root"
      "d /etc/hive/otel 0700 root root"
    ];

    # A switch never stops hived but reloads it: hived ends, and systemd starts the new one from the
    # new unit. systemd keeps the listening sockets meanwhile, and agents are not affected.
    systemd.services.hived = lib.recursiveUpdate (units.service (hostUnits + "/hived.service")) {
      path = [ tools ];
      restartIfChanged = false;
      reloadIfChanged = true;
      unitConfig.X-Reload-Triggers = mark "hive/hive.toml";
      serviceConfig.X-RestartIfChanged = "false";
    };

    # It keeps no state, so a new one can continue between two actions.
    systemd.services.hive-privd = lib.recursiveUpdate (units.service (privdUnits + "/hive-privd.service")) {
      path = [ tools ];
      environment = {
        HIVE_USR = tools;
        HIVE_RUNTIME = if cfg.models.runtime == null then "/var/empty" else "${cfg.models.runtime}";
        HIVE_CLIS =
          if cfg.runtimes == [ ] then "/var/empty"
          else "${pkgs.callPackage ./clis.nix { inherit (cfg) runtimes; }}";
      };
      stopIfChanged = false;
    };

    systemd.services.hive-model = lib.recursiveUpdate
      (units.service (hostUnits + "/hive-model.service"))
      {
        stopIfChanged = false;
        unitConfig = optionalAttrs (cfg.models.settings != { }) {
          X-Reload-Triggers = mark "hive/models.toml";
        };
        serviceConfig = optionalAttrs (cfg.models.keyFiles != { }) {
          LoadCredential = lib.mapAttrsToList (name: file: "${name}:${toString file}") cfg.models.keyFiles;
          ExecStart = "${cfg.package}/bin/hive-model --keys %d";
        };
      };
    systemd.services.hive-egress = lib.recursiveUpdate
      (units.service (hostUnits + "/hive-egress.service"))
      { stopIfChanged = false; };
    # What `hive setup` does on Debian: the accounts and tokens of the two services below, which wait
    # for it. It runs at each start and switch, and each week, since a token is valid for a year.
    systemd.services.hive-logins = mkIf hasReceiver {
      description = "Tokens of hive-notify and hive-otel";
      after = [ "hived.service" ];
      before = [ "hive-notify.service" "hive-otel.service" ];
      requires = [ "hived.service" ];
      wantedBy = [ "multi-user.target" ];
      startAt = "weekly";
      path = [ tools ];
      # By root, whose files systemd shows to the two services.
      serviceConfig = {
        Type = "oneshot";
        ExecStart = "${cfg.package}/bin/hive setup --tokens";
        ReadWritePaths = "/etc/hive/notify /etc/hive/otel";
      } // forClients;
    };
    # Starts where /etc/hive/notify/login has its token.
    systemd.services.hive-notify = lib.recursiveUpdate
      (units.service (hostUnits + "/hive-notify.service"))
      {
        stopIfChanged = false;
        unitConfig = optionalAttrs (cfg.notify.routes != { }) {
          X-Restart-Triggers = markOf [ given.notify given.web ];
        };
        serviceConfig = optionalAttrs (cfg.notify.secretFiles != { }) {
          LoadCredential = [ "notify:/etc/hive/notify" ]
            ++ lib.mapAttrsToList (name: file: "notify_${name}:${toString file}") cfg.notify.secretFiles;
        };
      };
    # Starts where /etc/hive/otel/login has its token.
    systemd.services.hive-otel = lib.recursiveUpdate
      (units.service (hostUnits + "/hive-otel.service"))
      {
        stopIfChanged = false;
        unitConfig = optionalAttrs (cfg.otel.url != "") { X-Restart-Triggers = markOf given.otel; };
        serviceConfig = optionalAttrs (cfg.otel.headersFile != null) {
          LoadCredential = [ "otel:/etc/hive/otel" "otel_headers:${toString cfg.otel.headersFile}" ];
        };
      };

    systemd.services.hive-web = mkIf cfg.web.enable
      (units.service (hostUnits + "/hive-web.service"));
    systemd.sockets.hive-web = mkIf cfg.web.enable
      (units.socket (hostUnits + "/hive-web.socket"));

    systemd.sockets.hive-model = units.socket (hostUnits + "/hive-model.socket");

    systemd.services.hive-small = mkIf cfg.models.small.enable
      (units.service (hostUnits + "/hive-small.service"));
    systemd.sockets.hive-small = mkIf cfg.models.small.enable
      (units.socket (hostUnits + "/hive-small.socket"));

    systemd.slices.hived = units.slice (hostUnits + "/hived.slice");

    systemd.services.hive-declare = mkIf (cfg.agents != { }) {
      description = "Agents that the configuration of this host declares";
      after = [ "hived.service" ];
      requires = [ "hived.service" ];
      wantedBy = [ "multi-user.target" ];
      unitConfig.X-Restart-Triggers = mark "hive/agents.json";
      serviceConfig = {
        Type = "oneshot";
        RemainAfterExit = "yes";
        ExecStart = "${cfg.package}/bin/hive declare /etc/hive/agents.json";
        User = cfg.user;
        Group = cfg.group;
        SupplementaryGroups = cfg.operatorGroup;
      } // forClients;
    };

    # systemd reads the files as root and shows them only to this service, which sends the values to
    # the daemon over its socket. Restart this service to set a new value.
    systemd.services.hive-secrets = mkIf (secrets != [ ]) {
      description = "Secrets of the agents that the configuration of this host declares";
      after = [ "hived.service" "hive-declare.service" ];
      requires = [ "hived.service" "hive-declare.service" ];
      wantedBy = [ "multi-user.target" ];
      unitConfig.X-Restart-Triggers = markOf secrets;
      serviceConfig = {
        Type = "oneshot";
        RemainAfterExit = "yes";
        LoadCredential = map (secret: "${secret.name}.${secret.key}:${secret.file}") secrets;
        ExecStart = map
          (secret: "${cfg.package}/bin/hive secret set ${secret.name} ${secret.key} --file %d/${secret.name}.${secret.key}")
          secrets;
        User = cfg.user;
        Group = cfg.group;
        SupplementaryGroups = cfg.operatorGroup;
      } // forClients;
    };

    # Puts git-remote-hive on PATH for the operators' git: `git clone hive::meta`.
    programs.git.enable = mkDefault true;

    boot.kernel.sysctl = {
      # Containers take their inotify instances and terminals from root's limits.
      "fs.inotify.max_user_instances" = mkOverride 1050 524288;
      "fs.inotify.max_user_watches" = mkOverride 1050 524288;
      "kernel.pty.max" = mkOverride 1050 1048576;
    };

    # A build for an agent runs in a sandbox or not at all. Agents cannot reach the Nix daemon: its
    # socket is only in the containers of evaluations and builds, which run as an unmapped user.
    nix.settings.sandbox = mkDefault true;
    nix.settings.sandbox-fallback = mkDefault false;
  };
}
