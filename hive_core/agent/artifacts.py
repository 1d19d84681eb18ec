"""`hive-agent artifact put|get FILE`: store and fetch artifacts of any size, in parts."""

from __future__ import annotations

import argparse
import base64
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final

from hive_core.agent import output
from hive_core.agent.reconnect import Link
from hive_core.errors import AlreadyExists, Internal, NotFound

ABOUT: Final = "Store a file as an artifact, or fetch one."
PART: Final = 500_000
_TRIES: Final = 3


def artifact(path: str, arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    with Link(path) as link:
        if options.doing == "put":
            output.line(put(link, options))
        else:
            get(link, options)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("hive-agent artifact", description=ABOUT)
    doing = parser.add_subparsers(dest="doing", required=True, metavar="put|get")
    putting = doing.add_parser("put", help="store a file, and print the id of the version")
    putting.add_argument("file", help="file to store; - reads standard input")
    putting.add_argument("--name", help="name of the artifact (default: the name of the file)")
    putting.add_argument("--type", help="media type of the artifact")
    putting.add_argument("--visibility", choices=("private", "subtree", "user", "global"),
                         help="readers: private (the owner; default), subtree (also its ancestors"
                         " and descendants), user (the same root), global (all)")  # fmt: skip
    putting.add_argument("--owner", help="owner: a descendant of this agent (default: this agent)")
    getting = doing.add_parser("get", help="fetch an artifact")
    getting.add_argument("which", help="id of the artifact, or its name with --owner or --name")
    getting.add_argument(
        "file", nargs="?", default="-", help="file to write (default: standard output)"
    )
    getting.add_argument("--name", action="store_true", help="WHICH is a name")
    getting.add_argument("--owner", "--of", help="owner of the artifact; WHICH is then a name")
    getting.add_argument("--version", type=int, help="version (default: the latest)")
    getting.add_argument("--force", action="store_true", help="replace an existing file")
    return parser


def put(link: Link, options: argparse.Namespace) -> str:
    """Upload a file and store it under a name; upload again if the daemon restarted meanwhile."""
    with ExitStack() as held:
        standard = options.file == "-"
        file: BinaryIO = sys.stdin.buffer if standard else held.enter_context(
            Path(options.file).open("rb")
        )  # fmt: skip
        name = options.name or ("stdin" if standard else Path(options.file).name)
        for last in (*[False] * (_TRIES - 1), True):
            try:
                id_ = upload(link, file)
                said = {key: getattr(options, key) for key in ("type", "visibility", "owner")}
                return str(link.change("store_artifact", name=name, upload=id_, **said)["id"])
            except NotFound as error:
                if last or standard or "upload" not in error.reason:
                    raise
                file.seek(0)
    raise Internal("unreachable")


def upload(link: Link, file: BinaryIO) -> str:
    """Send the bytes of a file; the id of the upload, which `store_artifact` takes."""
    id_ = str(link.ask("begin_artifact")["upload"])
    size: Any = 0
    while part := file.read(PART):
        data = base64.b64encode(part).decode()
        # Without an idempotency key, since the last part may be sent again.
        size = link.ask("append_artifact", upload=id_, offset=size, data=data)["size"]
    return id_


def get(link: Link, options: argparse.Namespace) -> None:
    named = options.name or options.owner is not None
    which = {"name": options.which, "owner": options.owner, "version": options.version} if named \
        else {"id": options.which}  # fmt: skip
    if options.file == "-":
        for part in parts(link, which):
            sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()
    else:
        write_file(Path(options.file), parts(link, which), force=options.force)


def parts(link: Link, which: dict[str, Any]) -> Iterator[bytes]:
    """The parts of one version, also when another version is stored meanwhile."""
    after: Any = None
    while True:
        part: dict[str, Any] = link.ask("get_artifact", **which, after=after)
        yield base64.b64decode(part["data"])
        after, which = part.get("next"), {"id": part["artifact"]["id"]}
        if not after:
            return


def write_file(file: Path, parts: Iterator[bytes], *, force: bool) -> None:
    """Write the whole file, or nothing."""
    if not force and os.path.lexists(file):
        raise AlreadyExists(f"{file} exists; --force replaces it")
    # Process numbers repeat, here and in other containers.
    spare = file.with_name(f".{file.name}.{os.urandom(6).hex()}")
    try:
        with spare.open("xb") as out:
            for part in parts:
                out.write(part)
        if force:
            spare.replace(file)
        else:
            os.link(spare, file)  # fails when the file was created meanwhile
    except OSError as error:  # errors must not name the temporary file
        raise OSError(error.errno, error.strerror, str(file)) from None
    finally:
        with suppress(OSError):
            spare.unlink()
