"""`git-remote-hive`: lets git access the daemon's repositories, as `hive::meta` and `hive::NAME`.

git starts it in the caller's own clone and talks to it over standard input and output
(https://git-scm.com/docs/gitremote-helpers); it talks to the daemon over the operator's socket. The
helper does not trust the daemon: it checks the form of all names, and the caller's git checks every
object strictly before it becomes part of the clone.
"""

from __future__ import annotations

import base64
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TextIO

from hive_core.agent.output import plain
from hive_core.cli.config import remote_git
from hive_core.errors import HiveError, Internal, InvalidArgument, Unreachable
from hive_core.varlink import Client, Message

if TYPE_CHECKING:
    from hive_core.cli.config.remote_git import Clone

SOCKET: Final = "/run/hive/operator.sock"
PIECE: Final = 512 * 1024
NO_OBJECT: Final = "0" * 40
MAIN: Final = "refs/heads/main"
_METHOD: Final = "org.hive.Broker."
_REF: Final = re.compile(r"refs/(?:heads|tags)/[a-z0-9]{1,40}(?:/[0-9a-f]{12})?", re.ASCII)
_OID: Final = re.compile(r"[0-9a-f]{40}", re.ASCII)
_REPO: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,63}", re.ASCII)
_REFS_MOST: Final = 200_000


class RemoteRepository:
    """One repository of the daemon."""

    def __init__(self, socket: str, repo: str) -> None:
        if not _REPO.fullmatch(repo):
            raise InvalidArgument(f"{repo!r} is not a repository: use hive::meta or hive::AGENT")
        self._socket, self._repo = socket, repo

    def refs(self) -> dict[str, str]:
        """The targets of its branches and tags; Internal for a name of an unknown form."""
        refs = dict[str, str]()
        for page in self._stream("ListRefs", {}):
            rows = page.get("refs")
            for row in rows if isinstance(rows, list) else []:
                name, oid = str(row.get("name")), str(row.get("oid"))
                if not _REF.fullmatch(name) or not _OID.fullmatch(oid):
                    raise Internal(f"the daemon lists a ref of an unknown form: {name[:80]!r}")
                refs[name] = oid
            if len(refs) > _REFS_MOST:
                raise Internal(f"the daemon lists more than {_REFS_MOST} refs")
        return refs

    def pack(self, wants: list[str], haves: list[str]) -> Iterator[bytes]:
        """The objects that the clone lacks, as a pack."""
        for part in self._stream("ExportPack", {"wants": wants, "haves": haves}):
            yield base64.b64decode(str(part.get("data")), validate=True)

    def push(self, ref: str, old: str, new: str, pack: bytes) -> None:
        """Send a pack in as many parts as needed; raise the reason of a refusal."""
        upload: Message = {}
        at, answer = 0, Message()
        with Client(self._socket, wait=None) as client:
            while not answer.get("outcome"):
                data = pack[at : at + PIECE]
                answer = client.call(f"{_METHOD}PushPack", {
                    "repo": self._repo, "ref": ref, "old": old, "new": new, "offset": at,
                    "pack": base64.b64encode(data).decode(), "part": at + len(data) < len(pack),
                    "idempotency_key": f"git-{new[:12]}-{os.urandom(12).hex()}", **upload,
                })  # fmt: skip
                upload = {"upload": answer["upload"]} if answer.get("upload") else {}
                at += len(data)

    def _stream(self, method: str, params: Message) -> Iterator[Message]:
        with Client(self._socket, wait=None) as client:
            yield from client.stream(f"{_METHOD}{method}", {"repo": self._repo, **params})


@dataclass
class Helper:
    """The requests of git, line by line. `say` prints messages for the user."""

    daemon: RemoteRepository
    clone: Clone
    out: TextIO
    options: dict[str, str] = field(default_factory=dict)
    known: Mapping[str, str] = field(default_factory=dict)

    def run(self, lines: Iterator[str]) -> None:
        for line in lines:
            word, _, rest = line.partition(" ")
            match word:
                case "":
                    return
                case "capabilities":
                    self._print("option", "fetch", "push", "")
                case "option":
                    self._print(self._option(*rest.split(" ", 1)))
                case "list":
                    self._list()
                case "fetch":
                    self._fetch([rest, *_batch(lines)])
                case "push":
                    self._push([rest, *_batch(lines)])
                case _:
                    raise InvalidArgument(f"git sends the unknown command {word!r}")

    def _print(self, *lines: str) -> None:
        self.out.write("".join(f"{line}\n" for line in lines))
        self.out.flush()

    def _option(self, name: str, value: str = "") -> str:
        if name not in ("progress", "verbosity", "dry-run"):
            return "unsupported"
        self.options[name] = value
        return "ok"

    @property
    def _shows(self) -> bool:
        return self.options.get("progress") == "true"

    def _list(self) -> None:
        self.known = self.daemon.refs()
        rows = [f"{oid} {name}" for name, oid in self.known.items()]
        head = [f"@{MAIN} HEAD"] if MAIN in self.known else []
        self._print(*rows, *head, "")

    def _fetch(self, wanted: list[str]) -> None:
        wants = list(dict.fromkeys(line.partition(" ")[0] for line in wanted))
        if not all(map(_OID.fullmatch, wants)):
            raise InvalidArgument("git requests something that is not an object")
        if self._shows:
            say("the daemon packs the new objects")
        lock = self.clone.index(self.daemon.pack(wants, self.clone.tips()), shows=self._shows)
        self._print(*([f"lock {lock}"] if lock else []), "")

    def _push(self, wanted: list[str]) -> None:
        for refspec in wanted:
            source, _, ref = refspec.removeprefix("+").partition(":")
            try:
                self._push_one(source, ref)
            except HiveError as error:
                self._print(f"error {ref} {one_line(error.reason)}")
            else:
                self._print(f"ok {ref}")
        self._print("")

    def _push_one(self, source: str, ref: str) -> None:
        if not source:
            raise InvalidArgument("refs of the daemon cannot be deleted")
        new, old = self.clone.oid(source), self.known.get(ref, NO_OBJECT)
        if self.options.get("dry-run") == "true":
            return
        pack = self.clone.pack(new, [*self.known.values()], tag=ref.startswith("refs/tags/"))
        if self._shows:
            say("the daemon checks the push")
        self.daemon.push(ref, old, new, pack)


def _batch(lines: Iterator[str]) -> Iterator[str]:
    """The other lines of a batch of the same command, which ends with an empty line."""
    for line in lines:
        if not line:
            return
        yield line.partition(" ")[2]


def one_line(text: str) -> str:
    """Text of the daemon on one line, without characters that act on a terminal."""
    return plain(" ".join(text.split()))[:1000]


def say(text: str) -> None:
    sys.stderr.write(f"hive: {one_line(text)}\n")
    sys.stderr.flush()


def _why(error: HiveError) -> str:
    if isinstance(error, Unreachable) and "Permission denied" in error.reason:
        return f"{error.reason}; operators are root and the members of group hive-operator"
    if isinstance(error, Unreachable):
        return f"{error.reason}; is hived running? (`systemctl status hived`, `hive setup`)"
    return error.reason


def main() -> None:
    """Entry point: `git-remote-hive REMOTE REPOSITORY`, as git starts it."""
    if len(sys.argv) != 3:  # noqa: PLR2004
        say("git starts this for addresses such as hive::meta; see git help remote-helpers")
        sys.exit(2)
    socket = os.environ.get("HIVE_OPERATOR_SOCKET", SOCKET)
    try:
        helper = Helper(RemoteRepository(socket, sys.argv[2]), remote_git.Clone(), sys.stdout)
        helper.run(line.rstrip("\n") for line in sys.stdin)
    except HiveError as error:
        say(_why(error))
        sys.exit(1)
    except (BrokenPipeError, KeyboardInterrupt):
        sys.exit(130)
    except Exception as error:  # noqa: BLE001 - the edge: a fault of ours becomes a line
        from hive_core.agent import crash_report  # noqa: PLC0415 - only a crash needs it

        say(crash_report.write_report("git-remote-hive", error))
        sys.exit(1)


if __name__ == "__main__":
    main()
