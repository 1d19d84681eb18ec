"""build DRV OUT LINK BEFORE FETCHES SECONDS: build one derivation that was evaluated before.

OUT is the expected output. LINK is a path that is the same on the host; it protects the output from
the garbage collector until hived has its own link. BEFORE is the current system, or `none`. Unless
FETCHES is `yes`, fixed-output derivations are refused, because they build with network access.
https://nix.dev/manual/nix/latest/language/advanced-attributes#adv-attr-outputHash
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from hive_core.jobs.nix import (
    STORE,
    STORE_PATH,
    JobFolders,
    NixClient,
    NixRefused,
    check_words,
    tell,
)

NEEDED: Final = ("init", "bin/switch-to-configuration")
MANY: Final = 200  # names of a difference that are listed; the others are counted
_PATH: Final = STORE_PATH.pattern
# from this version on, the path of a derivation alone means the file itself
_WITH_OUTPUTS: Final = (2, 15)
_FIXED: Final = re.compile(r'^Derive\(\[(?:\("[^"]*","[^"]*","[^"]*","[^"]*"\),?)*\]')
_OUTPUT: Final = re.compile(r'\("[^"]*","[^"]*","([^"]*)","[^"]*"\)')
_LINKS_MOST: Final = 40


def run(words: Sequence[str], root: Path) -> None:
    """Run the job; `root` is the root of its container."""
    main(words, JobFolders(root / "in", root / "out"))


def main(words: Sequence[str], place: JobFolders) -> None:
    """Run the job with given folders."""
    patterns = (rf"{_PATH}\.drv", _PATH, r"/[0-9A-Za-z._/-]+", rf"{_PATH}|none", "yes|no", r"\d+")
    drv, out, link, before, fetches, seconds = check_words(words, *patterns)
    nix = NixClient(place, float(seconds), memory=2 << 30)
    tell(place, lambda: {**_build(nix, drv, out, link, fetches == "yes"),
                         "closure": difference(nix, before, out)})  # fmt: skip


def _build(nix: NixClient, drv: str, out: str, link: str, fetches: bool) -> Mapping[str, object]:  # noqa: FBT001
    wanted = f"{drv}^out" if nix.version() >= _WITH_OUTPUTS else drv
    _, plan = nix.run("build", "--dry-run", wanted)
    made = to_build(plan)
    if not fetches and (
        fetching := [
            derivation for derivation in made if is_fixed_output(nix.folders.real(derivation))
        ]
    ):
        names = ", ".join(derivation[len(STORE) + 34 : -4] for derivation in fetching[:5])
        raise NixRefused(f"the build would fetch from the network: {names}", plan)
    _, log = nix.run("build", "--out-link", link, wanted)
    if str(Path(link).readlink()) != out:
        raise NixRefused("the build result is not the evaluated system", log)
    check_system(nix.folders, out)
    return {"out": out, "built": len(made), "log": log}


def to_build(plan: str) -> list[str]:
    """The derivations that would be built, from the output of a dry run."""
    derivations: list[str] = []
    building = False
    for line in plan.splitlines():
        if not line.startswith("  "):
            building = line.endswith("will be built:")
        elif building and STORE_PATH.fullmatch(line.strip()):
            derivations.append(line.strip())
    return derivations


def is_fixed_output(file: Path) -> bool:
    """Whether it is a fixed-output derivation, which the sandbox gives network access."""
    with file.open(encoding="utf-8", errors="replace") as text:
        outputs = _FIXED.match(text.read(1 << 16))
    if outputs is None:
        raise NixRefused(f"{file.name} is not a readable derivation")
    return any(_OUTPUT.findall(outputs[0]))


def check_system(room: JobFolders, out: str) -> None:
    """Refuse an output that is not a system: a folder with its two programs, all in the store."""
    top = room.real(out)
    if top.is_symlink() or not top.is_dir():
        raise NixRefused("the system is not a folder")
    for name in NEEDED:
        where = resolve_in_store(room, f"{out}/{name}")
        if where is None or not where.is_file() or not where.stat().st_mode & 0o111:
            raise NixRefused(f"the system has no program {name} in the store")


def resolve_in_store(room: JobFolders, path: str) -> Path | None:
    """Resolve a path step by step; None if a link leads out of the store."""
    for _ in range(_LINKS_MOST):
        parts = Path(path).parts
        if parts[:3] != ("/", "nix", "store") or len(parts) < 4 or ".." in parts:  # noqa: PLR2004
            return None
        for depth in range(4, len(parts) + 1):
            at = Path(*parts[:depth])
            real = room.real(str(at))
            if real.is_symlink():
                path = str(_join(at.parent / real.readlink(), parts[depth:]))
                break
        else:
            return room.real(path)
    return None


def _join(start: Path, rest: Sequence[str]) -> Path:
    parts: list[str] = []
    for part in (*start.parts, *rest):
        if part == "..":
            parts = parts[:-1] or ["/"]
        else:
            parts.append(part)
    return Path(*parts)


def difference(nix: NixClient, before: str, after: str) -> Mapping[str, object]:
    """The difference of two closures, by name, with sizes in bytes."""
    old = dict(_closure(nix, before)) if before != "none" else {}
    new = dict(_closure(nix, after))
    come, gone = sorted(new.keys() - old.keys()), sorted(old.keys() - new.keys())
    return {
        "paths": len(new), "bytes": sum(new.values()), "before": sum(old.values()),
        "come": [[path[len(STORE) + 34 :], new[path]] for path in come[:MANY]],
        "gone": [[path[len(STORE) + 34 :], old[path]] for path in gone[:MANY]],
        "more": max(0, len(come) - MANY) + max(0, len(gone) - MANY),
    }  # fmt: skip


def _closure(nix: NixClient, system: str) -> Iterator[tuple[str, int]]:
    """https://nix.dev/manual/nix/latest/command-ref/new-cli/nix3-path-info"""
    text, _ = nix.run("path-info", "--recursive", "--size", system)
    for line in text.splitlines():
        path, _, size = line.partition("\t")
        if STORE_PATH.fullmatch(path.strip()):
            yield path.strip(), int(size)
