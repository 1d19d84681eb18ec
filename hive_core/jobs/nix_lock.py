"""lock FOLDER [INPUT...]: lock newer inputs of the flake in /in, and fetch them into the store.

This is the only job with network access; it sees no files of agents. Without INPUT it updates all
inputs; `missing` locks only those that are not locked yet. FOLDER is the path of /out on the host:
links in it protect the fetched sources until hived has its own links.
https://nix.dev/manual/nix/latest/command-ref/new-cli/nix3-flake-lock
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hive_core.jobs.nix import STORE_PATH, JobFolders, NixClient, NixRefused, check_words, tell
from hive_core.jobs.nix_evaluate import folder

MISSING = "missing"
INPUT = r"[a-z][a-z0-9.-]{0,62}"
_UPDATE_TAKES_NAMES = (2, 19)


def run(words: Sequence[str], root: Path) -> None:
    """Run the job; `root` is the root of its container."""
    main(words, JobFolders(root / "in", root / "out"))


def main(words: Sequence[str], place: JobFolders) -> None:
    """Run the job with given folders."""
    where, *names = check_words(words, r"/[0-9A-Za-z._/-]+", *[INPUT] * (len(words) - 1))
    tell(place, lambda: lock(NixClient(place, 580.0), where, names))


def lock(nix: NixClient, where: str, names: Sequence[str]) -> Mapping[str, object]:
    """Write the new lock file to /out, and a link for the source of each input."""
    flake = f"path:{folder(nix.folders)}"
    _, log = nix.run(*_command(nix.version(), flake, names))
    archive = nix.json("flake", "archive", "--json", "--no-update-lock-file", flake)
    sources = sorted(set(_sources(archive)))
    for number, source in enumerate(sources):
        nix.run("build", "--out-link", f"{where}/input-{number}", source)
    shutil.copyfile(nix.folders.scratch / "flake/flake.lock", nix.folders.out / "flake.lock")
    return {"sources": sources, "log": log}


def _command(version: tuple[int, ...], flake: str, names: Sequence[str]) -> list[str]:
    if list(names) == [MISSING]:
        return ["flake", "lock", flake]
    if version >= _UPDATE_TAKES_NAMES:
        return ["flake", "update", *names, "--flake", flake]
    if not names:
        return ["flake", "update", flake]
    return ["flake", "lock", *(word for name in names for word in ("--update-input", name)), flake]


def _sources(archive: object) -> Iterator[str]:
    """The store paths of all inputs, including inputs of inputs, without the flake itself."""
    inputs = archive.get("inputs") if isinstance(archive, dict) else None
    if not isinstance(inputs, dict):
        raise NixRefused("the answer of Nix lists no inputs")
    for value in inputs.values():
        if not isinstance(value, dict):
            continue
        if "path" in value:
            if not STORE_PATH.fullmatch(str(value["path"])):
                raise NixRefused("Nix fetched something that is not in the store")
            yield str(value["path"])
        yield from _sources(value)
