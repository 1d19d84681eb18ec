# What nix/small.nix, nix/runtime.nix and nix/clis.nix give to nixpkgs, as data. `fetchPypi` computes the address of a
# wheel as that of nixpkgs does; `runCommand` gives its script.
{ s, site }:
let
  inherit (builtins) listToAttrs substring;
  lib = s.lib // {
    versions.majorMinor = version: "3.99";
    importJSON = file: builtins.fromJSON (builtins.readFile file);
    removePrefix = prefix: text: substring (builtins.stringLength prefix) (-1) text;
  };

  fetchPypi = { pname, version, format, sha256, dist, python, abi ? "none", platform ? "any" }: {
    inherit format sha256;
    url = "https://files.pythonhosted.org/packages/${dist}/${substring 0 1 pname}/${pname}/"
      + "${pname}-${version}-${python}-${abi}-${platform}.whl";
  };
  python3 = {
    version = "3.99.1";
    sitePackages = "lib/python3.99/site-packages";
    pkgs = {
      inherit fetchPypi;
      buildPythonPackage = given: given;
      anthropic = "anthropic";
      jinja2 = "jinja2";
      mcp = "mcp";
      openai = "openai";
      pydantic-ai-slim = "pydantic-ai-slim";
    };
    withPackages = choose: { outPath = site; packages = choose python3.pkgs; };
  };
  stdenv = { hostPlatform.system = "x86_64-linux"; cc.cc.lib = "libstdc++"; };
  clis = system: linuxArch: import ../../nix/clis.nix {
    inherit lib;
    stdenv = stdenv // { hostPlatform = { inherit system linuxArch; }; mkDerivation = given: given; };
    fetchurl = given: given;
    autoPatchelfHook = "autoPatchelfHook";
    linkFarm = _: rows: listToAttrs (map (row: { inherit (row) name; value = row.path; }) rows);
    runtimes = [ "claude" "codex" "opencode" ];
  };
in
{
  small = (import ../../nix/small.nix {
    inherit lib python3 stdenv;
    autoPatchelfHook = "autoPatchelfHook";
  }).packages;
  other = builtins.tryEval (builtins.deepSeq (import ../../nix/small.nix {
    inherit lib python3;
    stdenv = stdenv // { hostPlatform.system = "riscv64-linux"; };
    autoPatchelfHook = "autoPatchelfHook";
  }).packages true);
  clis = clis "x86_64-linux" "x86_64";
  clisOfArm = clis "aarch64-linux" "aarch64";
  clisOfOther = builtins.tryEval (builtins.deepSeq (clis "riscv64-linux" "riscv64") true);
  runtime = import ../../nix/runtime.nix {
    inherit lib python3;
    runCommand = name: _: script: { inherit name script; };
  };
}
