"""`/etc/hive/prompts`: the operator's prompts, each in place of the shipped file of its name."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hive_core.errors import InvalidArgument
from hive_core.host.config.text_folder import TextFolder, read_text
from hive_core.model.config.prompts import FILE_MOST, check_prompt_file

FILES_MOST: Final = 64
BYTES_MOST: Final = 128 << 10


def _read_folder(folder: Path) -> dict[str, str]:
    """The texts by file name, such as `roles/worker.md`."""
    texts: dict[str, str] = {}
    left = BYTES_MOST
    for path in _files_of(folder):
        name = path.relative_to(folder).as_posix()
        text = read_text(path, FILE_MOST)
        check_prompt_file(name, text)
        left -= len(text.encode())
        if left < 0:
            raise InvalidArgument(f"{folder}: has more than {BYTES_MOST} bytes of prompts")
        texts[name] = text
    return texts


def _files_of(folder: Path) -> list[Path]:
    """The files of the folder, by name."""
    try:
        paths = sorted(path for path in folder.rglob("*") if not path.is_dir())
    except OSError as error:
        raise InvalidArgument(f"{folder}: cannot read the folder: {error.strerror}") from error
    if len(paths) > FILES_MOST:
        raise InvalidArgument(f"{folder}: has more than {FILES_MOST} files")
    return paths


PROMPTS: Final = TextFolder(
    "prompts", "the prompts of hive are used without yours", _read_folder
)  # fmt: skip
