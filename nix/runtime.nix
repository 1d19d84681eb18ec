# What the session of an agent imports, as a folder that containers see at /opt/hive/runtime. It is
# for containers whose python3 is of the same version: those of images `host` and `nix`.
{ lib, python3, runCommand }:
let
  environment = python3.withPackages (packages: with packages; [
    anthropic
    jinja2
    mcp
    openai
    pydantic-ai-slim
  ]);
in
runCommand "hive-runtime" { } ''
  mkdir $out
  cp -rL --no-preserve=mode ${environment}/${python3.sitePackages}/. $out/
  rm -rf $out/hive_core
  # In a container it lies beside this folder.
  ln -s ../hive_core $out/hive_core
  echo ${lib.versions.majorMinor python3.version} >$out/.python
  touch $out/.complete
''
