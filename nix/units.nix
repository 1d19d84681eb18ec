# Units, read from the same templates that `hive setup` renders on Debian: one source for both.
#
# A template becomes the options of `systemd.services`, so that other modules see its
# settings and may add to them.
{ lib, places }:
let
  inherit (builtins) elemAt filter foldl' head isString match readFile replaceStrings split;

  render = file: replaceStrings (map (name: "@${name}@") (lib.attrNames places)) (lib.attrValues places) (readFile file);
  lines = text: filter (line: isString line && line != "" && match "[#;].*" line == null) (split "\n" text);

  # { section.key = [ values in their order ]; }
  read = file:
    (foldl'
      (seen: line:
        let
          section = match "\\[([A-Za-z]+)]" line;
          pair = match "([A-Za-z0-9]+)=(.*)" line;
          known = seen.found.${seen.section} or { };
          values = (known.${head pair} or [ ]) ++ [ (elemAt pair 1) ];
        in
        if section != null then seen // { section = head section; }
        else seen // { found = seen.found // { ${seen.section} = known // { ${head pair} = values; }; }; })
      { section = ""; found = { }; }
      (lines (render file))).found;

  words = values: filter (word: isString word && word != "") (lib.concatMap (split " +") values);
  single = values: if lib.length values == 1 then head values else values;
  variable = word: let pair = match "([^=]+)=(.*)" word; in { name = head pair; value = elemAt pair 1; };

  common = found:
    let unit = found.Unit or { }; in
    {
      description = head unit.Description;
      documentation = words (unit.Documentation or [ ]);
      after = words (unit.After or [ ]);
      wants = words (unit.Wants or [ ]);
      requires = words (unit.Requires or [ ]);
      wantedBy = words (found.Install.WantedBy or [ ]);
      unitConfig = lib.mapAttrs (_: single)
        (removeAttrs unit [ "Description" "Documentation" "After" "Wants" "Requires" ]);
    };
in
{
  # The lines of a tmpfiles.d file.
  rules = file: lines (render file);

  service = file:
    let found = read file; in
    common found // {
      environment = lib.listToAttrs (map variable (words (found.Service.Environment or [ ])));
      serviceConfig = lib.mapAttrs (_: single) (removeAttrs found.Service [ "Environment" ]);
    };

  socket = file:
    let found = read file; in
    common found // { socketConfig = lib.mapAttrs (_: single) found.Socket; };

  slice = file:
    let found = read file; in
    common found // { sliceConfig = lib.mapAttrs (_: single) found.Slice; };
}
