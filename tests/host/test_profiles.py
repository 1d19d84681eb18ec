"""Links that keep systems from the collector of garbage (attack 32)."""

from __future__ import annotations

from pathlib import Path

import pytest
from fixtures.meta_repo import Meta, family

from hive_core.errors import Internal
from hive_core.host.config.nix_profiles import NixProfiles
from hive_core.ledger.approvals.storage import ApprovalRequest
from hive_core.model.agents.hive import Hive
from hive_core.model.config.approval import ApprovalKind, Binding, Generation

COMMIT = "c" * 40


def system(number: int) -> str:
    return f"/nix/store/{number:032d}-nixos-system-anna"


@pytest.fixture
def profiles(tmp_path: Path) -> NixProfiles:
    return NixProfiles(tmp_path)


@pytest.fixture
def hive() -> Hive:
    both = family("anna", "bob")
    made = both.spec("anna").model_copy(update={"image": "nix", "system": system(2)})
    return both.with_spec("anna", made)


def anna(hive: Hive) -> str:
    return hive.spec("anna").id


def test_attack_32_all_generations_and_what_is_in_use_are_kept(
    profiles: NixProfiles, meta: Meta, hive: Hive
) -> None:
    uuid = anna(hive)
    with meta.ledger.transaction():
        for number in (1, 2):
            meta.ledger.generations.put(Generation(uuid, number, COMMIT, "", 0, system(number)))
    profiles.link_booted_system(uuid, system(1))
    profiles.reconcile(hive, meta.ledger)
    assert profiles.links(uuid) == {
        "system-1-link": system(1), "system-2-link": system(2),
        "current": system(2), "booted": system(1),
    }  # fmt: skip
    assert profiles.links(hive.spec("bob").id) == {}


def test_attack_32_what_was_built_is_kept_until_its_approval_has_ended(
    profiles: NixProfiles, meta: Meta, hive: Hive
) -> None:
    uuid, approvals = anna(hive), meta.ledger.approvals
    with meta.ledger.transaction():
        request = ApprovalRequest(ApprovalKind.CONFIG, uuid, "operator", "", "", Binding(COMMIT))
        approval = approvals.create(request, 0.0, 100.0)
    profiles.link_built(uuid, approval.id, system(3))
    profiles.reconcile(hive, meta.ledger)
    assert profiles.links(uuid)[f"build-{approval.id}"] == system(3)
    with meta.ledger.transaction():
        approvals.move(approval.id, "deny", 1.0)
    profiles.reconcile(hive, meta.ledger)
    assert profiles.links(uuid) == {"current": system(2)}


def test_generations_that_are_dropped_and_agents_that_are_gone_keep_nothing(
    profiles: NixProfiles, meta: Meta, hive: Hive
) -> None:
    uuid = anna(hive)
    with meta.ledger.transaction():
        meta.ledger.generations.put(Generation(uuid, 1, COMMIT, "", 0, system(1)))
    profiles.reconcile(hive, meta.ledger)
    with meta.ledger.transaction():
        meta.ledger.generations.drop(uuid)
    profiles.reconcile(hive, meta.ledger)
    assert profiles.links(uuid) == {"current": system(2)}
    profiles.reconcile(hive.without("anna"), meta.ledger)
    assert not (profiles.folder / uuid).exists()


def test_a_link_leads_somewhere_at_any_time(profiles: NixProfiles, hive: Hive) -> None:
    uuid = anna(hive)
    for number in (1, 2, 2):
        profiles.link_booted_system(uuid, system(number))
        assert profiles.links(uuid) == {"booted": system(number)}


def test_inputs_are_kept_and_let_go(profiles: NixProfiles) -> None:
    profiles.keep_inputs([system(1), system(2), system(1)])
    assert sorted(profiles.links("inputs").values()) == [system(1), system(2)]
    profiles.keep_inputs([system(2)])
    assert list(profiles.links("inputs").values()) == [system(2)]


def test_a_host_without_nix_has_no_links(tmp_path: Path, meta: Meta, hive: Hive) -> None:
    profiles = NixProfiles(tmp_path / "none")
    profiles.reconcile(hive, meta.ledger)
    assert not (tmp_path / "none").exists()
    with pytest.raises(Internal, match="hive setup"):
        profiles.link_booted_system(anna(hive), system(1))


@pytest.mark.parametrize(
    ("owner", "name", "target"),
    [
        ("..", "booted", system(1)), ("inputs", "../x", system(1)), ("inputs", "1", "/etc"),
        ("inputs", "1", "/nix/store/../../etc"), ("inputs", "1", system(1) + "/bin"),
        ("11111111-1111-4111-8111-111111111111", "build-x", system(1)),
    ],
)  # fmt: skip
def test_attack_32_no_link_leads_out_of_the_store_or_lies_elsewhere(
    profiles: NixProfiles, owner: str, name: str, target: str
) -> None:
    with pytest.raises(Internal):
        profiles.link(owner, name, target)
    assert list(profiles.folder.iterdir()) == []
