"""The job that carries the files of an older install into a state (rows H15 and H19)."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from cli.golden_old import listing, make

from hive_core.jobs import import_state
from hive_core.jobs.outcome import JobRefused

SOURCE = "import-0123456789abcdef"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """What the job sees: the state of the old alice at /in2, the new one's at /agent."""
    folder = tmp_path / "root"
    folder.mkdir()
    (make(tmp_path / "old") / "agents/alice/state").rename(folder / "in2")
    (folder / "agent").mkdir()
    return folder


def test_everything_is_there_as_it_was_but_what_no_file_is(root: Path) -> None:
    figures = import_state.run((SOURCE, "."), root)
    old, new = listing(root / "in2"), listing(root / "agent")
    assert old.pop("pipe") is not None
    script = old["run.sh"]
    assert isinstance(script, tuple)
    old["run.sh"] = (script[0] & ~0o4000, *script[1:])
    assert {name: new[name] for name in old} == old
    assert figures == {"files": 4, "bytes": 48, "kept_aside": 0, "left_out": 1}
    assert (root / "agent/to-the-host").is_symlink()


def test_what_is_there_already_stays_and_the_other_one_is_kept_beside(root: Path) -> None:
    (root / "agent/diary.txt").write_text("mine\n")
    figures = import_state.run((SOURCE, "."), root)
    assert (root / "agent/diary.txt").read_text() == "mine\n"
    beside = root / "agent/.imported" / SOURCE
    assert [path.name for path in beside.iterdir()] == ["diary.txt"]
    assert (beside / "diary.txt").read_text() == "diary of alice\n"
    assert figures["kept_aside"] == 1


def test_a_second_time_nothing_is_done(root: Path) -> None:
    import_state.run((SOURCE, "old-config"), root)
    (root / "agent/old-config/diary.txt").unlink()
    before = listing(root / "agent")
    assert set(import_state.run((SOURCE, "old-config"), root).values()) == {0}
    assert listing(root / "agent") == before


CHANGES = {
    "os.mkdir", "os.rename", "os.symlink", "os.chown", "os.chmod", "os.utime", "os.rmdir",
    "os.remove", "shutil.copyfile",
}  # fmt: skip


def test_a_job_that_was_killed_anywhere_goes_on(root: Path) -> None:
    """A process that ends at its n-th change of the disk, for every n; then a whole one."""
    import_state.run((SOURCE, "."), root)
    wanted, ends = _kept_names(root), 0
    while True:
        shutil.rmtree(root / "agent")
        (root / "agent").mkdir()
        child = os.fork()
        if not child:
            _end_at(ends + 1)
            import_state.run((SOURCE, "."), root)
            os._exit(0)
        whole = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        import_state.run((SOURCE, "."), root)
        assert _kept_names(root) == wanted
        if whole:
            break
        ends += 1
    assert ends > 20


def _kept_names(root: Path) -> dict[str, object]:
    """What is there but for the times of our own folder."""
    entries = listing(root / "agent")
    return {name: entry for name, entry in entries.items() if not name.startswith(".imported")}


def _end_at(count: int) -> None:
    """Have this process end before its n-th change, as a kill would; Python tells of each."""
    left = count

    def hear(event: str, _: tuple[object, ...]) -> None:
        nonlocal left
        if event in CHANGES:
            left -= 1
            if not left:
                os._exit(9)

    sys.addaudithook(hear)


@pytest.mark.parametrize("words", [("else", "."), (SOURCE, "../up"), (SOURCE, "/etc")])
def test_odd_words_are_refused(root: Path, words: tuple[str, str]) -> None:
    with pytest.raises(JobRefused):
        import_state.run(words, root)


def test_a_link_in_the_place_of_a_folder_is_not_followed(root: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (root / "agent/old-config").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(JobRefused, match="not a folder"):
        import_state.run((SOURCE, "old-config"), root)
    assert list((tmp_path / "elsewhere").iterdir()) == []
