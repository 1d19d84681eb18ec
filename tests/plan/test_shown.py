"""Attack 22: nothing that was written is invisible, and nothing poses as what it is not."""

from __future__ import annotations

import re
import unicodedata

import pytest
from each import for_each
from hypothesis import given
from hypothesis import strategies as st
from long import times

from hive_core.plan.homoglyphs import confusable_text
from hive_core.plan.printable import escape, escape_bytes, hidden_characters

_SPELLED = re.compile(r"⟨(?:U\+([0-9A-F]{4,6})|0x((?:[0-9A-F]{2})+))⟩")
# Of every kind that Unicode has, and those that hurt most often.
ODD = st.sampled_from("\x00\x1b\r\n\x7f\x85\xa0\u200b\u202e\u2066\u2800\u3164\ufe0f\u0301\u0338⟨⟩")
TEXT = st.text(st.characters() | ODD, max_size=30)
BYTES = st.binary(max_size=40) | TEXT.map(lambda text: text.encode("utf-8", "ignore"))


def rendered_text(text: str) -> bytes:
    """What a text was before it was spelled out."""

    def back(match: re.Match[str]) -> str:
        if match[2]:
            return bytes.fromhex(match[2]).decode("utf-8", "surrogateescape")
        return chr(int(match[1], 16))

    return _SPELLED.sub(back, text).encode("utf-8", "surrogateescape")


@given(BYTES)
def test_attack_22_what_is_shown_is_what_was_written_and_nothing_is_lost(data: bytes) -> None:
    assert rendered_text(escape_bytes(data)) == data


@given(BYTES)
def test_attack_22_everything_that_is_shown_is_seen(data: bytes) -> None:
    text = escape_bytes(data)
    assert text.replace("\t", " ").isprintable()
    for before, char in zip(" " + text, text, strict=False):
        category = unicodedata.category(char)
        assert category[0] not in "CZ" or char in " \t"
        assert category[0] != "M" or unicodedata.category(before)[0] in "LM"


@given(BYTES, BYTES)
def test_attack_22_texts_that_differ_are_shown_differently(one: bytes, other: bytes) -> None:
    assert (escape_bytes(one) == escape_bytes(other)) is (one == other)


@pytest.mark.sized
def test_attack_22_of_all_characters_none_passes_that_cannot_be_seen() -> None:
    """Every code point; of those that are no characters a seventh, in the short form."""
    nobodys, letters = [], []
    for code in [*range(0xD800), *range(0xE000, 0x110000)]:
        char = chr(code)
        if unicodedata.category(char) in ("Cn", "Co"):
            nobodys.append(code)
            continue
        if unicodedata.category(char) == "Lo" and not is_ignorable(code):
            letters.append(char)
            continue
        text = escape(char)
        if text == char:
            assert unicodedata.category(char)[0] in "LNPS" or char in " \t"
            assert char in " \t" or not is_ignorable(code), hex(code)
        else:
            assert text == f"⟨U+{code:04X}⟩"
    # Most are no character yet, a private one, or a letter of a script without cases.
    assert escape("".join(letters)) == "".join(letters)
    nobodys = nobodys[:: times(7, 1)]
    assert escape("".join(map(chr, nobodys))) == "".join(f"⟨U+{code:04X}⟩" for code in nobodys)


def is_ignorable(code: int) -> bool:
    """Default_Ignorable_Code_Point of Unicode 14, and letters that are blank."""
    return code in {0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFEFF,
                    0xFFA0} or any(
        first <= code <= last
        for first, last in ((0x180B, 0x180F), (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F),
                            (0xFE00, 0xFE0F), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3),
                            (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF))
    )  # fmt: skip


@for_each(
    "text, seen",
    [
        ("if x:\treturn", "if x:\treturn"),
        (
            "na\u00efve \u4e2d\u6587 \u0440\u0443\u0441",
            "na\u00efve \u4e2d\u6587 \u0440\u0443\u0441",
        ),
        ("\u0301x", "⟨U+0301⟩x"),
        ("1\u0336", "1⟨U+0336⟩"),
        ("a" + "\u0301" * 5, "a\u0301\u0301" + "⟨U+0301⟩" * 3),
        ("x\u2028y", "x⟨U+2028⟩y"),
        ("\U000e0041", "⟨U+E0041⟩"),
        ("⟨U+202E⟩", "⟨U+27E8⟩U+202E⟨U+27E9⟩"),
    ],
)
def test_plain_text_stays_and_odd_text_is_spelled_out(text: str, seen: str) -> None:
    assert escape(text) == seen


def test_what_is_hidden_is_named_once_and_brackets_are_not() -> None:
    assert hidden_characters(escape("a\u202eb\u202e\u200b ⟨U+0041⟩")) == ["U+202E", "U+200B"]
    assert hidden_characters(escape("plain")) == []


@for_each(
    "text, flag",
    [
        ("p\u0430ypal", "mixes CYRILLIC and LATIN (U+0430)"),
        ("\u0440\u0430\u0443", "looks like Latin and is CYRILLIC"),
        ("\u03bf\u03bd", "looks like Latin and is GREEK"),
        ("\uff41dmin", 'U+FF41 looks like "a"'),
        ("a\u2044b", 'U+2044 looks like "/"'),
        ("x = 1\u037e", 'U+037E looks like ";"'),
        ("\U0001d5ba", 'U+1D5BA looks like "a"'),
    ],
)
def test_attack_22_words_that_look_like_others_are_flagged(text: str, flag: str) -> None:
    assert any(flag in line for line in confusable_text(text))


@for_each(
    "text",
    ["plain", "caf\u00e9 na\u00efve", "\u4e2d\u6587 and \u304b\u306a",
     "\u043f\u0440\u0438\u0432\u0435\u0442 world",
     "\u201cquoted\u201d \u2013 dash\u2026", "\u03b1-test \u03bb x", "tcp/ip 10\u20ac"],
)  # fmt: skip
def test_words_of_one_script_are_left_alone(text: str) -> None:
    assert list(confusable_text(text)) == []


@given(TEXT)
def test_flags_are_lines_of_words(text: str) -> None:
    for line in confusable_text(escape(text)):
        assert escape(line).isprintable()
