# Patterns of names, roles and rights; hive checks them again.
{ lib }:
let
  inherit (builtins) match;
  reserved = [ "operator" "daemon" "hive" "self" "host" "system" ];
in
{
  roles = [ "daemon" "agent" "architect" "lead" "worker" "task" ];
  runtimes = [ "claude" "codex" "opencode" ];
  capability = "[a-z]+([.][a-z]+)?(:[A-Za-z0-9][A-Za-z0-9._-]{0,63})?";
  size = "[0-9]{1,15}[KMGT]?";
  tool = "[^[:cntrl:]]{1,200}";
  secret = "[A-Za-z0-9][A-Za-z0-9._-]{0,63}";
  tiers = [ "strategic" "tactical" "operational" ];
  reference = ''[^"\$[:cntrl:]]{1,500}'';

  # Why `name` cannot be an agent's, or null.
  fault = name:
    if match "[a-z]([a-z0-9-]{0,30}[a-z0-9])?" name == null then
      "must be 1 to 32 of a-z, 0-9 and '-', start with a letter and not end with '-'"
    else if match ".*--.*" name != null then "must not contain '--'"
    else if lib.elem name reserved then "is reserved"
    else null;
}
