"""Row H28 and attack 48: where secrets are stored, and which agents read them."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from hive_core.errors import Internal
from hive_core.host.storage.credentials import FOLDER, Credentials
from hive_core.host.storage.secrets import SecretStore

BASE = 805306368
ANN, BOB, CID, DAN = (f"{number:08}-0000-4000-8000-000000000000" for number in range(1, 5))
T = TypeVar("T")


@pytest.fixture
def vault(folder: Path) -> SecretStore:
    return SecretStore(folder / "secrets")


@pytest.fixture
def run(folder: Path) -> Path:
    """The socket directory of ann, as far as it matters here; readable by all, as the real one."""
    path = folder / "run"
    path.mkdir()
    folder.chmod(0o755)
    return path


@pytest.fixture
def credentials(vault: SecretStore) -> Credentials:
    return Credentials(vault, {ANN: BASE}.get)


def as_uid(uid: int, *command: str) -> tuple[int, str]:
    done = subprocess.run(
        ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", *command],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


def test_a_secret_is_the_daemon_s_alone_and_replaced_as_a_whole(vault: SecretStore) -> None:
    vault.put(ANN, "token", b"one")
    before = (vault.folder / ANN / "token").stat().st_ino
    vault.put(ANN, "token", b"two")
    place = vault.folder / ANN / "token"
    assert vault.read(ANN, "token") == b"two"
    assert place.stat().st_ino != before
    assert (place.stat().st_mode & 0o777, place.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert vault.keys(ANN) == ("token",)
    assert (vault.holders(), vault.keys(BOB)) == ([ANN], ())


def test_what_a_kill_left_half_written_is_no_secret(vault: SecretStore) -> None:
    vault.put(ANN, "token", b"one")
    (vault.folder / ANN / ".new").write_bytes(b"half")
    assert vault.keys(ANN) == ("token",)
    vault.put(ANN, "other", b"whole")
    assert vault.keys(ANN) == ("other", "token")


def test_what_a_kill_left_behind_is_swept_and_removed_with_its_secret(vault: SecretStore) -> None:
    for key in ("token", "other"):
        vault.put(ANN, key, b"one")
        (vault.folder / ANN / f".new.{key}").write_bytes(b"topsecret")
    vault.remove(ANN, "token")
    assert {path.name for path in (vault.folder / ANN).iterdir()} == {"other", ".new.other"}
    vault.sweep()
    assert {path.name for path in (vault.folder / ANN).iterdir()} == {"other"}


def test_of_webhooks_only_what_a_trigger_names_is_kept(vault: SecretStore) -> None:
    held, lost = "0123456789abcdef", "f" * 16
    for uuid, key in ((ANN, lost), (BOB, held), (BOB, lost), (CID, lost), (DAN, "token")):
        vault.put(uuid, key, b"one")
    vault.clear({(BOB, held)}, {ANN})
    assert {holder: vault.keys(holder) for holder in vault.holders()} == {
        ANN: (lost,), BOB: (held,), DAN: ("token",),
    }  # fmt: skip


@pytest.mark.parametrize("done_before", [True, False])
def test_nothing_stays_of_a_secret_whose_caller_waits_no_more(
    folder: Path, *, done_before: bool
) -> None:
    late = list[Callable[[], object]]()

    async def beside(work: Callable[[], T], /) -> T:
        late.append(work)
        await asyncio.Event().wait()
        return work()

    async def cancel_keep(vault: SecretStore) -> None:
        keeping = asyncio.create_task(vault.keep(ANN, "token", b"one"))
        await asyncio.sleep(0)
        if done_before:
            late[0]()
        keeping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await keeping
        if not done_before:
            late[0]()

    vault = SecretStore(folder / "secrets", beside)
    asyncio.run(cancel_keep(vault))
    assert vault.keys(ANN) == ()


def test_removing_is_told_and_dropping_leaves_nothing(vault: SecretStore) -> None:
    vault.put(ANN, "token", b"one")
    assert vault.remove(ANN, "token") is True
    assert vault.remove(ANN, "token") is False
    vault.put(ANN, "token", b"one")
    vault.drop(ANN)
    assert not (vault.folder / ANN).exists()


@pytest.mark.parametrize(("uuid", "key"), [("..", "x"), (ANN, "../x"), (ANN, ".x"), (ANN, "")])
def test_no_key_leads_anywhere_else(vault: SecretStore, uuid: str, key: str) -> None:
    with pytest.raises(Internal):
        vault.put(uuid, key, b"x")


def test_a_disk_that_fails_says_nothing_of_the_secret(vault: SecretStore) -> None:
    vault.folder.write_text("in the way")
    with pytest.raises(Internal, match="cannot store the secret token") as caught:
        vault.put(ANN, "token", b"hush-hush")
    assert "hush-hush" not in str(caught.value)


def test_an_agent_sees_what_it_holds_the_capability_for_and_nothing_else(
    vault: SecretStore, credentials: Credentials, run: Path
) -> None:
    vault.put(ANN, "token", b"one")
    vault.put(ANN, "other", b"two")
    credentials.show(ANN, run, ["spawn", "secret:token", "secret:unset"])
    assert [path.name for path in (run / FOLDER).iterdir()] == ["token"]
    credentials.show(ANN, run, ["secret:other"])
    assert [path.name for path in (run / FOLDER).iterdir()] == ["other"]
    credentials.show(ANN, run, [])
    assert not (run / FOLDER).exists()


def test_attack_48_only_the_root_of_the_container_may_read_it(
    vault: SecretStore, credentials: Credentials, run: Path
) -> None:
    """Neither another agent's root nor another uid of the same container."""
    vault.put(ANN, "token", b"one")
    credentials.show(ANN, run, ["secret:token"])
    place = str(run / FOLDER / "token")
    assert as_uid(BASE, "cat", place) == (0, "one")
    assert as_uid(BASE, "ls", str(run / FOLDER)) == (0, "token\n")
    for stranger in (BASE + 1000, BASE + 65536, 65534):
        assert as_uid(stranger, "cat", place) == (1, "")
        assert as_uid(stranger, "ls", str(run / FOLDER))[0] == 2
    assert as_uid(BASE, "sh", "-c", f"echo x >{place}")[0] != 0
    assert as_uid(BASE, "rm", "-f", place)[0] != 0


def test_a_rotated_secret_is_another_file_and_one_that_is_the_same_stays(
    vault: SecretStore, credentials: Credentials, run: Path
) -> None:
    vault.put(ANN, "token", b"one")
    credentials.show(ANN, run, ["secret:token"])
    place = run / FOLDER / "token"
    with place.open("rb") as reader:
        first = os.fstat(reader.fileno()).st_ino
        credentials.show(ANN, run, ["secret:token"])
        assert place.stat().st_ino == first
        vault.put(ANN, "token", b"two")
        credentials.show(ANN, run, ["secret:token"])
        assert reader.read() == b"one", "who has it open reads the old one to its end"
    assert place.read_bytes() == b"two"


def test_without_a_uid_range_no_user_is_shown_anything(
    vault: SecretStore, credentials: Credentials, run: Path
) -> None:
    vault.put(BOB, "token", b"one")
    credentials.show(BOB, run, ["secret:token"])
    assert not (run / FOLDER).exists()


def test_what_a_daemon_that_was_killed_was_about_to_keep_is_gone_at_the_next_start(
    vault: SecretStore,
) -> None:
    vault.put(ANN, "token", b"one")
    spare = vault.folder / ANN / ".new.other"
    spare.write_bytes(b"never kept")
    again = SecretStore(vault.folder)
    again.sweep()
    assert not spare.exists()
    assert (again.keys(ANN), again.read(ANN, "token")) == (("token",), b"one")


def test_of_a_secret_that_cannot_be_kept_nothing_stays(vault: SecretStore) -> None:
    (vault.folder / ANN / "token").mkdir(parents=True)
    with pytest.raises(Internal, match="cannot store the secret token"):
        vault.put(ANN, "token", b"hush-hush")
    assert [path.name for path in (vault.folder / ANN).iterdir()] == ["token"]
