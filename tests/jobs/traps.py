"""A repository that runs a program for whoever works in it."""

from __future__ import annotations

from pathlib import Path

from jobs.bench import Repo

HOOKS = [
    "pre-commit", "post-checkout", "post-index-change", "fsmonitor-watchman", "pre-receive",
    "reference-transaction", "post-update", "pre-auto-gc", "proc-receive", "update",
]  # fmt: skip


def traps(repo: Repo, mark: Path) -> None:
    """Every setting and hook of a repository that makes one git or another run a program."""
    run = f"touch {mark}"
    for key in ("core.fsmonitor", "core.pager", "core.editor", "core.sshCommand", "core.gitProxy",
                "core.askPass", "core.alternateRefsCommand", "diff.external", "diff.x.textconv",
                "diff.x.command", "filter.x.clean", "filter.x.smudge", "filter.x.process",
                "uploadpack.packObjectsHook", "uploadarchive.tar.command", "credential.helper",
                "gpg.program", "interactive.diffFilter", "merge.x.driver", "sequence.editor",
                "trace2.eventTarget"):  # fmt: skip
        repo.git("config", key, run)
    repo.git("config", "alias.upload-pack", f"!{run}")
    repo.git("config", "alias.pack-objects", f"!{run}")
    repo.git("config", "core.hooksPath", str(repo.own / "traps"))
    for folder in ("traps", "hooks"):
        (repo.own / folder).mkdir(exist_ok=True)
        for hook in HOOKS:
            (repo.own / folder / hook).write_text(f"#!/bin/sh\n{run}\n")
            (repo.own / folder / hook).chmod(0o755)
    (repo.own / "info").mkdir(exist_ok=True)
    (repo.own / "info/attributes").write_text("* diff=x filter=x merge=x\n")
