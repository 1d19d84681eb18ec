"""`flake.nix` and `flake.lock` in the meta repo (spec rows H4 and H13)."""

from __future__ import annotations

import pytest
from fixtures.meta_repo import Meta, family, spec

from hive_core.errors import InvalidArgument
from hive_core.host.git.flakes import LOCK_LIMIT
from hive_core.host.git.manual_commits import judge
from hive_core.host.git.repo import MetaRepo
from hive_core.model.agents.hive import Hive
from hive_core.model.config.settings import HostLimits, NixSettings

INPUTS = NixSettings(inputs={"hive": "path:/usr/share/hive", "nixpkgs": "path:/usr/share/nixpkgs"})
MADE = {"image": "nix", "config": "c" * 40, "nar": "sha256-" + "A" * 43 + "="}


@pytest.fixture
def hive(meta: Meta) -> Hive:
    """anna is made by Nix, bob is not; both are under root."""
    meta.repo.set_nix_inputs(INPUTS)
    anna = family("anna", "bob")
    return meta.change(anna.with_spec("anna", anna.spec("anna").model_copy(update=MADE)))


def adopt(meta: Meta, hive: Hive) -> Hive:
    recovery = meta.repo.recover(hive.commit)
    assert recovery.hive is not None
    with meta.ledger.transaction():
        meta.ledger.head = recovery.head
    return recovery.hive


def flake(meta: Meta) -> str:
    return (meta.path / "flake.nix").read_text()


def test_h4_the_flake_passes_the_parent_and_follows_a_move(meta: Meta, hive: Hive) -> None:
    assert '"anna" = {\n          parent = "root";' in flake(meta)
    assert '"bob"' not in flake(meta)
    meta.change(hive.with_parent("anna", "bob"))
    assert '"anna" = {\n          parent = "bob";' in flake(meta)


def test_a_destroyed_parent_and_a_new_agent_change_the_flake(meta: Meta, hive: Hive) -> None:
    hive = meta.change(hive.with_parent("anna", "bob"))
    hive = meta.change(hive.without("bob"))
    assert 'parent = "root";' in flake(meta)
    meta.change(hive.with_agent("carl", None, spec(9, **MADE)))
    assert '"carl" = {\n          parent = null;' in flake(meta)


def test_a_change_of_an_agent_that_nix_does_not_make_leaves_the_flake(
    meta: Meta, hive: Hive
) -> None:
    before = meta.git("rev-parse", "HEAD:flake.nix")
    meta.change(hive.with_spec("bob", hive.spec("bob").model_copy(update={"title": "B"})))
    assert meta.git("rev-parse", "HEAD:flake.nix") == before
    assert meta.git("diff", "--name-only", "HEAD^", "HEAD") == "agents/bob.json"


def test_a_flake_that_was_changed_by_hand_is_written_again(meta: Meta, hive: Hive) -> None:
    before = flake(meta)
    meta.by_hand("flake.nix", "{ outputs = _: { }; }\n")
    adopted = adopt(meta, hive)
    meta.change(adopted.with_parent("bob", None))
    assert flake(meta) == before


def test_other_inputs_are_in_the_next_commit(meta: Meta, hive: Hive) -> None:
    repo = MetaRepo.open(meta.path)
    repo.set_nix_inputs(NixSettings(inputs={**INPUTS.inputs, "more": "path:/usr/share/more"}))
    oid = repo.write(hive.with_parent("bob", None), hive, "move", {})
    assert '"more".url = "path:/usr/share/more";' in meta.git("show", f"{oid}:flake.nix")


def test_h13_the_lock_is_part_of_the_hive(meta: Meta, hive: Hive) -> None:
    assert not (meta.path / "flake.lock").exists()
    assert hive.lock_hash == ""
    hive = meta.change(hive.with_lock(b'{"version": 7}\n'))
    assert (meta.path / "flake.lock").read_text() == '{"version": 7}\n'
    again = MetaRepo.open(meta.path).read(hive.commit)
    assert again == hive
    assert len(again.lock_hash) == 64
    changed = meta.change(hive.with_parent("bob", None))
    assert changed.lock == hive.lock
    meta.change(changed.with_lock(b""))
    assert not (meta.path / "flake.lock").exists()


def test_h13_a_lock_that_was_changed_by_hand_is_refused(meta: Meta, hive: Hive) -> None:
    hive = meta.change(hive.with_lock(b'{"version": 7}\n'))
    meta.by_hand("flake.lock", '{"version": 8}\n')
    recovery = meta.repo.recover(hive.commit, judge(meta.ledger, HostLimits()))
    assert "request_update_meta_inputs" in recovery.reason
    assert (meta.path / "flake.lock").read_text() == '{"version": 7}\n'


def test_a_lock_without_end_is_refused(meta: Meta, hive: Hive) -> None:
    oid = meta.by_hand("flake.lock", " " * (LOCK_LIMIT + 1))
    with pytest.raises(InvalidArgument, match=r"flake\.lock: larger"):
        meta.repo.read(oid)
    assert meta.repo.recover(hive.commit).head == hive.commit


def test_a_repository_of_an_older_version_gets_its_flake(meta: Meta) -> None:
    hive = meta.change(family("anna"))
    meta.git("rm", "-q", "flake.nix")
    meta.git("commit", "-qm", "as it was before")
    adopted = adopt(meta, hive)
    meta.change(adopted.with_parent("anna", None))
    assert "nixosConfigurations" in flake(meta)
