"""Makes the golden tree of an older install: `python -m cli.golden_old FOLDER`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

TOPOLOGY: dict[str, str | None] = {
    "manager": None, "alice": "manager", "bob": "alice", "carol": "bob", "solo": None,
}  # fmt: skip


def make(folder: Path, topology: object = None) -> Path:
    """The root folder as the older daemon left it, with what its agents wrote."""
    _write(folder / "meta/topology.json", json.dumps(TOPOLOGY if topology is None else topology))
    _write(folder / "meta/flake.nix", "{ outputs = _: { }; }\n")
    _write(folder / "manager/state/notes.md", "what the manager knew\n")
    for name in ("alice", "bob", "dora"):  # dora is too new to be in the topology
        own = folder / "agents" / name
        _write(own / "state/diary.txt", f"diary of {name}\n")
        _write(own / "config/agent.nix", f"# {name}\n")
        _write(own / "config/.git/HEAD", "ref: refs/heads/main\n")
        _write(folder / "applied" / name / "HEAD", "ref: refs/heads/main\n")
    (folder / "agents/carol/state").mkdir(parents=True)
    odd = folder / "agents/alice/state"
    _write(odd / "run.sh", "#!/bin/sh\n", 0o4755)
    (odd / "to-the-host").symlink_to("/etc/shadow")
    (odd / "ünïcode\nname").mkdir()
    os.mkfifo(odd / "pipe")
    _write(odd / "mine.txt", "of uid 1000\n")
    os.chown(odd / "mine.txt", 1000, 1000)
    _write(folder / "agents/alice/claude/session.json", "{}\n")
    _write(folder / "agents/alice/loose-file", "stays\n")
    return folder


def listing(folder: Path) -> dict[str, object]:
    """All that is there: kind, mode, owner, content and time."""
    result: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        facts = path.lstat()
        content: object = None
        if path.is_symlink():
            content = str(path.readlink())
        elif path.is_file():
            content = path.read_bytes()
        key = str(path.relative_to(folder))
        result[key] = (facts.st_mode, facts.st_uid, facts.st_gid, facts.st_mtime_ns, content)
    return result


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
