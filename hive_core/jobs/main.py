"""`python3 -I main.py KIND WORDS...`: runs one job in its container."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

if __name__ == "__main__":  # run as a file with -I, so no import path is set
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from hive_core.jobs import outcome
from hive_core.jobs.outcome import JobRefused

# Kind -> module with `run(words, root)`, which returns figures, or None if it has written its own
# result; `root` is / except in tests.
KINDS: Final = {
    "fetch": "fetch", "fetch_clone": "fetch", "review": "review", "receive": "receive",
    "seed": "seed",
    "evaluate": "nix_evaluate", "build": "nix_build", "lock": "nix_lock",
    "import_state": "import_state", "own_inodes": "own_inodes",
}  # fmt: skip


def main(arguments: Sequence[str], root: Path = Path("/")) -> int:
    """Return 0 if the job has a result, including a refusal: it is in `out/said.json`."""
    kind, *words = arguments
    out = root / "out"
    try:
        figures = _run(kind, words, root)
    except JobRefused as error:
        outcome.write_refusal(out, error)
    except Exception as error:  # noqa: BLE001 - any error is reported in one line
        outcome.write_fault(out, f"{type(error).__name__}: {error}")
        return 1
    else:
        if figures is not None:
            outcome.write_acceptance(out, figures)
    return 0


def _run(kind: str, words: Sequence[str], root: Path) -> Mapping[str, float] | None:
    module = importlib.import_module(f"hive_core.jobs.{KINDS[kind]}")
    figures: Mapping[str, float] | None = module.run(words, root)
    return figures


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
