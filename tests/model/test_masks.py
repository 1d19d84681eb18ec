"""Registered secrets are found in every form in which programs pass them on."""

from __future__ import annotations

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from urllib.parse import quote, urlencode

from each import for_each
from hypothesis import given
from hypothesis import strategies as st

from hive_core.model.wire.masks import FEW, LEAST, OLD, SHOWN, Masks, forms

SECRET = 'pä"ss\\wörd/+ 1'  # noqa: S105 - that is what it is
WAYS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "json": json.dumps,
    "json of people": lambda text: json.dumps(text, ensure_ascii=False),
    "json in json": lambda text: json.dumps(json.dumps({"key": text})),
    "base64": lambda text: b64encode(text.encode()).decode(),
    "basic auth": lambda text: b64encode(f"user:{text}".encode()).decode(),
    "base64 in the middle": lambda text: b64encode(f"ab{text}cde".encode()).decode(),
    "base64 for urls": lambda text: urlsafe_b64encode(f"x{text}".encode()).decode(),
    "url": lambda text: quote(text, safe=""),
    "form": lambda text: urlencode({"key": text}),
    "hex": lambda text: text.encode().hex(),
    "HEX": lambda text: text.encode().hex().upper(),
}


@for_each("way", WAYS.values())
def test_a_secret_is_hidden_in_each_form(way: Callable[[str], str]) -> None:
    masks = Masks()
    masks.add(SECRET.encode())
    shown = way(f"{SECRET}")
    assert SHOWN in masks.hide(f"before {shown} after")
    assert masks.hide("before after") == "before after"


@given(st.binary(max_size=9), st.text(min_size=LEAST + 3, max_size=20), st.binary(max_size=9))
def test_base64_hides_it_whatever_stands_around(before: bytes, secret: str, after: bytes) -> None:
    if len(secret.strip()) < LEAST + 3 or len(secret.splitlines()) != 1:
        return
    masks = Masks()
    masks.add(secret.encode())
    data = before + secret.strip().encode() + after
    assert SHOWN in masks.hide(b64encode(data).decode())


@given(st.lists(st.text(min_size=LEAST, max_size=12), max_size=4), st.text(max_size=60))
def test_nothing_of_a_secret_is_left_in_a_text(secrets: list[str], text: str) -> None:
    masks = Masks()
    for secret in secrets:
        masks.add(secret.encode())
    shown = masks.hide("".join([text, *secrets, text]))
    for secret in secrets:
        if len(secret.strip()) >= LEAST and SHOWN not in secret:
            assert secret.strip() not in shown.replace(SHOWN, "\0")


def test_each_line_of_a_key_counts_and_short_words_do_not() -> None:
    masks = Masks()
    masks.add(b"-----BEGIN-----\nabcdefghij\nxy\n-----END-----\n")
    assert masks.hide("abcdefghij xy") == f"{SHOWN} xy"
    masks.add(b"abc")
    assert masks.hide("abc") == "abc"


def test_fields_are_cleaned_all_the_way_down() -> None:
    masks = Masks()
    masks.add(b"hunter22")
    given_ = {"a": ["hunter22", {"hunter22": 1}], "n": 5, "t": ("x", "my hunter22")}
    assert masks.hide_fields(given_) == {
        "a": [SHOWN, {SHOWN: 1}], "n": 5, "t": ["x", f"my {SHOWN}"],
    }  # fmt: skip
    assert Masks().hide_fields(given_) is given_


@given(st.lists(st.text("ab", min_size=LEAST, max_size=9), max_size=6), st.text("ab", max_size=60))
def test_the_first_and_the_longest_one_is_taken_out(secrets: list[str], text: str) -> None:
    """As one pattern of all of them would do it."""
    masks = Masks()
    for secret in secrets:
        masks.add(secret.encode())
    every = {form for secret in secrets for form in forms(secret)}
    pattern = "|".join(sorted(every, key=lambda secret: (-len(secret), secret)))
    assert masks.hide(text) == (re.sub(pattern, SHOWN, text) if every else text)


def every_place(masks: Masks, text: str) -> str:
    """What is hidden when each place of a text is looked at."""
    heads, parts, done = masks._forms, list[str](), 0
    for at in range(len(text) - LEAST + 1):
        known = heads.get(text[at : at + LEAST], {}) if at >= done else {}
        size = next((entry for entry in known if text[at : at + entry] in known[entry]), 0)
        if size:
            parts += (text[done:at], SHOWN)
            done = at + size
    return "".join((*parts, text[done:]))


ODD = st.text(r"ab^-]\[|.é𝄞", max_size=9)


@given(st.lists(ODD, max_size=6), st.lists(ODD, max_size=9), st.integers(0, 60), st.booleans())
def test_few_and_many_are_hidden_alike_and_a_beginning_is_that_of_all_of_it(
    secrets: list[str],
    parts: list[str],
    most: int,
    many: bool,  # noqa: FBT001
) -> None:
    masks, text = Masks(), "".join([*parts, *secrets, *parts])
    for number in range(FEW if many else 0):
        masks.add(b"%06d is one of many" % number)
    for secret in secrets:
        masks.add(secret.encode())
        assert masks.hide(text) == every_place(masks, text)
    assert masks.hide(text, most) == masks.hide(text)[:most]


def test_thousands_are_hidden_as_one_is() -> None:
    """Agents make them too, for webhooks; one pattern of all, made anew each time, took minutes."""
    masks, values = Masks(), [f"thousands-{number:06}" for number in range(5000)]
    for value in values:
        masks.add(value.encode())
    shown = masks.hide(" ".join([*values, "thousands-of-tens"]))
    assert shown == " ".join([SHOWN] * 5000 + ["thousands-of-tens"])


def test_what_is_put_away_is_hidden_until_a_thousand_others_are() -> None:
    """An agent may make new ones for as long as it likes, and memory has an end."""
    masks, result = Masks(), b"kept by the operator"
    masks.add(result)
    for number in range(OLD + 1):
        masks.add(b"number-%06d-of-many" % number)
    size = len(masks._uses)
    for number in range(OLD + 1):
        assert masks.hide("number-000000-of-many") == SHOWN
        masks.retire(b"number-%06d-of-many" % number)
    assert masks.hide("number-000000-of-many") == "number-000000-of-many"
    assert masks.hide("number-000001-of-many") == SHOWN
    assert len(masks._uses) < size
    assert masks.hide(result.decode()) == SHOWN


def test_one_that_is_kept_elsewhere_or_again_stays_hidden() -> None:
    masks = Masks()
    masks.retire(b"never-here")
    for entry in (b"twice-here", b"twice-here", b"again-here"):
        masks.add(entry)
    masks.retire(b"twice-here")
    masks.retire(b"again-here")
    masks.add(b"again-here")
    for number in range(OLD + 1):
        masks.add(b"number-%06d" % number)
        masks.retire(b"number-%06d" % number)
    assert masks.hide("twice-here again-here number-000000") == f"{SHOWN} {SHOWN} number-000000"


@given(st.lists(st.integers(0, 30), max_size=6), st.integers(0, 120))
def test_the_end_of_a_text_shows_no_end_of_a_secret(gaps: list[int], most: int) -> None:
    masks = Masks()
    assert masks.hide_end("....", 3) == "..."
    for entry in (b"ABCDEFGH", b"ABCDEFGHIJKLMNOPQRST"):
        masks.add(entry)
    text = "".join("." * gap + "ABCDEFGHIJKLMNOPQRST"[: 8 + gap % 2 * 12] for gap in gaps)
    end = masks.hide_end(text, most)
    assert set(end) <= {".", "*"}
    assert len(end) <= most
    assert masks.hide_end(text, len(text)) == masks.hide(text)
    assert masks.hide_end(f"{text}{'.' * most}", most) == "." * most
