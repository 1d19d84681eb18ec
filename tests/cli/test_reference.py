"""The reference page says what the commands say."""

from __future__ import annotations

from hive_core.cli.core.reference import FILE, reference


def test_the_command_reference_is_up_to_date() -> None:
    assert FILE.read_text() == reference(), "run `python -m hive_core.cli.core.reference`"


def test_every_command_has_a_sentence() -> None:
    for section in reference().split("\n## hive ")[1:]:
        if "\nThe same as " in section:
            continue
        sentence = section.split("\n\n")[2].strip()
        assert sentence.endswith((".", "?")), section
