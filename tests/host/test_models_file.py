"""models.toml as hived reads it: a fault keeps agents from models, not the daemon from starting."""

from __future__ import annotations

from pathlib import Path

from each import for_each

from hive_core.host.config.models import check_models, load_models
from hive_core.model.config.limits import ModelSettings

NO_TIERS = ModelSettings()
GOOD = """
[providers.one]
base_url = "https://one.example/v1"
[models.opus]
provider = "one"
name = "big"
"""


def test_without_a_file_there_is_the_embedded_model(tmp_path: Path) -> None:
    loaded = load_models(tmp_path / "models.toml")
    assert list(loaded.file.models) == ["hive-small"]
    assert loaded.faults(NO_TIERS) == []
    assert check_models(tmp_path / "models.toml") == []


@for_each(
    "content, key, reason",
    [
        (b"[models.x]\nprovider = 1", "models.x.provider", ""),
        (b"models = 3 = 4", "", "not valid TOML"),
        (b"# \xff", "", "not UTF-8 at byte 2"),
        (GOOD.replace("provider =", "vendor =").encode(), "models.opus.", ""),
    ],
)
def test_a_fault_is_told_and_leaves_no_model(
    tmp_path: Path, content: bytes, key: str, reason: str
) -> None:
    path = tmp_path / "models.toml"
    path.write_bytes(content)
    loaded = load_models(path)
    assert loaded.file.models == {}
    (alarm,) = loaded.faults(NO_TIERS)
    assert alarm.startswith("no agent may use a model: ")
    (fault,) = check_models(path)
    assert fault.text.startswith(f"{path}: {key}" if key else f"{path}: {reason}")
    assert reason in fault.reason


def test_a_file_that_cannot_be_read_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "models.toml").mkdir()
    (fault,) = check_models(tmp_path / "models.toml")
    assert "cannot read the file: Is a directory" in fault.text


def test_a_tier_without_its_model_is_an_alarm(tmp_path: Path) -> None:
    path = tmp_path / "models.toml"
    path.write_text(GOOD)
    assert load_models(path).faults(ModelSettings(tactical="opus")) == []
    (alarm,) = load_models(path).faults(ModelSettings(tactical="gone"))
    assert alarm == "models.tactical of hive.toml is gone, which models.toml does not have"
