"""Reads a signed tag, and finds its signer with ssh-keygen and gpgv, the programs that git uses.

The file of allowed signers has the format of ssh-keygen(1), and may also hold armoured public PGP
keys. It decides who may approve, so it must be owned by root and writable by root only.

https://git-scm.com/docs/gitformat-signature describes where the signature of a tag is.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from hive_core.errors import Internal, InvalidArgument, NotAllowed, TimedOut

SIGNERS_MOST: Final = 1 << 20
_DEADLINE: Final = 10.0
_NAMESPACE: Final = "git"
_SAID: Final = 500
_BLOCK: Final = re.compile(
    r"-----BEGIN PGP PUBLIC KEY BLOCK-----\s*\n(.*?)-----END PGP PUBLIC KEY BLOCK-----", re.DOTALL
)
# Statuses of gpgv for a bad signature; another signature of the same tag may be good.
_BAD: Final = ("EXPSIG", "EXPKEYSIG", "REVKEYSIG", "BADSIG", "ERRSIG")
# Bytes of a tag, and its lines before the message.
TAG_LIMIT: Final = 64 << 10
_HEAD: Final = re.compile(
    rb"object (?P<object>[0-9a-f]{40})\ntype (?P<kind>[a-z]{1,10})\n"
    rb"tag (?P<name>[!-~]{1,200})\ntagger (?P<tagger>[^\n\0]{1,500})\n\n"
)
_FIELD: Final = "tag"


class SignatureFormat(StrEnum):
    """The program that made the signature."""

    SSH = "ssh"
    PGP = "pgp"


_ARMOUR: Final = {
    SignatureFormat.SSH: b"-----BEGIN SSH SIGNATURE-----",
    SignatureFormat.PGP: b"-----BEGIN PGP SIGNATURE-----",
}


class SignedTag(NamedTuple):
    """A signed tag. `payload` is the signed bytes.

    Do not trust any field before the signature is checked.
    """

    object: str
    kind: str
    name: str
    payload: bytes
    signature: bytes
    flavour: SignatureFormat


def read_tag(data: bytes) -> SignedTag:
    """Parse a tag and its signature; InvalidArgument if the tag is malformed or not signed."""
    if len(data) > TAG_LIMIT:
        raise InvalidArgument(f"the tag is larger than {TAG_LIMIT} bytes", field=_FIELD)
    head = _HEAD.match(data)
    if head is None:
        raise InvalidArgument("the tag is not well-formed", field=_FIELD)
    flavour, at = _signature_start(data, head.end())
    return SignedTag(
        head["object"].decode(), head["kind"].decode(), head["name"].decode(),
        data[:at], data[at:], flavour,
    )  # fmt: skip


def _signature_start(data: bytes, start: int) -> tuple[SignatureFormat, int]:
    """The format and position of the signature: the last matching line, as in git."""
    places = {
        flavour: max(data.rfind(b"\n" + line, start - 1), -1) for flavour, line in _ARMOUR.items()
    }
    flavour, at = max(places.items(), key=lambda item: item[1])
    if at < 0:
        raise InvalidArgument("the tag is not signed", field=_FIELD)
    return flavour, at + 1


class Signatures:
    """Checks signatures against the file `signers`, which is read again for each check.

    `owner` is the uid that must own the file.
    """

    def __init__(self, signers: Path, owner: int = 0) -> None:
        self._signers, self._owner = signers, owner

    async def signer(self, tag: SignedTag) -> str:
        """The signer of a tag; NotAllowed unless the signers file lists the key."""
        text = self._read()
        with TemporaryDirectory(prefix="hive-signed-") as name:
            folder = Path(name)
            (folder / "signature").write_bytes(tag.signature)
            (folder / "payload").write_bytes(tag.payload)
            match tag.flavour:
                case SignatureFormat.SSH:
                    return await _ssh(folder, text)
                case SignatureFormat.PGP:
                    return await _pgp(folder, text)

    def _read(self) -> str:
        try:
            with self._signers.open("rb") as file:
                facts = os.fstat(file.fileno())
                if facts.st_uid != self._owner or facts.st_mode & 0o022:
                    raise NotAllowed(
                        f"{self._signers} must be owned by root and writable by root only"
                    )
                data = file.read(SIGNERS_MOST + 1)
        except OSError as error:
            raise NotAllowed(f"cannot read {self._signers}: {error.strerror}") from error
        if len(data) > SIGNERS_MOST:
            raise NotAllowed(f"{self._signers} is larger than {SIGNERS_MOST} bytes")
        return data.decode("utf-8", "replace")


def keys(text: str) -> Iterator[bytes]:
    """The PGP keys in a file of signers. A damaged block is skipped."""
    for block in _BLOCK.finditer(text):
        _, _, body = block[1].replace("\r", "").rpartition("\n\n")
        lines = [line for line in (body or block[1]).split("\n") if line and line[0] != "="]
        try:
            yield base64.b64decode("".join(lines), validate=True)
        except binascii.Error:
            continue


async def _ssh(folder: Path, text: str) -> str:
    signers, signature = folder / "signers", folder / "signature"
    signers.write_text(_BLOCK.sub("", text), encoding="utf-8")
    about = ("-f", str(signers), "-s", str(signature))
    status, said = await _ask(folder, "ssh-keygen", "-Y", "find-principals", *about)
    names = said.split("\n") if status == 0 else []
    for name in filter(None, names):
        asked = ("-Y", "verify", "-n", _NAMESPACE, "-I", name, *about)
        status, said = await _ask(folder, "ssh-keygen", *asked, stdin=folder / "payload")
        if status == 0:
            return name
    raise NotAllowed("signer is not in allowed_signers")


async def _pgp(folder: Path, text: str) -> str:
    ring = folder / "keys"
    ring.write_bytes(b"".join(keys(text)))
    files = (str(folder / "signature"), str(folder / "payload"))
    asked = ("--homedir", str(folder), "--keyring", str(ring), "--status-fd", "1", *files)
    status, said = await _ask(folder, "gpgv", *asked)
    words = [line.split(" ", 3) for line in said.split("\n") if line.startswith("[GNUPG:] ")]
    good = {word[1]: word[-1] for word in words}
    if status or "VALIDSIG" not in good or "GOODSIG" not in good or good.keys() & {*_BAD}:
        raise NotAllowed("signer is not in allowed_signers")
    return good["GOODSIG"]


async def _ask(folder: Path, *argv: str, stdin: Path | None = None) -> tuple[int, str]:
    """Run a program with only PATH from the environment; return its exit status and output."""
    try:
        async with asyncio.timeout(_DEADLINE):
            return await _run(folder, argv, stdin or Path("/dev/null"))
    except TimeoutError as error:
        raise TimedOut(f"{argv[0]} did not answer") from error
    except OSError as error:
        raise Internal(f"cannot run {argv[0]}: {error.strerror}") from error


async def _run(folder: Path, argv: tuple[str, ...], stdin: Path) -> tuple[int, str]:
    with stdin.open("rb") as source:
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=source, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL, cwd=folder,
            env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"},
        )  # fmt: skip
    try:
        said, _ = await process.communicate()
    except BaseException:
        process.kill()
        raise
    return process.returncode or 0, said.decode("utf-8", "replace")
