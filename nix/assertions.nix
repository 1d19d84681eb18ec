# Refuses configurations that cannot work before the build, with messages that say what to change.
{ lib, cfg, config, names, given }:
let
  inherit (lib) attrNames concatMap elem filter optional;

  root = cfg.root.name;
  agents = cfg.agents;
  everybody = [ root ] ++ attrNames agents;
  parent = name: let wanted = agents.${name}.parent; in if wanted == null then root else wanted;
  known = name: elem name everybody;

  # The ancestors of `name`; ends at a root, at an unknown name, or at a name for the second time.
  climb = seen: name:
    if name == "" || name == root || !(agents ? ${name}) then { inherit seen; cycle = false; }
    else if elem name seen then { inherit seen; cycle = true; }
    else climb (seen ++ [ name ]) (parent name);

  levels = given.limits.depth or 32;
  depth = name: lib.length (climb [ ] name).seen + (if given.root.autostart or true then 1 else 0);

  images = lib.unique ([ "host" "nix" ] ++ attrNames cfg.images);
  label = where: text: "services.hive.${where}: ${text}";
  refuse = wrong: where: text: optional wrong { assertion = false; message = label where text; };

  # A path of Nix (./key) would be copied to the store.
  inStore = file: builtins.isPath file || lib.hasPrefix "/nix/store/" file;

  judge = name:
    let
      at = "agents.${name}";
      each = agents.${name};
      fault = names.fault name;
      up = climb [ ] name;
      image = if each.image == null then cfg.defaultImage else each.image;
    in
    refuse (fault != null) at "the name ${toString fault}"
    ++ refuse (name == root) at "the root agent is described by services.hive.root"
    ++ refuse (parent name != "" && !known (parent name)) at
      "its parent ${parent name} is neither the root agent nor declared"
    ++ refuse up.cycle at
      "it would be its own ancestor: ${lib.concatStringsSep " -> " (up.seen ++ [ (parent (lib.last up.seen)) ])}"
    ++ refuse (!up.cycle && depth name > levels) at "deeper than ${toString levels} levels"
    ++ refuse (!elem image images) at "unknown image ${image}; known images are ${lib.concatStringsSep ", " images}"
    ++ refuse (each.boot && image == "host") at
      "the host image has no init on NixOS: use the nix image, or disable boot"
    ++ concatMap
      (key: refuse (builtins.match names.secret key == null) "${at}.secretFiles"
        "the key ${key} must be 1 to 64 of letters, digits, '.', '_' and '-', and start with a letter or digit"
      ++ refuse (inStore each.secretFiles.${key}) "${at}.secretFiles.${key}"
        "the file is in the store, which every user can read: give the path of a file as a string")
      (attrNames each.secretFiles);

  # Uids that other services of this host use: [ first, end ).
  range = 65536;
  rangesOf = user: map (each: { what = "users.users.${user.name}"; first = each.startUid; end = each.startUid + each.count; })
    (user.subUidRanges or [ ])
  ++ optional ((user.uid or null) != null) { what = "users.users.${user.name}"; first = user.uid; end = user.uid + 1; };
  taken = concatMap rangesOf (lib.attrValues config.users.users);
  last = cfg.uidStart + range * (given.limits.agents or 10000);
  inRange = cfg.uidStart >= 524288 && cfg.uidStart < 1874853888 && lib.mod cfg.uidStart range == 0;
  told = each: "${each.what} (${toString each.first} to ${toString (each.end - 1)})";
  clashes = filter (each: each.first < last && each.end > cfg.uidStart) taken;

  nixSettings = config.nix.settings;
  overlay = config.system.etc.overlay or { };
  usesNix = elem "nix" ([ cfg.defaultImage cfg.root.image ] ++ map (each: each.image) (lib.attrValues agents));

  models = cfg.models;
  providers = lib.attrValues (models.settings.providers or { });
  wantedKeys = lib.unique (concatMap (each: optional ((each.key or null) != null) each.key) providers);
in
concatMap judge (attrNames agents)
++ concatMap
  (key: refuse (builtins.match "[a-z0-9][a-z0-9._-]{0,63}" key == null) "models.keyFiles"
    "the key ${key} must be 1 to 64 of a-z, 0-9, '.', '_' and '-', and start with a letter or digit"
  ++ refuse (inStore models.keyFiles.${key}) "models.keyFiles.${key}"
    "the file is in the store, which every user can read: give the path of a file as a string")
  (attrNames models.keyFiles)
++ concatMap
  (key: refuse (models.keyFiles != { } && !(models.keyFiles ? ${key})) "models.keyFiles"
    "a provider needs the key ${key}, and there is no file for it")
  wantedKeys
++ concatMap
  (name: refuse (builtins.match "[a-z][a-z0-9-]{0,31}" name == null) "notify.routes"
    "the name ${name} must be 1 to 32 of a-z, 0-9 and '-', and start with a letter")
  (attrNames cfg.notify.routes)
++ concatMap
  (name: refuse (!(given.notify.routes or { } ? ${name})) "notify.secretFiles" "there is no route ${name}"
  ++ refuse (inStore cfg.notify.secretFiles.${name}) "notify.secretFiles.${name}"
    "the file is in the store, which every user can read: give the path of a file as a string")
  (attrNames cfg.notify.secretFiles)
++ refuse (cfg.otel.headersFile != null && inStore cfg.otel.headersFile) "otel.headersFile"
  "the file is in the store, which every user can read: give the path of a file as a string"
++ refuse (names.fault root != null) "root.name" "the name ${toString (names.fault root)}"
++ concatMap
  (name: refuse (!elem name images) "images" "unknown image ${name}; known images are ${lib.concatStringsSep ", " images}")
  ([ cfg.defaultImage ] ++ optional (cfg.root.image != null) cfg.root.image)
++ refuse (cfg.images ? host || cfg.images ? nix) "images" "host and nix are hive's own and have no path"
++ concatMap
  (name: refuse (builtins.match "[a-z][a-z0-9.-]{0,62}" name == null) "images.${name}"
    "the name must be of a-z, 0-9, '.' and '-', and start with a letter")
  (attrNames cfg.images)
++ refuse (!inRange) "uidStart"
  "must be a multiple of 65536 from 524288 to 1874788352, the uids of containers"
++ refuse (inRange && clashes != [ ]) "uidStart"
  "the uids of agents (${toString cfg.uidStart} to ${toString (last - 1)}) overlap with those of ${lib.concatMapStringsSep ", " told clashes}"
++ refuse (given ? paths) "settings.paths" "the root helper uses fixed paths, which cannot be changed"
++ refuse (usesNix && nixSettings.sandbox or true != true) "defaultImage"
  "the nix image needs nix.settings.sandbox = true: otherwise a build for an agent can read the host's files"
++ refuse (usesNix && nixSettings.sandbox-fallback or true != false) "defaultImage"
  "the nix image needs nix.settings.sandbox-fallback = false: otherwise a build may run without its sandbox"
++ refuse (usesNix && elem "*" (nixSettings.trusted-users or [ ])) "defaultImage"
  "nix.settings.trusted-users must not hold \"*\": evaluations of agents would be trusted by the Nix daemon"
++ refuse (elem cfg.user (nixSettings.trusted-users or [ ])) "user"
  "nix.settings.trusted-users must not hold ${cfg.user}: the daemon does not need it"
++ refuse (overlay.enable or false && !(overlay.mutable or true)) "enable"
  "system.etc.overlay.mutable must be true: the list for git of operators is kept in /etc/hive"
++ refuse (config.boot.isContainer or false) "enable"
  "hive creates containers and cannot run inside one: use a machine"
