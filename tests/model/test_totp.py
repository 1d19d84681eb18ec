"""Codes of an app: the vectors of RFC 6238, and which codes count."""

from __future__ import annotations

from each import for_each
from hypothesis import given
from hypothesis import strategies as st

from hive_core.model.operator.totp import STEP, matching_step, totp_code

KEY = b"12345678901234567890"  # of the vectors: https://www.rfc-editor.org/rfc/rfc6238#appendix-B


@for_each(
    "now, code",
    [(59, "287082"), (1111111109, "081804"), (1234567890, "005924"), (20000000000, "353130")],
)
def test_codes_are_those_of_the_standard(now: int, code: str) -> None:
    assert totp_code(KEY, now // STEP) == code
    assert matching_step(KEY, code, now, 0) == now // STEP


def test_a_code_counts_once_and_none_before_it() -> None:
    step = matching_step(KEY, totp_code(KEY, 100), 100 * STEP, 0)
    assert step == 100
    assert matching_step(KEY, totp_code(KEY, 100), 100 * STEP, step) is None
    assert matching_step(KEY, totp_code(KEY, 99), 100 * STEP, step) is None
    assert matching_step(KEY, totp_code(KEY, 101), 100 * STEP, step) == 101


@given(st.text(max_size=16))
def test_any_other_text_is_no_code(text: str) -> None:
    codes = {totp_code(KEY, step) for step in (99, 100, 101)}
    assert (matching_step(KEY, text, 100 * STEP, 0) is None) == (text not in codes)
