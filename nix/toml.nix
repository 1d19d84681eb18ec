# A set as the text of a TOML file. Without packages, so that the text is known at evaluation.
{ lib }:
let
  inherit (builtins) isAttrs isList match toJSON;

  key = name: if match "[A-Za-z0-9_-]+" name != null then name else toJSON name;
  # Strings, numbers and truth values look in TOML as they do in JSON.
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
