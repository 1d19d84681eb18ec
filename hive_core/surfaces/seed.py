"""`hive_core/model/config/seed.py`, generated from the template of configurations."""

from __future__ import annotations

from hive_core.host.git.seed import LAYERS, seed

_HEAD = '''\
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
'''
_TAIL = '''\
}


def template_name(image: str) -> str:
    """The template of agents of this image."""
    return NIX_IMAGE if image == NIX_IMAGE else HOST_IMAGE


def seed_for(image: str) -> SeedCommit:
    """The first commit of a new agent of this image."""
    return SEEDS[template_name(image)]
'''


def seed_module() -> str:
    """The whole module."""
    return _HEAD + "".join(map(_row, LAYERS)) + _TAIL


def _row(kind: str) -> str:
    commit = seed(kind)
    return (
        f'    "{kind}": SeedCommit(\n        "{commit.commit}",\n        "{commit.nar}",\n    ),\n'
    )
