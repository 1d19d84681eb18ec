"""The completion scripts of `hive`, and its manual pages."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hive_core.cli.host.install.layout import File

SHARE: Final = Path("/usr/local/share")
# Folders where bash-completion, zsh and fish look for files of the administrator.
COMPLETIONS: Final = {
    "bash": SHARE / "bash-completion/completions/hive",
    "zsh": SHARE / "zsh/site-functions/_hive",
    "fish": SHARE / "fish/vendor_completions.d/hive.fish",
}
MANUAL: Final = SHARE / "man"
PAGES: Final = ("man1/hive.1", "man1/hive-agent.1", "man5/hive.toml.5")
PATHS: Final = (*COMPLETIONS.values(), *(MANUAL / page for page in PAGES))


def documents() -> list[File]:
    """The files of this version."""
    # Imported here: the manual pages need the models of all settings.
    from hive_core.cli.core.completion import completion_script  # noqa: PLC0415
    from hive_core.cli.core.manual import manual  # noqa: PLC0415
    from hive_core.cli.main import hive  # noqa: PLC0415

    files = [File(path, completion_script(shell, hive)) for shell, path in COMPLETIONS.items()]
    return files + [File(MANUAL / place, text) for place, text in manual().items()]
