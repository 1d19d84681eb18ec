"""Addresses of HTTP in settings."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field


def _check_url(url: str) -> str:
    if url and not re.fullmatch(r"https?://[^\s/@]+(/[^\s]*)?", url):
        raise ValueError("is not an address as https://HOST/PATH; a password belongs into a secret")
    return url


# Empty: none.
HttpAddress = Annotated[str, Field(max_length=2000), AfterValidator(_check_url)]
