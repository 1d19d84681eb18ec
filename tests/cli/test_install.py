"""What `hive setup` would write, before anything is written."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from typing_extensions import override

from hive_core.cli.host.install import images, layout, steps
from hive_core.cli.host.install.machine import HostMachine
from hive_core.cli.host.setup import root_agent
from hive_core.errors import InvalidArgument, NotAllowed
from hive_core.model.config.models import Wire, parse_models
from hive_core.model.config.settings import Settings

HERE = layout.Installation(bin="/opt/x/bin", python="/opt/x/bin/python", package="/opt/x/hive_core")


def test_the_settings_file_names_every_setting_with_its_default() -> None:
    text = next(file.text for file in layout.config_files() if str(file.path) == layout.CONFIG)
    assert Settings.model_validate(tomllib.loads(text)) == Settings()
    shown = re.sub(r"^#(?=[a-z_]+ = )", "", text, flags=re.MULTILINE)
    document = tomllib.loads(shown)
    assert Settings.model_validate(document) == Settings()
    defaults = Settings().model_dump(mode="json", exclude_none=True)
    for table in ("root", "limits", "retention", "back_off", "grace"):
        assert document[table] == defaults[table], table


def test_the_dashboard_is_served_unless_the_settings_say_no(tmp_path: Path) -> None:
    config = tmp_path / "hive.toml"
    for line, is_served in (("", True), ("enable = true", True), ("enable = false", False)):
        config.write_text(f"[web]\n{line}\n")
        assert Settings.model_validate(tomllib.loads(config.read_text())).web.enable is is_served
        assert steps.has_dashboard(config) is is_served


def test_the_models_file_names_no_model_and_its_examples_are_valid() -> None:
    text = next(file.text for file in layout.config_files() if str(file.path) == layout.MODELS)
    assert parse_models(text) == parse_models("")
    shown = re.sub(r"^#(?=[a-z_]+ = |\[)", "", text, flags=re.MULTILINE)
    models = parse_models(shown)
    assert models.default_alias == "claude"
    assert {models.wire_of(alias) for alias in models.models} == set(Wire)


def test_units_name_the_installation_and_leave_no_placeholder() -> None:
    files = layout.unit_files(HERE)
    names = {file.path.name for file in files}
    assert set(layout.UNITS) <= names
    for file in files:
        assert not re.search(r"@[A-Z]+@", file.text), file.path
        assert file.path.parent in (layout.SYSTEM, layout.TMPFILES)
    assert any("/opt/x/" in file.text for file in files)


def test_the_state_of_each_service_is_removed_with_its_user() -> None:
    """A later user may get the uid, and a queue of notices has text of agents."""
    texts = "\n".join(file.text for file in layout.unit_files(HERE))
    states = re.findall(r"^StateDirectory=(\S+)$", texts, flags=re.MULTILINE)
    machine = RemovingMachine()
    steps.purge(machine)
    assert {f"/var/lib/{state}" for state in states} <= machine.paths
    assert len(states) == 3


class RemovingMachine(HostMachine):
    """Notes what would be removed."""

    def __init__(self) -> None:
        super().__init__(print)
        self.paths: set[str] = set()

    @override
    def remove(self, paths: Iterable[Path]) -> None:
        self.paths |= {str(path) for path in paths}

    @override
    def account_gone(self, user: str, groups: Sequence[str]) -> None:
        """No account is removed."""


def test_an_old_systemd_is_refused() -> None:
    assert layout.old_systemd(251) == "systemd 251 is too old: hive needs 252 or newer"
    assert layout.old_systemd(252) is None


def test_each_service_that_is_installed_is_a_program_that_teardown_names() -> None:
    services = [file for file in layout.unit_files(HERE) if file.path.suffix == ".service"]
    small = [file for file in services if layout.is_of_small(file) and not layout.has_small()]
    names = {file.path.stem for file in services if file not in small}
    assert sorted(names) == sorted(layout.programs())


def test_a_file_is_written_once_and_an_operators_file_is_kept(tmp_path: Path) -> None:
    result: list[str] = []
    machine = HostMachine(result.append)
    unit = layout.File(tmp_path / "deep" / "hived.service", "[Unit]\n")
    assert [machine.file(unit), machine.file(unit)] == [True, False]
    assert result == [f"wrote {unit.path}"]
    unit.path.write_text("changed")
    assert machine.file(unit)
    file = layout.File(unit.path, "other", keep_existing=True)
    assert not machine.file(file)
    assert unit.path.read_text() == "[Unit]\n"
    assert unit.path.stat().st_mode & 0o777 == 0o644


def test_removing_follows_no_symlink(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    (tmp_path / "hive").mkdir()
    (tmp_path / "hive" / "link").symlink_to(tmp_path / "precious")
    (tmp_path / "top").symlink_to(tmp_path / "precious")
    HostMachine(lambda _: None).remove([tmp_path / "hive", tmp_path / "top", tmp_path / "absent"])
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]
    assert (tmp_path / "precious" / "file").exists()


@pytest.mark.parametrize(("text", "expected"), [
    ("", ("root", True)),
    ('[root]\nname = "boss"\nautostart = false\n', ("boss", False)),
])  # fmt: skip
def test_the_name_of_the_root_agent_is_a_setting(
    tmp_path: Path, text: str, expected: tuple[str, bool]
) -> None:
    (tmp_path / "hive.toml").write_text(text)
    assert root_agent(tmp_path / "hive.toml") == expected


def test_the_image_table_has_named_images_and_added_paths(tmp_path: Path) -> None:
    named = images.image_paths({"images": {"host": "", "web": "/srv/web"}})
    table = tmp_path / "images"
    table.write_text(images.text(named, []))
    assert table.read_text() == "web /srv/web\n"
    images.enter(str(tmp_path), table)
    images.enter(str(tmp_path), table)
    assert table.read_text() == f"web /srv/web\n{images.label(str(tmp_path))} {tmp_path}\n"
    text = images.text({"new": "/srv/new"}, images.lines(table))
    assert text == f"new /srv/new\n{images.label(str(tmp_path))} {tmp_path}\n"


@pytest.mark.parametrize("path", ["relative/tree", "/no/such/tree", "/tmp\nhost /"])
def test_only_the_path_of_a_directory_becomes_an_image(tmp_path: Path, path: str) -> None:
    with pytest.raises(InvalidArgument):
        images.enter(path, tmp_path / "images")


def test_only_root_adds_an_image_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(NotAllowed, match="only root may use a path"):
        images.enter(str(tmp_path), tmp_path / "images")
