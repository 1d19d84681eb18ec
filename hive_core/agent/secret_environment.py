"""Secrets of the agent as environment variables of the command of `hive-agent serve`.

A value is read for each run, so that a new value needs no restart. Only the environment of the
command has it, never an argument or a log.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

CREDENTIALS: Final = "/run/hive/credentials"
_KEY: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def parse_secrets(options: Iterable[str]) -> dict[str, str]:
    """Keys by variable, from `KEY` or `VARIABLE=KEY`; ValueError has the reason.

    The variable of `api-key` is API_KEY.
    """
    secrets: dict[str, str] = {}
    for option in options:
        variable, _, key = option.rpartition("=")
        variable = variable or re.sub(r"[.-]", "_", key).upper()
        if not _KEY.fullmatch(key):
            raise ValueError(f"{key!r} is not the key of a secret")
        if not _VARIABLE.fullmatch(variable) or variable.startswith("HIVE_"):
            raise ValueError(f"{variable!r} is not a variable that a secret can have")
        if variable in secrets:
            raise ValueError(f"two secrets cannot both be {variable}")
        secrets[variable] = key
    return secrets


def with_secrets(environment: Mapping[str, str], secrets: Mapping[str, str]) -> dict[str, str]:
    """The environment with the values of the secrets; OSError when the agent lacks one."""
    folder = Path(environment.get("CREDENTIALS_DIRECTORY") or CREDENTIALS)
    return {**environment, **{name: _read(folder, key) for name, key in secrets.items()}}


def _read(folder: Path, key: str) -> str:
    try:
        value = Path(folder, key).read_text(encoding="utf-8")
    except FileNotFoundError:
        name = os.environ.get("HIVE_NAME", "NAME")
        raise FileNotFoundError(
            f"the agent cannot read the secret {key}: the operator sets it with"
            f" `hive secret set {name} {key}` and allows it with"
            f" `hive cap grant {name} secret:{key}`"
        ) from None
    # A variable cannot have a NUL, and the error of subprocess would show the environment.
    if "\0" in value:
        raise OSError(f"the secret {key} holds a NUL character and cannot be a variable")
    return value.removesuffix("\n")
