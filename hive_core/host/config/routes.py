"""The secrets of the routes of hive-notify, beside `hive.toml`.

hive-notify sends by the other routes where one has a fault, so `hive config check` and
`hive doctor` have to say so.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from hive_core.errors import InvalidArgument
from hive_core.host.config.settings import SettingsFault
from hive_core.model.config.notify import NotifyRoute, check_routes, check_secret

SECRETS: Final = "notify"


def check_secrets(path: Path) -> list[SettingsFault]:
    """The faults in the secrets of the routes of `path`, whose own faults `settings.check` finds.

    Root alone can read a secret: for another caller there are no faults.
    """
    try:
        table = tomllib.loads(path.read_text("utf-8")).get("notify", {})
        routes = check_routes(table).routes
    except (OSError, ValueError, RecursionError, InvalidArgument):
        return []
    return list(_secret_faults(path.parent / SECRETS, routes))


def _secret_faults(folder: Path, routes: Mapping[str, NotifyRoute]) -> Iterator[SettingsFault]:
    for name, route in routes.items():
        reason = ""
        try:
            check_secret(name, route, _read(folder / name))
        except PermissionError:
            continue
        except InvalidArgument as error:
            reason = error.reason
        except (OSError, ValueError) as error:
            reason = f"cannot read it: {error}"
        if reason:
            yield SettingsFault(folder / name, None, f"notify.routes.{name}", reason)


def _read(file: Path) -> str:
    """The secret in the file; empty if there is none."""
    try:
        return file.read_text("utf-8").strip()
    except FileNotFoundError:
        return ""
