"""A tag object in git's format: the object that it names, and the signature over the text before.

https://git-scm.com/docs/gitformat-signature describes where the signature of a tag is.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final, NamedTuple

from hive_core.errors import InvalidArgument

LIMIT: Final = 64 << 10
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
    if len(data) > LIMIT:
        raise InvalidArgument(f"the tag is larger than {LIMIT} bytes", field=_FIELD)
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
