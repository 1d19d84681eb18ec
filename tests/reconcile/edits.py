"""What happens to a repository and to the hive between an approval and its deploy (row R19)."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from uuid import UUID

from fixtures.deploys import DeployHarness
from fixtures.proposed_commits import Proposed

from hive_core.errors import Conflict
from hive_core.model.config.seed import seed_for


@dataclass
class Round:
    """`good` is what the operator approved, `evil` what somebody wants to run in its place.

    `moved`, `hashes`: commits, and files by their hash, that the operator put into the hive by
    other ways. `ran`: what an agent was shown, byte for byte.
    """

    harness: DeployHarness
    random: Random
    uuid: str
    good: Proposed
    evil: Proposed
    approval: str = ""
    other: str = ""
    moved: set[str] = field(default_factory=set)
    hashes: set[str] = field(default_factory=set)
    ran: list[tuple[str, str, bytes]] = field(default_factory=list)

    @property
    def path(self) -> Path:
        return self.harness.applied.repo(self.uuid).path

    @property
    def lives(self) -> bool:
        return self.uuid in self.harness.broker.hive.names

    def write(self, place: str, data: bytes) -> None:
        """Write over an existing file, as a user with write permission in the folder can."""
        file = self.path / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        file.write_bytes(data)

    def pack(self, proposed: Proposed) -> str:
        return f"objects/pack/pack-{proposed.parts.pack[-20:].hex()}"

    def some(self, data: bytes) -> bytes:
        """With one byte of it changed."""
        at = self.random.randrange(len(data))
        return data[:at] + bytes([data[at] ^ self.random.randrange(1, 256)]) + data[at + 1 :]


def moves_the_proposal(it: Round) -> None:
    it.write(f"refs/hive/proposals/{it.approval}", f"{it.evil.binding.commit}\n".encode())


def moves_main(it: Round) -> None:
    it.write("refs/heads/main", f"{it.evil.binding.commit}\n".encode())


def drops_refs(it: Round) -> None:
    (it.path / f"refs/hive/proposals/{it.approval}").unlink(missing_ok=True)


def replaces_the_commit(it: Round) -> None:
    name = f"refs/replace/{it.good.binding.commit}"
    it.write(name, f"{it.evil.binding.commit}\n".encode())


def swaps_the_archive(it: Round) -> None:
    it.write(f"hive/{it.good.binding.commit}.nar", it.evil.parts.archive)


def cuts_the_archive(it: Round) -> None:
    archive = it.good.parts.archive
    it.write(f"hive/{it.good.binding.commit}.nar", archive[: it.random.randrange(len(archive))])


def turns_a_bit_of_the_archive(it: Round) -> None:
    it.write(f"hive/{it.good.binding.commit}.nar", it.some(it.good.parts.archive))


def drops_the_archive(it: Round) -> None:
    (it.path / f"hive/{it.good.binding.commit}.nar").unlink(missing_ok=True)


def swaps_the_pack(it: Round) -> None:
    it.write(f"{it.pack(it.good)}.pack", it.evil.parts.pack)
    it.write(f"{it.pack(it.good)}.idx", it.evil.parts.table)


def turns_a_bit_of_the_pack(it: Round) -> None:
    it.write(f"{it.pack(it.good)}.pack", it.some(it.good.parts.pack))


def turns_a_bit_of_the_table(it: Round) -> None:
    it.write(f"{it.pack(it.good)}.idx", it.some(it.good.parts.table))


def drops_the_pack(it: Round) -> None:
    (it.path / f"{it.pack(it.good)}.pack").unlink(missing_ok=True)


def lies_about_the_commit(it: Round) -> None:
    """An object with the name of one and the content of another."""
    name = it.good.binding.commit
    data = f"tree {it.evil.binding.tree}\nauthor a <a> 0 +0000\n\nx\n".encode()
    raw = zlib.compress(b"commit %d\0%s" % (len(data), data))
    it.write(f"objects/{name[:2]}/{name[2:]}", raw)


def lies_about_the_tree(it: Round) -> None:
    name = it.good.binding.tree
    it.write(f"objects/{name[:2]}/{name[2:]}", zlib.compress(b"tree 0\0"))


def brings_attributes(it: Round) -> None:
    it.write("info/attributes", b"* export-ignore filter=evil -diff\n")
    it.write("config", b'[filter "evil"]\n\tsmudge = touch /evil\n[core]\n\tbare = false\n')


def brings_alternates(it: Round) -> None:
    it.write("objects/info/alternates", b"/nonexistent/objects\n")


def rewrites_the_review(it: Round) -> None:
    it.write(f"hive/{it.approval}.json", b'{"commit": "x"}')
    it.write(f"hive/{it.approval}.diff", b"")


def deploys_something_else_by_hand(it: Round) -> None:
    """A hand commit of the operator in the meta repo."""
    bound = it.evil.binding
    change_spec(it, {"config": bound.commit, "nar": bound.nar})
    it.moved.add(bound.commit)


def goes_back_by_hand(it: Round) -> None:
    start = seed_for("host")
    change_spec(it, {"config": start.commit, "nar": start.nar})
    it.moved.add(start.commit)


def swaps_the_hash_in_the_spec(it: Round) -> None:
    """By the operator's own hand: what files it names by their hash, it lets run."""
    change_spec(it, {"nar": it.evil.binding.nar})
    it.hashes.add(it.evil.binding.nar)


def revokes_a_capability(it: Round) -> None:
    change_spec(it, {"capabilities": ()})


def destroys(it: Round) -> None:
    if it.lives:
        hive = it.harness.broker.hive
        it.harness.change(hive.without(hive.names[it.uuid]))


def reuses_the_name(it: Round) -> None:
    """Attack 40."""
    if not it.lives:
        return
    hive = it.harness.broker.hive
    name = hive.names[it.uuid]
    spec = hive.spec(name).model_copy(update={"uuid": UUID(int=0xABCDEF << 96)})
    it.harness.change(hive.without(name).with_agent(name, "ann", spec))


def denies(it: Round) -> None:
    with suppress(Conflict):
        it.harness.decide(it.approval, "deny", "no")


def approves_the_other_too(it: Round) -> None:
    with suppress(Conflict):
        it.harness.decide(it.other)
        it.moved.add(it.evil.binding.commit)


def change_spec(it: Round, fields: Mapping[str, object]) -> None:
    if it.lives:
        hive = it.harness.broker.hive
        name = hive.names[it.uuid]
        it.harness.change(hive.with_spec(name, hive.spec(name).model_copy(update=dict(fields))))


EDITS: tuple[Callable[[Round], None], ...] = (
    moves_the_proposal, moves_main, drops_refs, replaces_the_commit, swaps_the_archive,
    cuts_the_archive, turns_a_bit_of_the_archive, drops_the_archive, swaps_the_pack,
    turns_a_bit_of_the_pack, turns_a_bit_of_the_table, drops_the_pack, lies_about_the_commit,
    lies_about_the_tree, brings_attributes, brings_alternates, rewrites_the_review,
    deploys_something_else_by_hand, goes_back_by_hand, swaps_the_hash_in_the_spec,
    revokes_a_capability, destroys, reuses_the_name, denies, approves_the_other_too,
)  # fmt: skip


def watch(it: Round) -> None:
    """From now on everything that agents are shown is kept."""
    source = it.harness.host.source

    def show(uuid: str, commit: str, nar: str) -> bytes:
        data = source(uuid, commit, nar)
        it.ran.append((uuid, commit, data))
        return data

    it.harness.host.source = show
