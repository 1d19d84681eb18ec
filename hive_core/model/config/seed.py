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
        "4b28489ab89c9c008e1803a74a2871467dc49033",
        "sha256-t2z7dFLerkkPcUIQ3Qcx6gxeJUYWQLe9XwO8c8Hi99k=",
    ),
    "nix": SeedCommit(
        "4b7216b3f6720698d0e2c3db305280673b62c7b3",
        "sha256-Q2Svl0cTYTcEQy2l4R0hFklbbc0vnrW+1c7EtSMLye4=",
    ),
}


def template_name(image: str) -> str:
    """The template of agents of this image."""
    return NIX_IMAGE if image == NIX_IMAGE else HOST_IMAGE


def seed_for(image: str) -> SeedCommit:
    """The first commit of a new agent of this image."""
    return SEEDS[template_name(image)]
