"""The first commit of a new agent's configuration, by kind of image.

Generated from the template by `python -m hive_core.surfaces`; do not edit.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from hive_core.model.config.settings import HOST_IMAGE, NIX_IMAGE


class SeedCommit(NamedTuple):
    """Id of the commit, and the hash of its files as a NAR."""

    commit: str
    nar: str


SEEDS: Final = {
    "host": SeedCommit(
        "cad78c78c2efd3b1ffcb6a9681fa8f960c595318",
        "sha256-k4Ncmc/4rsWrLUuCxth5v/ei473rQhdjwIqxqXLXlz4=",
    ),
    "nix": SeedCommit(
        "c8cce959a72f0c23b3255f4901eef0b2f57ce0fb",
        "sha256-fi5Ftgv+/2v2cLZE2Rc+YVWKWiLN+xRYp+apFtPVdRQ=",
    ),
}


def template_name(image: str) -> str:
    """The template of agents of this image."""
    return NIX_IMAGE if image == NIX_IMAGE else HOST_IMAGE


def seed_for(image: str) -> SeedCommit:
    """The first commit of a new agent of this image."""
    return SEEDS[template_name(image)]
