"""What `hive doctor` says about models: settings, keys, files of one's own, environments."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hive_core.cli.host.doctor_models import (
    ModelPlaces,
    check_embedded,
    check_runtime,
    check_settings,
)  # fmt: skip
from hive_core.cli.host.finding import Finding

KEYED = """
[providers.p]
base_url = "https://example.org/v1"
key = "mine"
[models.m]
provider = "p"
name = "m"
"""
OWN = '[providers.f]\nkind = "gguf"\npath = "%s"\n[models.o]\nprovider = "f"\nname = "o"\n'


@pytest.fixture
def places(tmp_path: Path) -> ModelPlaces:
    return ModelPlaces(
        tmp_path / "models.toml", tmp_path / "keys", tmp_path / "runtime", tmp_path / "small"
    )


def failures(*findings: Finding) -> list[str]:
    return [finding.detail for finding in findings if finding.verdict == "fail"]


def test_without_a_file_the_only_model_is_the_embedded_one(places: ModelPlaces) -> None:
    (finding,) = check_settings(places)
    assert (finding.verdict, finding.detail) == ("ok", "1 model, default hive-small")


def test_a_fault_in_the_file_names_its_key(places: ModelPlaces) -> None:
    places.models.write_text('[providers.p]\nkind = "http"\n')
    (detail,) = failures(*check_settings(places))
    assert str(places.models) in detail
    assert "providers.p.base_url" in detail


def test_a_provider_without_its_key_is_told_how_to_get_it(places: ModelPlaces) -> None:
    places.models.write_text(KEYED)
    places.keys.mkdir()
    (detail,) = failures(*check_settings(places))
    assert detail == "provider p needs `hive model key set mine`"


def test_a_file_in_a_directory_that_the_unit_does_not_see_is_a_fault(places: ModelPlaces) -> None:
    places.models.write_text(OWN % "/home/me/model.gguf")
    (detail,) = failures(*check_settings(places))
    assert "/home/me/model.gguf is in a directory that hive-small.service does not see" in detail
    places.models.write_text(OWN % "/srv/absent/model.gguf")
    (detail,) = failures(*check_settings(places))
    assert "cannot be read: No such file" in detail


def test_the_runtime_must_be_there_for_the_python_that_containers_share(
    places: ModelPlaces,
) -> None:
    assert "run scripts/install" in failures(*check_runtime(places))[0]
    places.runtime.mkdir()
    (places.runtime / ".complete").touch()
    (places.runtime / ".python").write_text("2.7\n")
    assert "is for Python 2.7" in failures(*check_runtime(places))[0]
    code = 'import sys; print("%d.%d" % sys.version_info[:2])'
    version = subprocess.run(["/usr/bin/python3", "-c", code], capture_output=True, check=True)
    (places.runtime / ".python").write_bytes(version.stdout)
    assert failures(*check_runtime(places)) == []


def test_the_embedded_model_may_be_left_out_unless_the_file_asks_for_it(
    places: ModelPlaces,
) -> None:
    assert [finding.verdict for finding in check_embedded(places)] == ["warn"]
    places.models.write_text(KEYED)
    assert [finding.verdict for finding in check_embedded(places)] == ["ok"]
    places.models.write_text(OWN % "/srv/model.gguf")
    assert [finding.verdict for finding in check_embedded(places)] == ["fail"]
    (places.small / "bin").mkdir(parents=True)
    (places.small / "bin/python").touch()
    assert [finding.verdict for finding in check_embedded(places)] == ["ok"]
