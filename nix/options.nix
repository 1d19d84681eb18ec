# The options below `services.hive`. Every setting of hive.toml without its own option can be given
# in `settings`.
{ lib, pkgs, names }:
let
  inherit (lib) literalExpression mkEnableOption mkOption types;

  option = type: default: description: mkOption { inherit type default description; };
  fixed = value: description: mkOption {
    type = types.str;
    default = value;
    readOnly = true;
    inherit description;
  };
  number = types.addCheck types.number (n: n >= 0);
  text = types.either types.str types.path;
  capability = types.strMatching names.capability // { description = "capability"; };
  reference = types.strMatching names.reference // { description = "flake reference"; };
  maybe = types.nullOr;
  size = types.either types.ints.positive (types.strMatching names.size)
    // { description = "size such as \"512M\", or bytes"; };
  tool = types.strMatching names.tool // { description = "tool, or tool(pattern)"; };

  limits = types.submodule {
    options = {
      memoryMax = option (maybe size) null "Memory: `\"512M\"`, `\"2G\"`, or bytes.";
      memoryHigh = option (maybe size) null "Memory above which the kernel slows the agent.";
      tasksMax = option (maybe types.ints.positive) null "Processes and threads.";
      cpuQuota = option (maybe types.ints.positive) null "Percent of one core.";
      cpuWeight = option (maybe (types.ints.between 1 10000)) null "Share of CPU time against siblings.";
      ioWeight = option (maybe (types.ints.between 1 10000)) null "Share of the disk's time against siblings.";
      disk = option (maybe size) null "Space that its files may take.";
      inodes = option (maybe types.ints.positive) null "Files and directories that it may have.";
    };
  };

  agent = types.submodule {
    options = {
      parent = option (maybe types.str) null
        "The agent that it is created under. Absent: the root agent; empty: it is a root itself.";
      role = option (types.enum names.roles) "agent" "What it is for.";
      tier = option (maybe (types.enum names.tiers)) null
        "At most that of its parent; absent: operational.";
      title = option types.str "" "Free text for people.";
      image = option (maybe types.str) null "The image; absent: `defaultImage`.";
      boot = option types.bool false "Whether an init runs inside. The `nix` image always has one.";
      command = option (types.listOf types.str) [ ]
        "What it runs; empty: it holds, and its mail waits.";
      capabilities = option (maybe (types.listOf capability)) null
        "Its rights; absent: those of its role that its parent holds.";
      tools = option (maybe (types.listOf tool)) null
        "Its tools, each `tool` or `tool(pattern)`; absent: those of its role.";
      wakes = option (maybe types.bool) null
        "Whether mail wakes it when it sleeps; absent: as its role does.";
      secretFiles = mkOption {
        type = types.attrsOf text;
        default = { };
        example = literalExpression "{ api-key = config.sops.secrets.api-key.path; }";
        description = ''
          Secrets by key, each the path of a file on this host, as created by sops-nix and agenix. The
          agent gets the capability for each when it is created. The files are read at each start of
          hive-secrets.service, and never enter the store.
        '';
      };
      limits = option limits { } "Bounds of its machine; what is absent is the host's default.";
    };
  };
in
{
  enable = mkEnableOption "hive, a tree of AI agents on this host";

  package = mkOption {
    type = types.package;
    default = pkgs.callPackage ./package.nix { };
    defaultText = literalExpression "pkgs.callPackage ./package.nix { }";
    description = "The hive package to use.";
  };

  user = fixed "hive" "The account of the daemon. The root helper answers to it alone.";
  group = fixed "hive" "The group of the daemon.";
  stateDir = fixed "/var/lib/hive" "Where everything is kept.";
  runtimeDir = fixed "/run/hive" "Where sockets are.";
  operatorGroup = fixed "hive-operator" "Members may run `hive` and approve.";

  operators = mkOption {
    type = types.listOf types.str;
    default = [ ];
    example = [ "alice" ];
    description = "Users to add to the operators' group.";
  };

  root = {
    name = option types.str "root" "What the root agent is called. It exists from the first start on.";
    autostart = option types.bool true "Create and start it when hived starts.";
    image = option (maybe types.str) null "Its image; absent: `defaultImage`.";
    boot = option types.bool false "Whether an init runs inside. The `nix` image always has one.";
    command = option (types.listOf types.str) [ ] "What it runs; empty: it holds.";
  };

  agents = mkOption {
    type = types.attrsOf agent;
    default = { };
    example = literalExpression ''{ planner = { }; coder = { parent = "planner"; role = "worker"; }; }'';
    description = ''
      Agents to create if they are missing, at each start of the host and each switch. Existing
      agents are not changed, moved or destroyed: differences are logged in the journal of
      hive-declare.service, for the operator to act on.
    '';
  };

  defaultImage = option types.str "nix" "The image of agents without an image of their own.";

  images = mkOption {
    type = types.attrsOf text;
    default = { };
    example = { web = "/srv/images/web"; };
    description = "Prepared trees that agents may use as image, by name. `host` and `nix` always exist.";
  };

  uidStart = option types.ints.positive 805306368
    "First uid of the first agent's range; each agent has 65536 of them.";

  meta = {
    path = fixed "/var/lib/hive/meta" "The repository of the tree of agents.";
    flakeInputs = mkOption {
      type = types.attrsOf reference;
      default = { };
      example = { nixpkgs = "github:NixOS/nixpkgs/nixos-25.05"; };
      description = ''
        Inputs of the flake that hive writes for agents of image `nix`. `nixpkgs` and `hive` are
        required. To put a change into its lock file, run `hive call request_update_meta_inputs`
        and approve the request.
      '';
    };
  };

  approval = {
    pending = option types.ints.positive 5 "Undecided proposals of one subtree.";
    perDay = option types.ints.positive 20 "New proposals of one subtree in a day.";
    expires = option number 86400 "Seconds until a proposal is void.";
    allowedSigners = mkOption {
      type = types.lines;
      default = "";
      example = "alice@example.org ssh-ed25519 AAAA...";
      description = "Keys whose signed tags approve: the text of /etc/hive/allowed_signers.";
    };
  };

  deploy = {
    healthWindow = option (types.addCheck number (n: n <= 3600)) 30
      "Seconds that a new configuration must stay healthy, or it goes back.";
    startTimeout = option number 120 "Seconds until a machine must run.";
    switchTimeout = option number 120 "Seconds that a switch in place may take.";
    evalTimeout = option number 120 "Seconds that an evaluation may take.";
    buildTimeout = option number 1800 "Seconds that a build may take.";
    firstWave = option types.ints.positive 1 "Agents of the first wave of a change of many.";
    secondWave = option (types.addCheck types.number (n: n > 0 && n <= 1)) 0.1
      "Share of the agents that the second wave takes.";
  };

  web = {
    enable = option types.bool true "Whether the dashboard is served, on this host alone.";
    origins = option (types.listOf types.str) [ "http://localhost:4483" ]
      "Web addresses under which browsers reach the dashboard; links have the last.";
  };

  notify = {
    routes = mkOption {
      type = types.attrsOf (types.attrsOf types.anything);
      default = { };
      example = { phone = { type = "ntfy"; url = "https://ntfy.sh"; topic = "hive-pQ3xV0rTq8sLw2"; }; };
      description = ''
        Receivers of notices by name, with the keys of `[notify.routes.NAME]`. hive-notify runs where
        there is one, with a token that hive-logins.service makes.
      '';
    };
    secretFiles = mkOption {
      type = types.attrsOf text;
      default = { };
      example = literalExpression "{ phone = config.sops.secrets.ntfy.path; }";
      description = ''
        Secrets of routes by name, each the path of a file on this host: the token of ntfy, the key of
        a webhook, the addresses of apprise. systemd reads them as root and shows them to
        hive-notify.service alone; they never enter the store. The other routes have the files in
        /etc/hive/notify.
      '';
    };
  };

  otel = {
    url = option types.str ""
      "Where traces go, such as `http://localhost:4318/v1/traces`; empty: nowhere. hive-otel runs where it is set, with a token that hive-logins.service makes.";
    service = option types.str "hive" "What this host is called in the traces.";
    texts = option types.bool false "Whether traces have titles, arguments and reasons, which agents wrote.";
    headersFile = mkOption {
      type = maybe text;
      default = null;
      example = literalExpression "config.sops.secrets.otel-headers.path";
      description = ''
        A file on this host with headers for the receiver, one a line, which systemd shows to
        hive-otel.service alone. Absent: the file /etc/hive/otel/headers, if it is there.
      '';
    };
  };

  retention = {
    generations = option (types.ints.between 2 1000) 10 "Generations kept of each agent.";
    archive = option number 86400 "Seconds for which a destroyed agent can be restored.";
  };

  runtimes = mkOption {
    type = types.listOf (types.enum names.runtimes);
    default = [ ];
    example = [ "claude" "codex" ];
    description = ''
      The coding CLIs that agents may have as `runtime`, at the versions of this hive. Containers of
      agents with one of them see it read-only at /opt/hive/clis from their next start.
    '';
  };

  models = {
    settings = mkOption {
      type = types.attrsOf types.anything;
      default = { };
      example = literalExpression ''
        {
          providers.anthropic = { wire = "messages"; base_url = "https://api.anthropic.com/v1"; key = "anthropic"; };
          models.claude = { provider = "anthropic"; name = "claude-sonnet-4-5"; };
        }
      '';
      description = ''
        The content of models.toml: providers, models and limits, by their names there. Empty: every
        agent has the embedded model.
      '';
    };
    keyFiles = mkOption {
      type = types.attrsOf text;
      default = { };
      example = literalExpression "{ anthropic = config.sops.secrets.anthropic.path; }";
      description = ''
        Keys of providers by name, each the path of a file on this host. systemd reads them as root
        and shows them to hive-model.service alone; they never enter the store. With this option,
        the files in /etc/hive/keys are not used.
      '';
    };
    small = {
      enable = mkEnableOption "the embedded model, which needs no key and shows that all parts work";
      package = mkOption {
        type = types.package;
        default = pkgs.callPackage ./small.nix { };
        defaultText = literalExpression "pkgs.callPackage ./small.nix { }";
        description = "An interpreter with the program that runs the embedded model, and its weights.";
      };
    };
    runtime = mkOption {
      type = maybe types.package;
      default = pkgs.callPackage ./runtime.nix { };
      defaultText = literalExpression "pkgs.callPackage ./runtime.nix { }";
      description = ''
        What the sessions of agents import, which containers see at /opt/hive/runtime. `null`: no
        agent can have a `runtime`.
      '';
    };
  };

  settings = mkOption {
    type = types.attrsOf types.anything;
    default = { };
    example = literalExpression "{ limits.agents = 200; }";
    description = "Further settings of hive.toml, by their names there; they override the options above.";
  };
}
