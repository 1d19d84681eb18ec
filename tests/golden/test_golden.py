"""The wire, the schemas, the ledger, the exit codes and the commands change on purpose only."""

from __future__ import annotations

from each import for_each
from golden.write import FILES, HERE


@for_each("name", sorted(FILES))
def test_public_contracts_are_unchanged(name: str) -> None:
    """Run `python tests/golden/write.py` and list the change in CHANGELOG where it is meant."""
    assert FILES[name]() == (HERE / name).read_text(encoding="utf-8")
