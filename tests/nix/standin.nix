# Stands in for nixpkgs where there is none: the part of `lib` that nix/ uses, a merge of one module
# with one host, and units as NixOS writes them. It is far smaller than the real module system.
let
  inherit (builtins) all attrNames attrValues concatMap concatStringsSep elem filter foldl' hasAttr head
    isAttrs isBool isFloat isFunction isInt isList isPath isString length listToAttrs mapAttrs match
    removeAttrs replaceStrings toJSON;

  wrapped = priority: content: { _type = "override"; inherit priority content; };

  lib = rec {
    inherit (builtins) attrNames attrValues concatMap concatStringsSep elem filter length listToAttrs
      mapAttrs replaceStrings;
    concatMapStringsSep = separator: f: list: concatStringsSep separator (map f list);
    concatStrings = concatStringsSep "";
    filterAttrs = keep: set: removeAttrs set (filter (name: !keep name set.${name}) (attrNames set));
    hasPrefix = prefix: text: builtins.substring 0 (builtins.stringLength prefix) text == prefix;
    last = list: builtins.elemAt list (length list - 1);
    mapAttrsToList = f: set: map (name: f name set.${name}) (attrNames set);
    mod = a: b: a - b * (a / b);
    optional = yes: value: if yes then [ value ] else [ ];
    optionalAttrs = yes: set: if yes then set else { };
    unique = foldl' (seen: each: if elem each seen then seen else seen ++ [ each ]) [ ];
    recursiveUpdate = a: b: a // mapAttrs
      (name: value: if isAttrs value && isAttrs (a.${name} or null) then recursiveUpdate a.${name} value else value)
      b;

    mkIf = condition: content: { _type = "if"; inherit condition content; };
    mkOverride = wrapped;
    mkDefault = wrapped 1000;
    mkForce = wrapped 50;
    literalExpression = text: { _type = "literalExpression"; inherit text; };
    mkOption = given: given // { _type = "option"; };
    mkEnableOption = what: mkOption { type = types.bool; default = false; description = "Whether to enable ${what}."; };
    inherit types;
  };

  kind = description: check: { inherit description check; fill = _: value: value; };
  types = rec {
    bool = kind "boolean" isBool;
    str = kind "string" isString;
    lines = str // { description = "lines of text"; };
    path = kind "absolute path" (v: isPath v || (isString v && match "/.*" v != null));
    package = kind "package" (v: isAttrs v && v ? outPath);
    number = kind "number" (v: isInt v || isFloat v);
    anything = kind "anything" (_: true);
    strMatching = pattern: kind "string that matches ${pattern}" (v: isString v && match pattern v != null);
    enum = values: kind "one of ${concatStringsSep ", " (map toJSON values)}" (v: elem v values);
    ints = {
      positive = kind "positive integer" (v: isInt v && v > 0);
      between = low: high: kind "integer from ${toString low} to ${toString high}" (v: isInt v && v >= low && v <= high);
    };
    addCheck = type: more: type // { check = v: type.check v && more v; };
    either = a: b: kind "${a.description} or ${b.description}" (v: a.check v || b.check v);
    nullOr = type: type // { description = "null or ${type.description}"; check = v: v == null || type.check v; };
    listOf = type: kind "list of ${type.description}" (v: isList v && all type.check v);
    attrsOf = type: kind "set of ${type.description}" isAttrs // {
      fill = where: mapAttrs (name: value: filled type "${where}.${name}" value);
    } // (if type ? options then { inherit (type) options; } else { });
    submodule = module: kind "submodule" isAttrs // {
      inherit (module) options;
      fill = where: complete where module.options;
    };
  };

  filled = type: where: value:
    if type.check value then type.fill where value
    else throw "A definition for option `${where}' is not of type `${type.description}': ${toJSON value}";

  isOption = value: isAttrs value && value._type or "" == "option";

  # What the user said, with defaults; an option that is not there is refused.
  complete = where: options: said:
    let
      strange = filter (name: !hasAttr name options) (attrNames said);
      one = name: option:
        if !isOption option then complete "${where}.${name}" option (said.${name} or { })
        else if !hasAttr name said then option.type.fill "${where}.${name}" option.default
        else if option.readOnly or false then throw "The option `${where}.${name}' is read-only"
        else filled option.type "${where}.${name}" said.${name};
    in
    if strange == [ ] then mapAttrs one options
    else throw "The option `${where}.${head strange}' does not exist";

  # Definitions without their wrapping; what the host says goes first.
  plain = value:
    if !isAttrs value || value ? outPath then value
    else if value._type or "" == "override" then plain value.content
    else if value._type or "" == "if" then (if value.condition then plain value.content else { })
    else mapAttrs (_: plain) value;

  pkgs = {
    python3.outPath = "/nix/store/00000000000000000000000000000000-python3";
    stdenv.hostPlatform.system = "x86_64-linux";
    callPackage = file: _:
      let name = head (match "(.*)[.]nix" (baseNameOf file)); in
      { outPath = "/nix/store/00000000000000000000000000000000-hive${if name == "package" then "" else "-${name}"}"; };
  };

  evaluate = module: host:
    let
      # What the module sees must not wait for what it says.
      made = module {
        inherit lib pkgs;
        config = said // { inherit (config) boot nix system users; };
        options = { };
      };
      ours = name: options: builtins.intersectAttrs options (host.${name} or { });
      said = mapAttrs (name: options: complete name options (ours name options)) made.options;
      rest = removeAttrs host (attrNames made.options);
      empty = { boot = { }; nix.settings = { }; system = { }; users.users = { }; };
      config = lib.recursiveUpdate (lib.recursiveUpdate empty (plain made.config)) (rest // said);
    in
    { inherit config; inherit (made) options; };

  # Units, as nixos/lib/systemd-lib.nix writes them.
  assignment = name: value: map (each: "${name}=${toString each}") (if isList value then value else [ value ]);
  section = name: set: [ "[${name}]" ] ++ concatMap (key: assignment key set.${key}) (attrNames set);
  words = key: list: lib.optionalAttrs (list != [ ]) { ${key} = toString list; };
  unit = u: u.unitConfig or { } // { Description = u.description; }
    // words "Documentation" (u.documentation or [ ]) // words "After" (u.after or [ ])
    // words "Before" (u.before or [ ])
    // words "Requires" (u.requires or [ ]) // words "Wants" (u.wants or [ ]);
  install = u: lib.optionalAttrs (u.wantedBy or [ ] != [ ]) { WantedBy = toString u.wantedBy; };
  environment = u: (u.environment or { }) // { PATH = lib.concatMapStringsSep ":" (p: "${p}/bin") (u.path or [ ]); };
  written = u: parts: concatStringsSep "\n" (section "Unit" (unit u) ++ parts ++ section "Install" (install u)) + "\n";
  flags = u: lib.optional (u.reloadIfChanged or false) "X-ReloadIfChanged=true"
    ++ lib.optional (!(u.stopIfChanged or true)) "X-StopIfChanged=false";
  units = config:
    listToAttrs (lib.mapAttrsToList
      (name: u: {
        name = "${name}.service";
        value = written u (section "Service" ({ Environment = lib.mapAttrsToList (k: v: toJSON "${k}=${v}") (environment u); } // u.serviceConfig) ++ flags u);
      })
      (lib.filterAttrs (_: u: u != { } && u.enable or true) config.systemd.services))
    // listToAttrs (lib.mapAttrsToList (name: u: { name = "${name}.path"; value = written u (section "Path" u.pathConfig); })
      (config.systemd.paths or { }))
    // listToAttrs (lib.mapAttrsToList (name: u: { name = "${name}.socket"; value = written u (section "Socket" u.socketConfig); })
      (lib.filterAttrs (_: u: u != { }) (config.systemd.sockets or { })))
    // listToAttrs (lib.mapAttrsToList (name: u: { name = "${name}.slice"; value = written u (section "Slice" u.sliceConfig); })
      (config.systemd.slices or { }));

  # The options as a list, for the reference page.
  listed = where: options: concatMap
    (name:
      let option = options.${name}; at = "${where}.${name}"; in
      if !isOption option then listed at option
      else [{
        name = at;
        inherit (option) description;
        type = option.type.description;
        readOnly = option.readOnly or false;
        default = option.defaultText or option.default;
        example = option.example or null;
      }] ++ (if option.type ? options then listed "${at}${if match "set.*" option.type.description != null then ".<name>" else ""}" option.type.options else [ ]))
    (attrNames options);
in
{ inherit lib pkgs evaluate units listed; }
