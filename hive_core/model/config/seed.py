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
        "2ff3b57cfc5765057c323cad13f7cb26bb66acb2",
        "sha256-9vtV9o5IJbTJoNlXvBCBg32OE5Fg31Q2u9xbVOxMM1Q=",
    ),
    "nix": SeedCommit(
        "b422933962990f594700c47af1837b13fab5e306",
        "sha256-FM31wYxGg95bHHhUxbGNF3XCxpJD6di95a3V8y/Yrxo=",
    ),
}


def template_name(image: str) -> str:
    """The template of agents of this image."""
    return NIX_IMAGE if image == NIX_IMAGE else HOST_IMAGE


def seed_for(image: str) -> SeedCommit:
    """The first commit of a new agent of this image."""
    return SEEDS[template_name(image)]
