"""Who signed a tag: real keys, real git, real ssh-keygen and gpgv."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_core.errors import InvalidArgument, NotAllowed
from hive_core.host.git.signatures import (
    TAG_LIMIT,
    SignatureFormat,
    Signatures,
    SignedTag,
    keys,
    read_tag,
)

_ENV = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}


class ManualTransport:
    """A repository, keys of two people, and a file of allowed signers."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.signers = folder, folder / "allowed"
        self.git("init", "-q", ".")
        self.git("config", "user.name", "ann")
        self.git("config", "user.email", "ann@example.org")
        self.git("commit", "-q", "--allow-empty", "-m", "one")
        self.commit = self.git("rev-parse", "HEAD").strip()
        for name in ("ann", "eve"):
            self.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", name, "-C", name)

    def run(self, *argv: str) -> str:
        env = {**_ENV, "GNUPGHOME": str(self.folder / "gnupg"), "HOME": str(self.folder)}
        done = subprocess.run(
            argv, cwd=self.folder, env=env, capture_output=True, check=True, text=True
        )
        return done.stdout

    def git(self, *words: str) -> str:
        return self.run("git", *words)

    def tag(self, who: str = "ann", name: str = "approve/0123456789ab") -> bytes:
        key = str(self.folder / who)
        words = ("-c", "gpg.format=ssh", "-c", f"user.signingkey={key}", "tag", "-f", "-s")
        self.git(*words, "-m", "yes", name)
        return self.git("cat-file", "tag", name).encode()

    def allow(self, who: str = "ann", options: str = 'namespaces="git"') -> None:
        public = (self.folder / f"{who}.pub").read_text()
        self.signers.write_text(f"# who may\n{who}@example.org {options} {public}")
        self.signers.chmod(0o644)

    def who(self, tag: SignedTag) -> str:
        return asyncio.run(Signatures(self.signers, os.geteuid()).signer(tag))


@pytest.fixture
def desk() -> Iterator[ManualTransport]:
    with TemporaryDirectory(dir="/dev/shm") as name:
        yield ManualTransport(Path(name))


def test_a_tag_has_its_object_and_its_signer(desk: ManualTransport) -> None:
    desk.allow()
    tag = read_tag(desk.tag())
    assert (tag.object, tag.kind, tag.name) == (desk.commit, "commit", "approve/0123456789ab")
    assert tag.flavour is SignatureFormat.SSH
    assert desk.who(tag) == "ann@example.org"


def test_a_person_that_is_not_listed_may_not_sign(desk: ManualTransport) -> None:
    desk.allow()
    with pytest.raises(NotAllowed, match="signer is not in allowed_signers"):
        desk.who(read_tag(desk.tag("eve")))


@pytest.mark.parametrize("options", ['namespaces="file"', 'valid-before="20200101"'])
def test_a_key_for_something_else_or_of_another_time_may_not_sign(
    desk: ManualTransport, options: str
) -> None:
    desk.allow(options=options)
    with pytest.raises(NotAllowed):
        desk.who(read_tag(desk.tag()))


def test_another_text_under_a_good_signature_is_nobodys(desk: ManualTransport) -> None:
    desk.allow()
    data = desk.tag()
    other = data.replace(desk.commit.encode(), b"0" * 40)
    with pytest.raises(NotAllowed):
        desk.who(read_tag(other))


def test_a_signature_in_the_message_does_not_count(desk: ManualTransport) -> None:
    """The last one is the tag's, as for git: the rest is text that was signed."""
    desk.allow()
    good = read_tag(desk.tag())
    forged = good.payload + good.signature + read_tag(desk.tag("eve")).signature
    with pytest.raises(NotAllowed):
        desk.who(read_tag(forged))


def test_a_tag_without_signature_or_shape_is_refused(desk: ManualTransport) -> None:
    desk.git("tag", "-a", "-m", "yes", "plain")
    with pytest.raises(InvalidArgument, match="not signed"):
        read_tag(desk.git("cat-file", "tag", "plain").encode())
    for data in (b"", b"tree 00\n", desk.tag()[1:], b"x" * (TAG_LIMIT + 1)):
        with pytest.raises(InvalidArgument):
            read_tag(data)


@given(st.binary(max_size=300))
def test_no_bytes_break_the_reader_of_tags(data: bytes) -> None:
    with suppress(InvalidArgument):
        read_tag(b"object " + b"0" * 40 + b"\ntype commit\ntag x\ntagger y\n\n" + data)


def test_a_file_of_signers_that_others_may_write_names_no_signer(desk: ManualTransport) -> None:
    desk.allow()
    tag = read_tag(desk.tag())
    desk.signers.chmod(0o664)
    with pytest.raises(NotAllowed, match="writable by root only"):
        desk.who(tag)
    desk.signers.chmod(0o644)
    with pytest.raises(NotAllowed, match="writable by root only"):
        asyncio.run(Signatures(desk.signers, os.geteuid() + 1).signer(tag))
    desk.signers.unlink()
    with pytest.raises(NotAllowed, match="cannot read "):
        desk.who(tag)


def test_a_pgp_key_in_the_file_of_signers_may_sign(desk: ManualTransport) -> None:
    """Beside lines of ssh, in one file; a key that is not there may not."""
    (desk.folder / "gnupg").mkdir(mode=0o700)
    for who in ("Ann <ann@example.org>", "Eve <eve@example.org>"):
        words = ("--quick-gen-key", who, "ed25519", "sign", "never")
        desk.run("gpg", "--batch", "--quiet", "--passphrase", "", *words)
    tags = {}
    for who in ("ann", "eve"):
        key = f"{who}@example.org"
        desk.git("tag", "-f", "-u", key, "-m", "yes", "approve/1")
        tags[who] = read_tag(desk.git("cat-file", "tag", "approve/1").encode())
    desk.allow("eve")
    armoured = desk.run("gpg", "--armor", "--export", "ann@example.org")
    desk.signers.write_text(f"{desk.signers.read_text()}\n{armoured}")
    assert tags["ann"].flavour is SignatureFormat.PGP
    assert desk.who(tags["ann"]) == "Ann <ann@example.org>"
    with pytest.raises(NotAllowed):
        desk.who(tags["eve"])
    with pytest.raises(NotAllowed):
        desk.who(tags["ann"]._replace(payload=tags["ann"].payload + b"x"))
    assert desk.who(read_tag(desk.tag("eve"))) == "eve@example.org"
    desk.run("gpgconf", "--kill", "all")


def test_a_damaged_key_is_nobodys() -> None:
    head, tail = "-----BEGIN PGP PUBLIC KEY BLOCK-----", "-----END PGP PUBLIC KEY BLOCK-----"
    assert [*keys(f"{head}\n\n%%%\n{tail}\n{head}\nComment: x\n\nQUJD\n=abcd\n{tail}\n")] == [
        b"ABC"
    ]


@pytest.mark.parametrize("case", ["expired", "revoked", "beside a good one"])
def test_a_pgp_key_that_is_not_good_any_more_may_not_sign(desk: ManualTransport, case: str) -> None:
    """gpgv itself ends with success for all of them, and says so beside it."""
    (desk.folder / "gnupg").mkdir(mode=0o700)
    # The clock of each process begins there; a key that is made slowly must not be of the future.
    gpg = ("gpg", "--batch", "--quiet", "--faked-system-time", "20200101T000000")
    later = (*gpg[:-1], "20200101T010000")
    lasting = {"old": "never" if case == "revoked" else "1d"}
    lasting |= {"new": "never"} if case == "beside a good one" else {}
    for who, lasts in lasting.items():
        words = ("--passphrase", "", "--quick-gen-key", f"{who}@example.org", "ed25519", "sign")
        desk.run(*gpg, *words, lasts)
    (desk.folder / "payload").write_text("as it was signed")
    users = [word for who in lasting for word in ("-u", f"{who}@example.org")]
    signature = desk.run(*later, *users, "--armor", "--detach-sign", "--output", "-", "payload")
    if case == "revoked":
        (made,) = (desk.folder / "gnupg/openpgp-revocs.d").iterdir()
        made.write_text(made.read_text().replace(":-----BEGIN", "-----BEGIN"))
        desk.run(*later, "--import", str(made))
    desk.signers.write_text(desk.run("gpg", "--armor", "--export"))
    desk.signers.chmod(0o644)
    payload = b"as it was signed"
    tag = SignedTag("", "commit", "", payload, signature.encode(), SignatureFormat.PGP)
    with pytest.raises(NotAllowed, match="signer is not in allowed_signers"):
        desk.who(tag)
    desk.run("gpgconf", "--kill", "all")
