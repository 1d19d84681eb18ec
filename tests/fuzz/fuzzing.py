"""Coverage-guided fuzzing of frame reader and request schema (row R12), by hand:

    pip install atheris && PYTHONPATH=.:tests python -m fuzz.fuzzing FOLDER -max_total_time=3600

FOLDER keeps what reached something new. Worth keeping is added to tests/fuzz/corpus, which the
suite runs.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from random import Random

from fuzz.hostile import frame

CUTS = 7


def main() -> None:
    atheris = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["hive_core", "json"]):
        oracle = importlib.import_module("fuzz.oracle")
        varlink = importlib.import_module("hive_core.varlink")

    def one(data: bytes) -> None:
        reader, frames = varlink.FrameReader(), []
        for at in range(0, len(data), CUTS):
            frames += reader.feed(data[at : at + CUTS])
        assert frames == data.split(b"\0")[:-1]
        for text in (*frames, data.split(b"\0")[-1]):
            oracle.examine(text)

    folder = Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    for seed in range(300):
        data = frame(Random(seed))  # noqa: S311 - something to begin with
        if len(data) < 4096:
            (folder / f"seed-{seed}").write_bytes(data)
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
