"""Why a request to the model failed, in the words of the child protocol."""

from __future__ import annotations

from typing import Final

from pydantic_ai.exceptions import (
    AgentRunError,
    ModelContextWindowExceededError,
    ModelHTTPError,
)

from hive_core.runtime.connection import Line, LineTooLong

BUDGET, RATE, PROVIDER, OVERFLOW = "budget", "rate", "provider", "overflow"
_KINDS: Final = {402: BUDGET, 413: OVERFLOW, 429: RATE}
_REASON_MOST: Final = 2000


def failure_fields(error: Exception) -> Line:
    """`error`, `error_kind` and, for a rate, `retry_after` of an `end`."""
    if isinstance(error, ModelContextWindowExceededError):
        return {"error": _reason(error), "error_kind": OVERFLOW}
    if isinstance(error, ModelHTTPError):
        fields: Line = {
            "error": _reason(error), "error_kind": _KINDS.get(error.status_code, PROVIDER),
            "http_status": error.status_code,
        }  # fmt: skip
        after = _seconds((error.headers or {}).get("retry-after", ""))
        return {**fields, "retry_after": after} if after is not None else fields
    if isinstance(error, LineTooLong):
        return {"error": f"the answer is too long: {error}", "error_kind": PROVIDER}
    return {"error": _reason(error), "error_kind": PROVIDER}


def is_failure(error: Exception) -> bool:
    """Whether a provider or the way to it failed, rather than this program."""
    return isinstance(error, (AgentRunError, LineTooLong, OSError, ValueError))


def _reason(error: Exception) -> str:
    body = error.body if isinstance(error, ModelHTTPError) else None
    return (_message_of(body) or str(error) or type(error).__name__)[:_REASON_MOST]


def _message_of(body: object) -> str:
    """The message in an error of a provider: `{error: {message}}` or `{message}`."""
    if not isinstance(body, dict):
        return ""
    inner = body.get("error")
    source = inner if isinstance(inner, dict) else body
    return str(source.get("message") or "")


def _seconds(text: str) -> float | None:
    try:
        return max(0.0, float(text))
    except ValueError:
        return None
