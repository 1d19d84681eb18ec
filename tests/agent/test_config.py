"""An ancestor's clone of a configuration: attack 16, a child that lays traps for its parent."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from fixtures.git_traps import traps
from fixtures.jobs import ENVIRONMENT, Repo

from hive_core.agent.config import ConfigClone
from hive_core.agent.main import run
from hive_core.errors import AlreadyExists, HiveError, Internal, InvalidArgument, NotFound, TimedOut

FILES = {"agent.toml": b"[harness]\n", "prompts/a.md": b"be kind\n"}


@pytest.fixture
def child(tmp_path: Path) -> Repo:
    """The configuration of bob as its ancestor ann sees it: below /agents, behind a link."""
    repo = Repo(tmp_path / "tree/kids/b0b/config")
    (tmp_path / "agents/ann/state").mkdir(parents=True)
    (tmp_path / "agents/bob").symlink_to(tmp_path / "tree/kids/b0b")
    repo.write(FILES)
    return repo


def clone(tmp_path: Path, name: str = "bob", into: Path | None = None) -> ConfigClone:
    return ConfigClone(name, "ann", into, tmp_path / "agents", 5.0)


def git(place: Path, *words: str) -> str:
    command = ["git", "-C", str(place), *words]
    plain = {key: ENVIRONMENT[key] for key in ("PATH", "HOME", "GIT_CONFIG_NOSYSTEM")}
    return subprocess.check_output(command, env=plain, text=True, stderr=subprocess.STDOUT).strip()


def test_a_clone_lies_where_source_finds_it_and_is_ready_to_commit(
    tmp_path: Path, child: Repo
) -> None:
    """H9: the caller's own clone; nothing of the child's repository is shared."""
    place = clone(tmp_path).make()
    assert place == tmp_path / "agents/ann/state/configs/bob"
    (place / "agent.toml").write_text('[harness]\nreload = "live"\n')
    git(place, "commit", "-q", "-a", "-m", "Reload live")
    assert git(place, "log", "-1", "--format=%an <%ae>") == "ann <ann@hive.invalid>"
    assert git(place, "rev-parse", "HEAD~1") == child.git("rev-parse", "HEAD")
    assert git(place, "remote", "get-url", "origin") == str(tmp_path / "agents/bob/config")
    assert not (place / ".git/objects/info/alternates").exists()
    assert not (place / ".git/hooks").exists()
    links = {path.stat().st_nlink for path in (place / ".git/objects").rglob("*") if path.is_file()}
    assert links == {1}


def test_attack_16_nothing_of_a_childs_repository_runs_for_its_parent(
    tmp_path: Path, child: Repo
) -> None:
    """The traps are real: git in the child's own folder steps into them."""
    mark = tmp_path / "mark"
    (child.folder / ".gitattributes").write_text("* filter=x diff=x merge=x\n")
    (child.folder / ".lfsconfig").write_text("[lfs]\nurl = https://example.invalid\n")
    child.write({"more": b"m\n"})
    traps(child, mark)
    place = clone(tmp_path).make()
    (place / "mine").write_text("m\n")
    for words in (("status",), ("add", "-A"), ("commit", "-q", "-m", "mine"), ("log", "-p"),
                  ("diff", "HEAD~1"), ("checkout", "-q", "-b", "x"), ("fetch", "-q"),
                  ("pull", "-q", "--rebase", "origin", "main"), ("gc", "-q")):  # fmt: skip
        git(place, *words)
    assert not mark.exists()
    subprocess.run(["git", "-C", child.folder, "status"], check=False, capture_output=True)
    assert mark.exists()


def test_attack_16_a_link_in_the_tree_becomes_a_plain_file(tmp_path: Path, child: Repo) -> None:
    """Else an edit would write to where the child pointed, with the parent's rights."""
    target = tmp_path / "agents/ann/state/target"
    target.write_text("precious\n")
    (child.folder / "notes").symlink_to(target)
    child.write({})
    place = clone(tmp_path).make()
    assert not (place / "notes").is_symlink()
    (place / "notes").write_text("edited\n")
    assert target.read_text() == "precious\n"


def test_attack_17_no_submodule_is_cloned(tmp_path: Path, child: Repo) -> None:
    other = Repo(tmp_path / "other")
    commit = other.write({"x": b"x\n"})
    (child.folder / ".gitmodules").write_text(
        f'[submodule "s"]\n\tpath = s\n\turl = {other.folder}\n'
    )
    child.git("update-index", "--add", "--cacheinfo", f"160000,{commit},s")
    child.git("add", ".gitmodules")
    child.git("commit", "-q", "-m", "s")
    place = clone(tmp_path).make()
    assert list((place / "s").iterdir()) == []


def test_a_repository_of_another_user_of_the_child_can_be_cloned_and_fetched(
    tmp_path: Path, child: Repo
) -> None:
    for path in (child.folder, *child.folder.rglob("*")):
        os.chown(path, 1000, 1000)
    place = clone(tmp_path).make()
    git(place, "fetch", "-q")
    assert (place / "prompts/a.md").read_text() == "be kind\n"


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("ann", InvalidArgument, "that is your own configuration"),
        ("--upload-pack=x", InvalidArgument, "must be 1 to 32"),
        ("../bob", InvalidArgument, "must be 1 to 32"),
        ("carol", NotFound, "no such agent below you: carol"),
        ("dave", NotFound, "`hive-agent init-config dave` makes one"),
    ],
)
def test_what_cannot_be_cloned_says_why(
    tmp_path: Path, child: Repo, name: str, kind: type[HiveError], text: str
) -> None:
    (tmp_path / "agents/dave/config").mkdir(parents=True)
    (tmp_path / "agents/dave/config/.git").symlink_to(child.own)
    with pytest.raises(kind, match=text):
        clone(tmp_path, name).make()


def test_a_clone_that_is_there_is_kept(tmp_path: Path, child: Repo) -> None:
    place = clone(tmp_path).make()
    (place / "mine").write_text("m\n")
    with pytest.raises(AlreadyExists, match="pull"):
        clone(tmp_path).make()
    assert (place / "mine").exists()
    elsewhere = clone(tmp_path, into=tmp_path / "else").make()
    assert git(elsewhere, "rev-parse", "HEAD") == child.git("rev-parse", "HEAD")


def test_a_broken_repository_is_told_in_gits_words_and_one_that_hangs_is_left(
    tmp_path: Path, child: Repo
) -> None:
    head = child.git("rev-parse", "HEAD")
    path = child.own / "objects" / head[:2] / head[2:]
    path.unlink()
    with pytest.raises(Internal, match=r"cannot clone the configuration of bob: (fatal|error):"):
        clone(tmp_path).make()
    os.mkfifo(path)
    with pytest.raises(TimedOut, match="longer than 1 seconds"):
        ConfigClone("bob", "ann", None, tmp_path / "agents", 1.0).make()


def test_the_command_wants_an_action_and_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["clone"], ["burn", "bob"]):
        with pytest.raises(SystemExit):
            run(["config", *words], "/nonexistent")
        assert "usage: hive-agent config" in capsys.readouterr().err
    with pytest.raises(NotFound):
        run(["config", "clone", "nobody-there"], "/nonexistent")
    assert "config" in subprocess.check_output(
        [sys.executable, "-c", "from hive_core.agent.main import OWN; print(*OWN)"], text=True
    )
