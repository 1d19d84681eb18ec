"""The files beside the SKILL.md of a colony's skill, from the workspace of its queen."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from hive_core.agent import workspace
from hive_core.agent.prompt_context import save_skill
from hive_core.agent.reconnect import Link
from hive_core.agent.session.handover import escalate_fault, fetch_bytes, store_bytes
from hive_core.agent.session.services import SessionServices
from hive_core.agent.skills import FILE, check_name
from hive_core.errors import HiveError, InvalidArgument, LimitReached, NotFound

FILES_MOST: Final = 64
BYTES_MOST: Final = 1 << 20
_DEEP: Final = 4
_PACKED_MOST: Final = 2 * BYTES_MOST
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}", re.ASCII)


def store_skill_files(services: SessionServices, link: Link, folder: str) -> Mapping[str, object]:
    """Store the further files of a skill; the parameters of `create_colony` that name them."""
    path = folder.removeprefix("./").rstrip("/")
    data = pack_files(services.place.workspace, path) if path else b""
    if not data:
        return {}
    stored = store_bytes(services, link, "skills", data)
    return {"skill_files": stored.artifact, "skill_files_sha256": stored.sha256}


def pack_files(root: Path, folder: str) -> bytes:
    """All files below the folder but its SKILL.md; empty: there are none.

    InvalidArgument or LimitReached names what cannot be handed over. No link is followed.
    """
    files: dict[str, str] = {}
    left = BYTES_MOST
    for path in _paths(root, folder):
        if len(files) >= FILES_MOST:
            raise LimitReached(f"{folder} has more than {FILES_MOST} files beside its {FILE}")
        content = workspace.read_whole(root, f"{folder}/{path}", left)
        left -= len(content)
        files[path] = base64.b64encode(content).decode()
    return json.dumps({"files": files}, separators=(",", ":")).encode() if files else b""


def unpack_files(data: bytes) -> dict[str, bytes]:
    """The files by path; InvalidArgument for what `pack_files` never makes."""
    try:
        files = json.loads(data)["files"]
        contents = {
            check_path(path): base64.b64decode(text, validate=True) for path, text in files.items()
        }
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
        raise InvalidArgument(f"these are not the files of a skill: {error}") from None
    if len(contents) > FILES_MOST or sum(map(len, contents.values())) > BYTES_MOST:
        raise LimitReached(f"a skill has at most {FILES_MOST} files of {BYTES_MOST} bytes in all")
    return contents


def install_skill(services: SessionServices, link: Link, text: str) -> None:
    """Install the skill that a letter of the daemon has, with all of its files.

    Where they cannot be had, or are others, nothing is installed, and the parent is told.
    """
    head, _, body = text.partition("\n")
    try:
        named = json.loads(head)
        name = check_name(str(named["name"]))
        files = {FILE: body.encode()}
        if "files" in named:
            files |= unpack_files(fetch_bytes(link, named["files"], _PACKED_MOST))
    except (HiveError, OSError, ValueError, LookupError) as error:
        escalate_fault(services, link, "install a skill", error)
        return
    save_skill(services.folder.parent, name, files)


def check_path(path: str) -> str:
    """The path, if it can be that of a file of a skill."""
    names = path.split("/")
    if path == FILE or len(names) > _DEEP or not all(map(_NAME.fullmatch, names)):
        raise InvalidArgument(
            f"{path[:200]!r} cannot be a file of a skill: letters, digits and ._-, no name that"
            f" begins with a dot, and at most {_DEEP - 1} folders deep", field="skill_path",
        )  # fmt: skip
    return path


def _paths(root: Path, folder: str, below: str = "") -> Iterator[str]:
    try:
        with workspace.open_folder(root, f"{folder}/{below}".rstrip("/")) as place:
            names = sorted(os.listdir(place))  # noqa: PTH208 - a descriptor, not a path
    except NotFound:
        return  # the daemon says that there is no skill
    for name in names:
        path = f"{below}{name}"
        if path == FILE:
            continue
        check_path(path)
        if workspace.file_size(root, f"{folder}/{path}") is None:
            yield from _paths(root, folder, f"{path}/")
        else:
            yield path
