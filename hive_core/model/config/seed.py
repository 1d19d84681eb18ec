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
        "f68a04dda6f26c5f7f04062404b6a4251b8f1260",
        "sha256-aCO233uaLfoJFdpgKB6NJPUH28HHEDN/8zHYDalRawU=",
    ),
    "nix": SeedCommit(
        "8c06b4a658e171e50be50fa8af1ed2219e0f16b9",
        "sha256-PNWsvQqDHV7bo52RRAEAJu1Y5xQM69XGdo4Zpy83ruI=",
    ),
}


def template_name(image: str) -> str:
    """The template of agents of this image."""
    return NIX_IMAGE if image == NIX_IMAGE else HOST_IMAGE


def seed_for(image: str) -> SeedCommit:
    """The first commit of a new agent of this image."""
    return SEEDS[template_name(image)]
