"""Write the golden unit files anew: `PYTHONPATH=.:tests python tests/nix/golden.py`."""

from __future__ import annotations

from nix.module import HERE, units


def main() -> None:
    for name, text in units().items():
        (HERE / "golden" / name).write_text(text)


if __name__ == "__main__":
    main()
