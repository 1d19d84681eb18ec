"""The kinds of jobs: their inputs, outputs and limits, in one table.

Standard library only: the root helper checks and mounts by this table.
"""

from enum import StrEnum
from typing import NamedTuple, Self


class JobSpec(NamedTuple):
    """One kind of job: `takes` names the fields of `RunJob` that it needs, the rest are limits.

    `reads` and `writes`: its directories by name in the container, and what is mounted there. `in`
    and `out` of the exchange belong to hived, all others to agents (`privd/mounts.py`).
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
    """What a job container does. From `fetch` on, the job is a program of `hive_core/jobs`.

    A purge deletes the files of an archived node or of a copied root. `copy_tree` copies a prepared
    tree into a root with the name of the job. `measure` counts the files in the node of a root
    agent and in all nodes below. `fetch_clone` fetches from a clone that an agent made of another
    agent's configuration. `own_inodes` copies each file in a node and below that has a hard link
    elsewhere. Only `lock` has network access.
    """

    job: JobSpec
    exchanges: bool  # whether hived and the job exchange files, and words
    PURGE_ARCHIVE = "purge_archive", JobSpec({"uuid"}, {}, {"out": "archive"})
    PURGE_ROOT = "purge_root", JobSpec({"uuid"}, {}, {"out": "root"})
    COPY_TREE = "copy_tree", JobSpec({"image"}, {"in": "image"}, {"out": "root"})
    MEASURE = "measure", JobSpec({"uuid"}, {"in": "nodes"}, {})
    FETCH = "fetch", JobSpec(_NODE, {**_IN, "agent": "config"}, _OUT, seconds=90)
    FETCH_CLONE = "fetch_clone", JobSpec(_NODE, {**_IN, "agent": "state"}, _OUT, seconds=90)
    REVIEW = "review", JobSpec(set(), _IN, _OUT, seconds=90)
    RECEIVE = "receive", JobSpec(set(), _IN, _OUT, seconds=90)
    SEED = "seed", JobSpec(_NODE, _IN, {**_OUT, "agent": "config"}, seconds=90)
    EVALUATE = "evaluate", JobSpec(set(), _IN, _OUT, "4G", 150, nix=True)
    BUILD = "build", JobSpec(set(), _IN, _OUT, seconds=1900, nix=True)
    LOCK = "lock", JobSpec(set(), _IN, _OUT, "2G", nix=True)
    IMPORT_STATE = "import_state", JobSpec(_NODE | {"image"}, _OLD, _STATE, seconds=1800)
    OWN_INODES = "own_inodes", JobSpec(_NODE, _IN, {**_OUT, "node": "node"}, seconds=3600)

    def __new__(cls, name: str, job: JobSpec) -> Self:
        member = str.__new__(cls, name)
        member._value_, member.job, member.exchanges = name, job, job.writes.get("out") == "out"
        return member
