"""What the program reads of /etc/hive/hive.toml: the table `[web]`."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hive_core.errors import InvalidArgument
from hive_core.model.config.origins import browser_origin

CONFIG: Final = Path("/etc/hive/hive.toml")
ORIGIN: Final = "http://localhost:4483"
_ORIGIN: Final = re.compile(r"https?://([a-z0-9][a-z0-9.-]{0,252})(:[0-9]{1,5})?")


@dataclass(frozen=True, slots=True)
class WebTable:
    """`origins` are the addresses at which browsers may use the dashboard."""

    origins: tuple[str, ...] = (ORIGIN,)

    def __post_init__(self) -> None:
        for origin in self.origins:
            if not _ORIGIN.fullmatch(origin):
                raise InvalidArgument(f"{origin!r} is not an origin", field="web.origins")

    @property
    def hosts(self) -> dict[str, str]:
        """The origin by the value of the header `Host`."""
        return {origin.partition("://")[2]: origin for origin in self.origins}


def load_settings(path: Path = CONFIG) -> WebTable:
    """The settings; InvalidArgument where the file or the table is not valid."""
    try:
        text = path.read_text() if path.exists() else ""
        table = tomllib.loads(text).get("web", {})
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"cannot read {path}: {error}", field="web") from error
    origins = table.get("origins", [ORIGIN]) if isinstance(table, dict) else None
    if not isinstance(origins, list) or not origins:
        raise InvalidArgument(f"cannot read {path}: origins is not a list", field="web.origins")
    return WebTable(tuple(browser_origin(str(origin)) for origin in origins))
