# The text of a TOML file for a set. Uses no packages, so the text is known at evaluation.
{ lib }:
let
  inherit (builtins) isAttrs isList match toJSON;

  key = name: if match "[A-Za-z0-9_-]+" name != null then name else toJSON name;
  # Strings, numbers and booleans have the same format in TOML and JSON.
  value = v:
    if v == { } then "{}"
    else if isAttrs v then "{ ${lib.concatStringsSep ", " (pairs v)} }"
    else if isList v then "[${lib.concatStringsSep ", " (map value v)}]"
    else toJSON v;
  present = lib.filterAttrs (_: v: v != null);
  pairs = set: lib.mapAttrsToList (name: v: "${key name} = ${value v}") (present set);
  table = name: set: lib.concatStringsSep "\n" ([ "\n[${key name}]" ] ++ pairs set);
  settings = set: lib.filterAttrs (_: v: !isAttrs v) (present set);
  tables = set: lib.filterAttrs (_: isAttrs) (present set);
in
set: lib.concatStringsSep "\n" (pairs (settings set) ++ lib.mapAttrsToList table (tables set)) + "\n"
