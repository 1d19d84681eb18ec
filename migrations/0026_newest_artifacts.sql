-- A version whose successor has other readers is the newest one for some: 2 in `latest`.
UPDATE artifacts SET latest = 2 WHERE latest = 0 AND EXISTS (
    SELECT 1 FROM artifacts n WHERE n.owner = artifacts.owner AND n.name = artifacts.name
    AND n.version = (SELECT MIN(m.version) FROM artifacts m WHERE m.owner = artifacts.owner
                     AND m.name = artifacts.name AND m.version > artifacts.version)
    AND (n.visibility <> artifacts.visibility OR n.lineage <> artifacts.lineage));
