"""The storage on disk: nodes of the tree, copied roots, socket directories. Opened by descriptors.

Nodes and `kids/` directories belong to root, so nothing below an open descriptor changes during an
action; `state/` and `config/` belong to the storage range and are never entered.
"""

import os
import pwd
import shutil
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from hive_core.model.names import is_short, is_uuid
from hive_core.plan.actions import STORAGE_BASE
from hive_core.plan.render import RUN, STATE, STORES

TREE: Final = f"{STATE}/tree"
ROOTS: Final = f"{STATE}/roots"
ARCHIVE: Final = f"{TREE}/.archive"
MOUNTS: Final = Path(STATE, "mounts")
SOCKET_DIRECTORIES: Final = f"{RUN}/agents"
_WALK: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_HERE: Final = -100  # AT_FDCWD; ignored, because the first step is absolute
Steps = tuple[str, ...]


def kids(lineage: Steps) -> Steps:
    """Return the steps from the tree to the children of this node."""
    return (TREE, *(step for part in lineage for step in (part, "kids")))


def node(lineage: Steps) -> Steps:
    """Return the steps from the tree to a node."""
    return (*kids(lineage[:-1]), lineage[-1])


@contextmanager
def open_steps(*steps: str, at: int = _HERE) -> Iterator[int]:
    """Walk from a directory of root, one real directory at a time, and keep the last one open."""
    with ExitStack() as held:
        for step in steps:
            at = os.open(step, _WALK, dir_fd=at)
            held.callback(os.close, at)
        yield at


def _exists(name: str, place: int) -> bool:
    """Return whether a real directory of this name is there; anything else is refused."""
    with suppress(FileNotFoundError):
        if stat.S_ISDIR(os.stat(name, dir_fd=place, follow_symlinks=False).st_mode):
            return True
        raise FileExistsError(f"{name} exists and is not a directory")
    return False


def make(place: Steps, name: str, owned: dict[str, int]) -> bool:
    """Create a directory with leaves of these owners; complete one that was left unfinished."""
    with open_steps(*place) as above:
        if new := not _exists(name, above):
            os.mkdir(name, 0o755, dir_fd=above)
    with open_steps(*place, name) as own:
        for leaf, owner in owned.items():
            if not _exists(leaf, own):
                os.mkdir(leaf, 0o755, dir_fd=own)
            if os.stat(leaf, dir_fd=own, follow_symlinks=False).st_uid == 0:
                os.chown(leaf, owner, owner, dir_fd=own, follow_symlinks=False)
    return new


def make_node(lineage: Steps) -> bool:
    """Create the node of an agent."""
    owned = {"kids": 0, "state": STORAGE_BASE, "config": STORAGE_BASE}
    return make(kids(lineage[:-1]), lineage[-1], owned)


def rename(old: Steps, new: Steps) -> bool:
    """Move a directory, given by the steps to each place; never onto another one."""
    with open_steps(*new[:-1]) as target:
        there = _exists(new[-1], target)
        with suppress(FileNotFoundError), open_steps(*old[:-1]) as source:
            if _exists(old[-1], source):
                if there:
                    raise FileExistsError(f"{new[-1]} exists already")
                os.rename(old[-1], new[-1], src_dir_fd=source, dst_dir_fd=target)
                return True
    if not there:
        raise FileNotFoundError(f"{old[-1]} does not exist")
    return False


def _empty(*steps: str) -> bool:
    with open_steps(*steps) as place:
        return not os.listdir(place)  # noqa: PTH208 - a descriptor, not a path


def archive(lineage: Steps, uuid: str) -> bool:
    """Move a node without children out of the tree."""
    with suppress(FileNotFoundError):
        if not _empty(*node(lineage), "kids"):
            raise FileExistsError("the agent has children")
    return rename(node(lineage), (ARCHIVE, uuid))


def drop(place: str, uuid: str) -> bool:
    """Remove a directory whose leaves are all empty."""
    with open_steps(place) as above:
        if not _exists(uuid, above):
            return False
        with open_steps(place, uuid) as own:
            leaves = os.listdir(own)  # noqa: PTH208
            if not all(_empty(place, uuid, leaf) for leaf in leaves):
                raise FileExistsError(f"{uuid} is not empty")
            for leaf in leaves:
                os.rmdir(leaf, dir_fd=own)
        os.rmdir(uuid, dir_fd=above)
    return True


def make_socket_directory(uuid: str) -> bool:
    """Create the directories that hived fills, and the mount points of its repositories."""
    hive = pwd.getpwnam("hive").pw_uid
    owned = {"run": hive, "view": hive, **dict.fromkeys(STORES, 0)}
    return make((SOCKET_DIRECTORIES,), uuid, owned)


def remove_socket_directory(uuid: str) -> bool:
    """Remove a socket directory and the exit record; rmtree follows no symlink of hived."""
    Path(f"{RUN}/exits/{uuid}").unlink(missing_ok=True)
    with open_steps(SOCKET_DIRECTORIES) as above:
        if gone := _exists(uuid, above):
            shutil.rmtree(uuid, dir_fd=above)
    return gone


def registered_path(kind: str, name: str) -> str:
    """Look up the path of an image or an import in its table, which only root writes."""
    for line in Path(f"/etc/hive/{kind}s").read_text(encoding="utf-8").splitlines():
        if line.split(maxsplit=1)[:1] == [name]:
            return line.split(maxsplit=1)[1]
    raise FileNotFoundError(f"unknown {kind}: {name}")


def lineages() -> Iterator[Steps]:
    """List every node; one that root created by hand may be incomplete."""
    with suppress(OSError), open_steps(TREE) as place:
        yield from _below(place, ())


def _below(place: int, lineage: Steps) -> Iterator[Steps]:
    for name in filter(is_short, os.listdir(place)):
        yield (*lineage, name)
        with suppress(OSError), open_steps(name, "kids", at=place) as inner:
            yield from _below(inner, (*lineage, name))


def uuids(place: str | Path) -> list[str]:
    """List the entries that are named like an agent or a job."""
    return sorted(path.name for path in Path(place).iterdir() if is_uuid(path.name))


def observe() -> dict[str, object]:
    """List all storage, of existing and of unknown agents."""
    places = {"archives": ARCHIVE, "roots": ROOTS, "mounts": str(MOUNTS),
              "socket_directories": SOCKET_DIRECTORIES}  # fmt: skip
    return {"nodes": list(lineages()), **{name: uuids(place) for name, place in places.items()}}
