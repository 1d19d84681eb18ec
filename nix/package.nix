# hive for nixpkgs: `callPackage ./package.nix { }`.
{ lib
, python3
, installShellFiles
, bash
, coreutils
, findutils
, gawk
, git
, gnugrep
, gnused
, gnutar
, gzip
, nix
, openssh
, gnupg
, procps
, util-linux
}:
let
  root = ../.;
  said = builtins.readFile (root + "/hive_core/__init__.py");
  # The content of /usr for jobs and for containers of image `host`, in place of another system's.
  programs = [
    bash
    coreutils
    findutils
    gawk
    git
    gnugrep
    gnused
    gnutar
    gzip
    nix
    python3
    procps
    util-linux
  ];
in
python3.pkgs.buildPythonApplication {
  pname = "hive";
  version = builtins.head (builtins.match ".*\nVERSION[^\"\n]*\"([^\"]+)\".*" said);
  pyproject = true;

  src = lib.fileset.toSource {
    inherit root;
    fileset = lib.fileset.unions [
      (root + "/hive_core")
      (root + "/migrations")
      (root + "/prompts")
      (root + "/tests")
      (root + "/nix")
      (root + "/pyproject.toml")
      (root + "/README.md")
      (root + "/LICENSE")
    ];
  };

  build-system = [ python3.pkgs.setuptools ];
  dependencies = with python3.pkgs; [
    click
    cronsim
    dbus-fast
    fido2
    genai-prices
    httpx2
    jinja2
    markdown-it-py
    nh3
    prometheus-client
    pydantic
    pygit2
    python-frontmatter
    starlette
    (python3.pkgs.systemd-python or systemd) # renamed
    typing-extensions
    uvicorn
    watchfiles
  ];

  nativeBuildInputs = [ installShellFiles ];
  # Programs that check signed tags. Containers use the host's own systemd.
  makeWrapperArgs = [ "--prefix" "PATH" ":" (lib.makeBinPath [ git openssh gnupg ]) ];

  # The module and the units refer to /lib/hive, which does not depend on the version of Python.
  postInstall = ''
    mkdir -p $out/lib/hive/usr/bin $out/lib/hive/usr/lib
    ln -s $out/${python3.sitePackages}/hive_core $out/lib/hive/hive_core
    for program in ${lib.concatMapStringsSep " " (each: "${lib.getBin each}/bin") programs}; do
      for file in $program/*; do
        [ -e $out/lib/hive/usr/bin/''${file##*/} ] || ln -s $file $out/lib/hive/usr/bin/
      done
    done
    ln -s bin $out/lib/hive/usr/sbin
    ln -s /etc/os-release $out/lib/hive/usr/lib/os-release
    # Programs for containers keep their first lines, because not every image contains the store.
    chmod -x $out/${python3.sitePackages}/hive_core/privd/guest/bin/*
  '';
  postFixup = ''
    chmod +x $out/${python3.sitePackages}/hive_core/privd/guest/bin/*
    installShellCompletion --cmd hive \
      --bash <(_HIVE_COMPLETE=bash_source $out/bin/hive) \
      --zsh <(_HIVE_COMPLETE=zsh_source $out/bin/hive) \
      --fish <(_HIVE_COMPLETE=fish_source $out/bin/hive)
    PYTHONPATH=$out/${python3.sitePackages}:$PYTHONPATH ${python3.interpreter} \
      -m hive_core.cli.core.manual $out/share/man
  '';

  # Rules, plans and the ledger; tests that need systemd or root run in virtual machines.
  nativeCheckInputs = with python3.pkgs; [ hypothesis pytestCheckHook ];
  pytestFlags = [ "-Wignore" "-p" "no:cacheprovider" ];
  enabledTestPaths = [ "tests/model" "tests/policy" "tests/plan" "tests/broker" ];
  pythonImportsCheck = [ "hive_core.daemon" "hive_core.privd.server" "hive_core.cli.main" ];

  meta = {
    description = "A tree of AI agents on one host, each in its own systemd-nspawn container";
    license = lib.licenses.mit;
    mainProgram = "hive";
    platforms = lib.platforms.linux;
  };
}
