# What nix/package.nix gives to buildPythonApplication. Every program is in /usr here, and a package of
# Python is only its name.
{ s, site }:
let
  inherit (builtins) functionArgs listToAttrs mapAttrs removeAttrs;

  lib = s.lib // {
    fileset = { toSource = given: toString given.root; unions = list: list; };
    getBin = package: package;
    licenses.mit = "MIT";
    makeBinPath = s.lib.concatMapStringsSep ":" (package: "${package}/bin");
    platforms.linux = [ ];
  };
  named = names: listToAttrs (map (name: { inherit name; value.outPath = name; }) names);
  python3 = {
    outPath = "/usr";
    sitePackages = site;
    interpreter = "/usr/bin/python3";
    pkgs = named [
      "click" "cronsim" "dbus-fast" "fido2" "genai-prices" "httpx2" "hypothesis" "jinja2" "markdown-it-py" "nh3" "prometheus-client" "pydantic" "pygit2" "pytestCheckHook"
      "python-frontmatter" "setuptools" "starlette" "systemd"
      "typing-extensions" "uvicorn" "watchfiles"
    ] // { buildPythonApplication = given: given; };
  };

  package = import ../../nix/package.nix;
  programs = mapAttrs (_: _: { outPath = "/usr"; }) (functionArgs package);
in
removeAttrs (package (programs // { inherit lib python3; })) [ "src" ]
