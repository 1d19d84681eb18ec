"""Row R8: damage of the meta repository is reported or changes nothing; it grants no rights."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from fixtures.meta_repo import spec
from fixtures.repository_damage import (
    SHAPES,
    change,
    create_history,
    damage,
    open_stores,
    without_privileges,
)
from fixtures.seeds import folder_in_ram
from long import figure, seed, times

from hive_core import operations
from hive_core.errors import HiveError
from hive_core.host.git.recovery import NOTES, REFUSED, RecoveryKind
from hive_core.host.storage.stores import Stores
from hive_core.ledger.core import opening
from hive_core.model.agents.hive import Hive


@dataclass(frozen=True)
class HiveView:
    """What hived says of the tree."""

    hive: Hive
    dirty: list[str]
    refused: list[tuple[str, str]]


@pytest.fixture(name="histories", scope="module")
def _histories() -> Iterator[Path]:
    """The repository of each shape, which nobody changes."""
    with folder_in_ram() as folder:
        with pytest.MonkeyPatch.context() as patch, without_privileges():
            patch.setattr(opening, "prime", lambda *_: None)
            for shape in SHAPES:
                create_history(folder / shape, shape)
        yield folder


@pytest.fixture
def worlds(
    histories: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, Path]]:
    monkeypatch.setattr(opening, "prime", lambda *_: None)  # the ledger is for speed elsewhere
    with without_privileges():
        shutil.copytree(histories, folder, symlinks=True, dirs_exist_ok=True)
        yield {shape: folder / shape for shape in SHAPES}


@pytest.mark.sized
def test_damage_to_the_meta_repo_is_told_or_changes_nothing(worlds: dict[str, Path]) -> None:
    """At the start of hived and under a running one; then somebody changes the tree."""
    first, outcomes = seed(), Counter[str]()
    sound = {shape: view_of_state(state) for shape, state in worlds.items()}
    for number in range(times(24, 200)):
        chance = Random(f"{first} {number}")  # noqa: S311 - no secret
        shape, running = chance.choice(SHAPES), chance.random() < 0.4
        state = worlds[shape].parent / str(number) / "copy"
        shutil.copytree(worlds[shape], state, symlinks=True)
        stores = open_stores(state) if running else None
        broken = damage(chance, state / "meta/.git")
        where = f"--seed {first}, number {number}, {shape}, running: {running}: {broken.text}"
        try:
            outcomes[outcome(state, stores, sound[shape])] += 1
        except Exception as error:
            raise AssertionError(where) from error
        finally:
            broken.undo()
            shutil.rmtree(state.parent)
    figure("git damage", seed=first, **outcomes)


def view_of_state(state: Path) -> HiveView:
    with close_after(open_stores(state)) as stores:
        assert stores.recovery is not None
        assert stores.repo.verify() == []
        return view(stores, stores.hive)


def view(stores: Stores, hive: Hive) -> HiveView:
    return HiveView(hive, stores.repo.changed_files(), stores.repo.refusals())


@contextmanager
def close_after(stores: Stores) -> Iterator[Stores]:
    try:
        yield stores
    finally:
        stores.ledger.close()


def outcome(state: Path, running: Stores | None, sound: HiveView) -> str:
    """How it ended; an AssertionError when it did not end well."""
    if running is not None:
        with close_after(running):
            result = in_force(running, sound, running_faults(running, sound.hive))
        # What was changed over it is what a fresh start finds, or it finds the damage.
        again = state.rename(state.with_name("again"))
        try:
            fresh = start_outcome(again, HiveView(running.hive, sound.dirty, sound.refused))
        finally:
            again.rename(state)
        return result if result != "harmless" else fresh
    return start_outcome(state, sound)


def start_outcome(state: Path, sound: HiveView) -> str:
    try:
        stores = open_stores(state)
    except HiveError as error:
        return record_error("no start", error)
    with close_after(stores):
        if stores.damage:
            return check_sealed(stores, sound)
        faults = [damage.text for damage in stores.repo.verify()]
        assert stores.recovery is None or stores.recovery.kind is not RecoveryKind.ADOPT
        if stores.recovery is not None and stores.recovery.reason:
            faults.append(stores.recovery.reason)
        return in_force(stores, sound, faults)


def check_sealed(stores: Stores, sound: HiveView) -> str:
    """Nobody has any authority, and nothing can be changed."""
    assert stores.hive == Hive(commit=sound.hive.commit)
    assert "damaged" in stores.damage
    with pytest.raises(HiveError, match="cannot change the tree"):
        stores.repo.write(sound.hive, stores.hive, "change", {})
    registry = operations.load()
    served = stores.served_operations(registry)
    assert all(
        served[name] is not operation for name, operation in registry.items() if operation.mutates
    )
    return "sealed"


def running_faults(stores: Stores, hive: Hive) -> list[str]:
    """What the watch over the branch and the hourly look find (host/git/manual_commits.py)."""
    faults = []
    try:
        if not stores.repo.is_at(hive.commit):
            recovery = stores.repo.recover(hive.commit)
            assert recovery.kind is not RecoveryKind.ADOPT
            faults.append(recovery.reason)
        stores.repo.refresh_worktree()
    except HiveError as error:
        faults.append(error.reason)
    return [*faults, *(damage.text for damage in stores.repo.verify())]


def in_force(stores: Stores, sound: HiveView, faults: list[str]) -> str:
    """The tree and all replies are unchanged, or a message reports the damage."""
    hive = stores.hive
    assert hive == sound.hive
    assert stores.ledger.head == hive.commit
    same = view(stores, hive) == sound
    assert same or faults or stores.repo.changed_files(), (
        "it is told otherwise, and nobody says why"
    )
    assert all(faults)
    try:
        stores.hive = change(
            stores,
            hive.with_agent(f"later-{len(hive.specs)}", "root", spec(99 + len(hive.specs))),
            hive,
        )
    except HiveError as error:
        assert stores.ledger.head == hive.commit
        return record_error("refused", error)
    with suppress(HiveError):  # a running one reads what it has in memory
        assert stores.repo.read(stores.ledger.head) == stores.hive
    return "told" if faults or not same else "harmless"


def record_error(result: str, error: HiveError) -> str:
    assert error.reason
    return result


def test_a_folder_that_cannot_be_read_is_reported_and_ends_nothing(worlds: dict[str, Path]) -> None:
    with close_after(open_stores(worlds["loose"])) as stores:
        stores.repo.folder.chmod(0)
        assert stores.repo.verify()
        stores.repo.folder.chmod(0o775)


def test_reasons_that_cannot_be_read_do_not_keep_hived_from_starting(
    worlds: dict[str, Path],
) -> None:
    notes = worlds["loose"] / "meta/.git" / NOTES
    (file,) = [path for path in notes.iterdir() if not path.suffix]
    file.chmod(0)
    with close_after(open_stores(worlds["loose"])) as stores:
        ((oid, reason),) = stores.repo.refusals()
        assert (oid, "Permission denied" in reason) == (file.name, True)
        assert [damage.what for damage in stores.repo.verify()] == [NOTES]
    notes.chmod(0)
    with close_after(open_stores(worlds["loose"])) as stores:
        assert stores.hive.specs
        assert stores.repo.refusals() == []
        assert [damage.what for damage in stores.repo.verify()] == [NOTES]
    notes.chmod(0o775)


def test_a_kept_commit_whose_ref_names_another_one_is_damage(worlds: dict[str, Path]) -> None:
    with close_after(open_stores(worlds["loose"])) as stores:
        (ref,) = (stores.repo.folder / REFUSED).iterdir()
        ref.write_text(f"{stores.hive.commit}\n")
        (damage,) = stores.repo.verify()
        assert (damage.where, damage.why) == (str(ref), "holds another commit")


@pytest.mark.parametrize("gone", ["objects", "HEAD"])
def test_hived_starts_over_what_git_cannot_open(worlds: dict[str, Path], gone: str) -> None:
    """Only the operator has rights until the repository is repaired; then all are as before."""
    for state in worlds.values():
        sound, lost = view_of_state(state), state / "meta/.git" / gone
        lost.rename(state / "aside")
        for _ in range(2):
            with close_after(open_stores(state)) as stores:
                assert check_sealed(stores, sound) == "sealed"
                assert stores.repo.verify()
        (state / "aside").rename(lost)
        assert view_of_state(state) == sound


@pytest.mark.parametrize("gone", ["refs", "config"])
def test_what_the_ledger_knows_as_well_is_made_anew(worlds: dict[str, Path], gone: str) -> None:
    for state in worlds.values():
        hive = view_of_state(state).hive
        (state / "meta/.git" / gone).rename(state / "aside")
        assert view_of_state(state).hive == hive


def test_hived_starts_over_a_repo_that_it_cannot_write(worlds: dict[str, Path]) -> None:
    folder = worlds["loose"] / "meta/.git"
    sound = view_of_state(worlds["loose"])
    folder.chmod(0o555)
    with close_after(open_stores(worlds["loose"])) as stores:
        assert "cannot write" in stores.damage
        assert check_sealed(stores, sound) == "sealed"
    folder.chmod(0o775)
    assert view_of_state(worlds["loose"]) == sound


def test_a_configuration_that_calls_the_repo_bare_hides_no_tree(worlds: dict[str, Path]) -> None:
    file = worlds["loose"] / "meta/.git/config"
    file.write_text(file.read_text().replace("bare = false", "bare = true"))
    with close_after(open_stores(worlds["loose"])) as stores:
        assert (stores.damage, stores.repo.changed_files(), len(stores.hive.specs)) == ("", [], 7)
