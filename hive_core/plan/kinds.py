"""The kinds of jobs: what each is given and how much it may take, in one table.

Standard library only: the root helper judges and mounts with this.
"""

from enum import StrEnum
from typing import NamedTuple, Self


class Job(NamedTuple):
    """What a kind of job is given: `takes` names fields of `RunJob`, the rest are bounds.

    `reads` and `writes`: its places by name in the container and what lies there. `in` and `out`
    of the exchange are hived's, all others belong to agents (`privd/mounts.py`).
    """

    takes: set[str]
    reads: dict[str, str]
    writes: dict[str, str]
    memory: str = "1G"
    seconds: int = 600
    nix: bool = False  # may ask the Nix daemon


_NODE, _IN, _OUT = {"uuid", "lineage"}, {"in": "in"}, {"out": "out"}
_OLD, _STATE = {"in": "in", "in2": "import"}, {**_OUT, "agent": "state"}


class JobKind(StrEnum):
    """What a job container does. From `fetch` on it is a program of `hive_core/jobs`.

    Purges delete the bytes of an archived node or a copied root; a copy is that of a prepared
    tree, into a root named like the job; a measure says how much there is in the nodes of an agent
    without parent and below. A clone is one that an agent made of another's configuration.
    `own_inodes` copies each file of a node and below that has a hard link elsewhere. Only
    `lock` has a network.
    """

    job: Job
    exchanges: bool  # whether hived and the job hand each other files, and words
    PURGE_ARCHIVE = "purge_archive", Job({"uuid"}, {}, {"out": "archive"})
    PURGE_ROOT = "purge_root", Job({"uuid"}, {}, {"out": "root"})
    COPY_TREE = "copy_tree", Job({"image"}, {"in": "image"}, {"out": "root"})
    MEASURE = "measure", Job({"uuid"}, {"in": "nodes"}, {})
    FETCH = "fetch", Job(_NODE, {**_IN, "agent": "config"}, _OUT, seconds=90)
    FETCH_CLONE = "fetch_clone", Job(_NODE, {**_IN, "agent": "state"}, _OUT, seconds=90)
    REVIEW = "review", Job(set(), _IN, _OUT, seconds=90)
    RECEIVE = "receive", Job(set(), _IN, _OUT, seconds=90)
    SEED = "seed", Job(_NODE, _IN, {**_OUT, "agent": "config"}, seconds=90)
    EVALUATE = "evaluate", Job(set(), _IN, _OUT, "4G", 150, nix=True)
    BUILD = "build", Job(set(), _IN, _OUT, seconds=1900, nix=True)
    LOCK = "lock", Job(set(), _IN, _OUT, "2G", nix=True)
    IMPORT_STATE = "import_state", Job(_NODE | {"image"}, _OLD, _STATE, seconds=1800)
    OWN_INODES = "own_inodes", Job(_NODE, _IN, {**_OUT, "node": "node"}, seconds=3600)

    def __new__(cls, name: str, job: Job) -> Self:
        member = str.__new__(cls, name)
        member._value_, member.job, member.exchanges = name, job, job.writes.get("out") == "out"
        return member
