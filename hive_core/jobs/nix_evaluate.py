"""evaluate NAME PATH SECONDS: evaluate one agent of the flake in /in.

Nix fetches nothing, because there is no network. It builds nothing (no import from derivation),
writes no lock file, and can read only the store of the host. The agent's files, /in/tree.nar, are
written to PATH, where the flake expects them; the flake contains their hash, so no other files are
used. https://nix.dev/manual/nix/latest/command-ref/new-cli/nix3-eval
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from hive_core.jobs.nix import STORE_PATH, JobFolders, NixClient, NixRefused, check_words, tell
from hive_core.plan import nar

_TAKE = (
    't: if t.type or "" == "derivation"'
    " && builtins.isString t.drvPath && builtins.isString t.outPath"
    " then builtins.mapAttrs (_: builtins.unsafeDiscardStringContext)"
    " { drv = t.drvPath; out = t.outPath; }"
    ' else throw "system.build.toplevel is not a derivation"'
)


def run(words: Sequence[str], root: Path) -> None:
    """Run the job; `root` is the root of its container."""
    main(words, JobFolders(root / "in", root / "out"))


def main(words: Sequence[str], place: JobFolders) -> None:
    """Run the job with given folders."""
    name, path, seconds = check_words(
        words, r"[a-z][a-z0-9-]*", r"/[0-9A-Za-z._/-]+", r"[0-9]{1,5}"
    )
    write(Path(path), (place.inside / "tree.nar").read_bytes())
    tell(place, lambda: evaluate(NixClient(place, float(seconds)), name))


def evaluate(nix: NixClient, name: str) -> Mapping[str, object]:
    """The derivation of the agent's system, and its output path."""
    flake = folder(nix.folders)
    made = f"path:{flake}#nixosConfigurations.{name}.config.system.build.toplevel"
    # With --no-write-lock-file in addition, an input that is not locked would be accepted.
    answer = nix.json("eval", "--json", "--no-update-lock-file", made, "--apply", _TAKE)
    if not isinstance(answer, dict):
        raise NixRefused("the answer of Nix is not an object")
    drv, out = str(answer.get("drv")), str(answer.get("out"))
    if not STORE_PATH.fullmatch(drv) or not drv.endswith(".drv") or not STORE_PATH.fullmatch(out):
        raise NixRefused("system.build.toplevel does not name a derivation of the store")
    return {"drv": drv, "out": out}


def folder(room: JobFolders) -> Path:
    """Create a folder with only the flake and its lock file, because Nix copies it to the store."""
    flake = room.scratch / "flake"
    flake.mkdir(parents=True)
    for name in ("flake.nix", "flake.lock"):
        if (room.inside / name).exists():
            shutil.copyfile(room.inside / name, flake / name)
    return flake


def write(target: Path, archive: bytes) -> None:
    """Write the files of an archive below a folder."""
    target.mkdir(parents=True, exist_ok=True)
    for path, (executable, data) in nar.unpack(archive).items():
        file = target / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        file.chmod(0o755 if executable else 0o644)
