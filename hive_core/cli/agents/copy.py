"""`hive cp`: copies files between this machine and an agent's container; only root may.

Files go through a process in the container, as with `hive shell`. The agent made the files in its
container, so the command takes only plain files and folders from it, writes each below the target,
and follows no link on this side.
"""

from __future__ import annotations

import os
import stat
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, Final, NamedTuple

import click

from hive_core.cli.agents import enter
from hive_core.cli.core.output import say, words
from hive_core.cli.core.progress import working
from hive_core.cli.core.session import Session, complete_agent
from hive_core.errors import Conflict, InvalidArgument, NotFound
from hive_core.model.names import name_fault

_COMPLAINT: Final = 2000
_HEADER_MOST: Final = 1 << 20  # bytes of the extra headers of a member, which are read into memory
_FILE, _FOLDER, _ABSENT, _OTHER = 0, 10, 11, 12
_KIND: Final = (
    f'cd {enter.STATE}; if [ -d "$1" ]; then exit {_FOLDER}; elif [ -f "$1" ]; then exit {_FILE};'
    f' elif [ -e "$1" ]; then exit {_OTHER}; else exit {_ABSENT}; fi'
)
_READ_FILE: Final = f'cd {enter.STATE} && exec cat -- "$1"'
_READ_FOLDER: Final = f'cd {enter.STATE} && exec tar -C "$1" -cf - .'
# Writes a file into a folder under its own name; replaces an existing file as a whole.
_WRITE_FILE: Final = (
    f'cd {enter.STATE} || exit; to=$1; [ ! -d "$to" ] || to=$to/$2;'
    ' cat >"$to.part" && chmod "$3" "$to.part" && mv -f -- "$to.part" "$to"'
)
_WRITE_FOLDER: Final = (
    f'cd {enter.STATE} || exit; to=$1; [ ! -d "$to" ] || to=$to/$2;'
    ' mkdir -p -- "$to" && exec tar -C "$to" --no-same-owner -xf -'
)


class Remote(NamedTuple):
    """A path in the container of an agent; a relative path begins at /tree/state."""

    agent: str
    path: str


def parse_place(text: str) -> Remote | Path:
    """Read `NAME:PATH` as a path in a container, anything else as one on this machine."""
    name, colon, path = text.partition(":")
    return Remote(name, path or ".") if colon and name_fault(name) is None else Path(text)


def _complete_place(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [f"{name}:" for name in complete_agent(ctx, param, incomplete)]


@click.command
@click.argument("source", shell_complete=_complete_place)
@click.argument("target", shell_complete=_complete_place)
@click.pass_obj
def cp(session: Session, source: str, target: str) -> None:
    """Copy a file or a folder into the container of an agent, or out of it.

    One of SOURCE and TARGET is NAME:PATH, a path in the container of NAME; a relative path begins
    at its working directory /tree/state. The other one is a path on this machine, or - for standard
    input or output. Only root may copy, and the agent must run. Links and devices in a container
    are not copied.
    """
    here, there = parse_place(source), parse_place(target)
    if isinstance(here, Remote) and isinstance(there, Path):
        _fetch(enter.locate(session, here.agent, "copy files of"), here, there)
    elif isinstance(here, Path) and isinstance(there, Remote):
        _store(enter.locate(session, there.agent, "copy files to"), here, there)
    else:
        raise click.UsageError("one of SOURCE and TARGET must be NAME:PATH, and only one")


def _run(
    place: enter.Place, text: str, *arguments: str, source: int | None = None,
    target: int | None = None,
) -> tuple[int, str]:  # fmt: skip
    """Run a script in the container; return its exit status and the beginning of its error output.

    The programs there may be the agent's: their output never reaches the terminal unescaped.
    """
    complaints, errors = os.pipe()
    os.set_blocking(errors, False)  # output that does not fit into the pipe is not read
    nothing = os.open(os.devnull, os.O_RDWR)
    try:
        status = enter.run_in_pipes(
            place, ["/bin/sh", "-c", text, "sh", *arguments],
            nothing if source is None else source, nothing if target is None else target, errors,
        )  # fmt: skip
    finally:
        os.close(errors)
        os.close(nothing)
        said = os.read(complaints, _COMPLAINT).decode(errors="replace")
        os.close(complaints)
    return status, " ".join(said.split())


def _check(outcome: tuple[int, str], remote: Remote) -> None:
    status, complaint = outcome
    if status:
        reason = complaint or f"the command in the container ended with {status}"
        raise Conflict(f"cannot copy {remote.agent}:{remote.path}: {reason}")


def _fetch(place: enter.Place, source: Remote, target: Path) -> None:
    """Copy out of a container."""
    kind, _ = outcome = _run(place, _KIND, source.path)
    if kind == _ABSENT:
        raise NotFound(f"cannot copy {source.agent}:{source.path}: no such file")
    if kind == _OTHER:
        raise Conflict(
            f"cannot copy {source.agent}:{source.path}: it is neither a file nor a folder"
        )
    if kind != _FOLDER:
        _check(outcome, source)
    name = PurePosixPath(source.path).name
    if target.is_dir() and name not in ("", ".."):
        target /= name
    with working(f"copying {source.agent}:{source.path}", after=1.0):
        if kind == _FOLDER:
            _fetch_folder(place, source, target)
        else:
            _fetch_file(place, source, target)


def _fetch_file(place: enter.Place, source: Remote, target: Path) -> None:
    if str(target) == "-":
        if sys.stdout.isatty():
            raise InvalidArgument("standard output is a terminal: name a file", field="target")
        sys.stdout.flush()
        _check(_run(place, _READ_FILE, source.path, target=1), source)
        return
    part = target.with_name(f".{target.name}.part")
    part.unlink(missing_ok=True)
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        _check(_run(place, _READ_FILE, source.path, target=handle), source)
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    finally:
        os.close(handle)


def _fetch_folder(place: enter.Place, source: Remote, target: Path) -> None:
    if str(target) == "-":
        raise InvalidArgument("a folder cannot be written to standard output", field="target")
    reader, writer = os.pipe()
    with _in_background(lambda: _unpack_stream(reader, target)):
        try:
            outcome = _run(place, _READ_FOLDER, source.path, target=writer)
        finally:
            os.close(writer)
    _check(outcome, source)


def _unpack_stream(reader: int, target: Path) -> None:
    with open(reader, "rb") as stream:
        try:
            unpack(stream, target)
        finally:
            while stream.read(1 << 16):
                pass  # the padding of the archive, or all of it after a failure


def unpack(stream: IO[bytes], target: Path) -> None:
    """Write the plain files and folders of an archive below `target`; skip everything else."""
    target.mkdir(exist_ok=True)
    top = os.open(target, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with tarfile.open(fileobj=stream, mode="r|", tarinfo=_BoundedMember) as archive:
            for member in archive:
                # Otherwise each is kept in memory, for as many as the agent sends.
                archive.members.clear()  # type: ignore[attr-defined]
                _unpack_member(archive, member, top)
    except (tarfile.TarError, ValueError, OverflowError) as error:  # not all are of tarfile
        raise Conflict(f"cannot read the archive of the container: {error}") from error
    finally:
        os.close(top)


class _BoundedMember(tarfile.TarInfo):
    """A member of an archive whose extra headers are not larger than a name or a time needs."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if not self.isreg() and self.size > _HEADER_MOST:
            raise tarfile.ReadError("the header of a member is too large")
        member: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc]
        return member


def _unpack_member(archive: tarfile.TarFile, member: tarfile.TarInfo, top: int) -> None:
    parts = [part for part in PurePosixPath(member.name).parts if part != "."]
    if ".." in parts or member.name.startswith("/") or (member.isreg() and not parts):
        raise Conflict(f"cannot copy {words(member.name)}: it is outside the folder")
    if member.isdir():
        os.close(_open_folder(top, parts))
    elif member.isreg():
        _write_member(archive, member, top, parts)
    else:
        say(f"not copied, neither a file nor a folder: {words(member.name)}")


def _open_folder(top: int, parts: list[str]) -> int:
    """Open a folder below `top` and create missing parents; follow no link on the way."""
    folder = os.dup(top)
    for part in parts:
        with suppress(FileExistsError):
            os.mkdir(part, dir_fd=folder)
        try:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
        finally:
            os.close(folder)
        folder = inner
    return folder


def _write_member(
    archive: tarfile.TarFile, member: tarfile.TarInfo, top: int, parts: list[str]
) -> None:
    folder = _open_folder(top, parts[:-1])
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK
        mode = 0o755 if member.mode & stat.S_IXUSR else 0o644
        handle = os.open(parts[-1], flags, mode, dir_fd=folder)
    finally:
        os.close(folder)
    with open(handle, "wb") as file:  # noqa: PTH123 - a descriptor
        content = archive.extractfile(member)
        while content is not None and (data := content.read(1 << 16)):
            file.write(data)


def _store(place: enter.Place, source: Path, target: Remote) -> None:
    """Copy into a container."""
    with working(f"copying {source}", after=1.0):
        if source.is_dir():
            outcome = _store_folder(place, source, target)
        elif str(source) == "-":
            outcome = _run(place, _WRITE_FILE, target.path, "stdin", "644", source=0)
        else:
            with source.open("rb") as file:
                mode = "755" if os.fstat(file.fileno()).st_mode & stat.S_IXUSR else "644"
                outcome = _run(
                    place, _WRITE_FILE, target.path, source.name, mode, source=file.fileno()
                )
    _check(outcome, target)


def _store_folder(place: enter.Place, source: Path, target: Remote) -> tuple[int, str]:
    reader, writer = os.pipe()
    name = source.resolve().name
    with _in_background(lambda: _pack_stream(source, writer)):
        try:
            return _run(place, _WRITE_FOLDER, target.path, name, source=reader)
        finally:
            os.close(reader)  # packing ends when the container stops reading


def _pack_stream(source: Path, writer: int) -> None:
    """Write the folder as an archive whose files belong to root of the container."""

    def set_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = "root"
        return member

    with (
        suppress(BrokenPipeError),
        open(writer, "wb") as stream,
        tarfile.open(fileobj=stream, mode="w|") as archive,
    ):
        archive.add(source, ".", filter=set_owner)


@contextmanager
def _in_background(work: Callable[[], None]) -> Iterator[None]:
    """Run `work` in a thread beside the body; its failure is raised at the end."""
    failures: list[Exception] = []

    def run() -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - whatever it is, the copy is not complete
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    if failures:
        raise failures[0]
