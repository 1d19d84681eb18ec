"""`hive_core/model/config/seed.py`, written from the template: what a spawn says of a new agent."""

from __future__ import annotations

from hive_core.host.git.seed import LAYERS, seed

_HEAD = '''\
"""The commit that a new agent's configuration starts with, by kind of image.

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
'''
_TAIL = '''\
}


def template_name(image: str) -> str:
    """Which template agents of this image start with."""
    return NIX_IMAGE if image == NIX_IMAGE else HOST_IMAGE


def seed_for(image: str) -> SeedCommit:
    """What a new agent of this image starts with."""
    return SEEDS[template_name(image)]
'''


def seed_module() -> str:
    """The whole module."""
    return _HEAD + "".join(map(_row, LAYERS)) + _TAIL


def _row(kind: str) -> str:
    found = seed(kind)
    return f'    "{kind}": SeedCommit(\n        "{found.commit}",\n        "{found.nar}",\n    ),\n'
