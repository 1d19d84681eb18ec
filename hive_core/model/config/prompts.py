"""Which files can be prompts: their names and sizes. The templates themselves are not read here."""

from __future__ import annotations

import re
from typing import Final

from hive_core.errors import InvalidArgument

FILE_MOST: Final = 64 << 10
NAME_MOST: Final = 200
_NAME: Final = re.compile(r"[a-z0-9_]+(/[a-z0-9_]+)*\.md|manifest\.toml", re.ASCII)


def check_prompt_file(name: str, text: str) -> None:
    """Refuse what cannot be a prompt; InvalidArgument names the file."""
    if len(name) > NAME_MOST or not _NAME.fullmatch(name):
        raise InvalidArgument(
            f"{name[:64]!r} is not the name of a prompt: *.md in lower case, or manifest.toml",
            field=name[:64],
        )
    if len(text.encode()) > FILE_MOST:
        raise InvalidArgument(f"{name}: larger than {FILE_MOST} bytes", field=name)
