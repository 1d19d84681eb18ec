"""How units ended, as the script at their end wrote it down."""

from pathlib import Path

from each import for_each

from hive_core.host.systemd import exits
from hive_core.host.systemd.cpu_time import name_of
from hive_core.model.agents.machine import Cpu, Exit

UUID = "0a0b0c0d-0000-4000-8000-000000000001"
TEXT = '{"nonce": 3, "invocation": "ab", "result": "signal", "code": "killed", "status": "KILL"'


def test_an_exit_is_read_with_what_systemd_knew(tmp_path: Path) -> None:
    (tmp_path / UUID).write_text(TEXT + ', "asked": true}')
    record = exits.read(tmp_path, UUID)
    assert record == Exit("ab", "signal", "killed", "KILL", 3, asked=True)
    assert (record.clean, record.reboot, record.text) == (False, False, "killed with KILL")


def test_a_record_of_an_older_script_was_not_asked_for(tmp_path: Path) -> None:
    (tmp_path / UUID).write_text(TEXT + "}")
    record = exits.read(tmp_path, UUID)
    assert record is not None
    assert not record.asked


def test_an_end_tells_what_the_machine_has_used(tmp_path: Path) -> None:
    (tmp_path / UUID).write_text(TEXT + ', "group": "7", "cpu": 1500}')
    assert getattr(exits.read(tmp_path, UUID), "cpu", None) == Cpu(name_of("7"), 1500)


@for_each("said", ["", ', "cpu": 5', ', "group": "", "cpu": 0', ', "group": 7, "cpu": 5',
     ', "group": "7", "cpu": -1', ', "group": "7", "cpu": "5"'])  # fmt: skip
def test_an_end_without_a_figure_is_an_end(tmp_path: Path, said: str) -> None:
    (tmp_path / UUID).write_text(TEXT + said + "}")
    record = exits.read(tmp_path, UUID)
    assert record is not None
    assert record.cpu is None


@for_each("text", ["", "{", "[]", "{}", '{"nonce": "x"}', "\0"])
def test_a_damaged_record_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / UUID).write_text(text)
    assert exits.read(tmp_path, UUID) is None
    assert exits.read(tmp_path, "nobody") is None
