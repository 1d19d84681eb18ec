# The coding CLIs, as a folder that containers see one of at /opt/hive/clis: the packages of npm with the
# versions and hashes of the lock files that `hive runtime install` reads on Debian.
{ lib, stdenv, fetchurl, autoPatchelfHook, linkFarm, runtimes }:
let
  locks = ../hive_core/cli/host/runtimes;
  cpus = { x86_64-linux = "x64"; aarch64-linux = "arm64"; };
  system = stdenv.hostPlatform.system;
  cpu = cpus.${system} or (throw "hive: the coding CLIs are not packaged for ${system}");

  # The program below its package.
  programs = {
    claude = "claude";
    codex = "vendor/${stdenv.hostPlatform.linuxArch}-unknown-linux-musl/bin/codex";
    opencode = "bin/opencode";
  };

  cli = name:
    let
      lock = lib.importJSON (locks + "/${name}/package-lock.json");
      places = lib.filter (place: lib.elem cpu (lock.packages.${place}.cpu or [ ])) (lib.attrNames lock.packages);
      place = builtins.head places;
      entry = lock.packages.${place};
      package = entry.name or (lib.removePrefix "node_modules/" place);
    in
    stdenv.mkDerivation {
      pname = "hive-cli-${name}";
      inherit (lock) version;
      src = fetchurl {
        url = "https://registry.npmjs.org/${package}/-/${baseNameOf package}-${entry.version}.tgz";
        hash = entry.integrity;
      };
      nativeBuildInputs = [ autoPatchelfHook ];
      buildInputs = [ stdenv.cc.cc.lib ];
      dontStrip = true; # a program of bun has its scripts behind its sections
      installPhase = ''
        mkdir -p $out/package $out/bin $out/no-settings/${name}
        cp -r . $out/package
        chmod 755 $out/package/${programs.${name}}
        ln -s ../package/${programs.${name}} $out/bin/${name}
        echo ${lock.version} >$out/.complete
      '';
    };
in
linkFarm "hive-clis" (map (name: { inherit name; path = cli name; }) runtimes)
