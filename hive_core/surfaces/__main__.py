"""Write the files generated from the registry and the settings: `python -m hive_core.surfaces`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from hive_core import operations
from hive_core.broker.operation import REGISTRY, Operation
from hive_core.surfaces.config import config_page, config_schema
from hive_core.surfaces.models_file import models_page
from hive_core.surfaces.openapi import http_api_page, openapi_json
from hive_core.surfaces.operations_json import operations_json
from hive_core.surfaces.reference import operations_page
from hive_core.surfaces.roles import roles_page
from hive_core.surfaces.seed import seed_module
from hive_core.surfaces.settings import settings_page
from hive_core.surfaces.settings_file import settings_file

ROOT: Final = Path(__file__).resolve().parents[2]
WRITTEN: Final[Mapping[str, Callable[[Mapping[str, Operation]], str]]] = {
    "hive_core/cli/operations.json": operations_json,
    "hive_core/web/openapi.json": openapi_json,
    "docs/reference/http-api.md": http_api_page,
    "docs/reference/operations.md": operations_page,
    "docs/reference/roles.md": roles_page,
    "docs/reference/settings.md": lambda _: settings_page(),
    "hive_core/cli/host/install/hive.toml": lambda _: settings_file(),
    "docs/reference/models-toml.md": lambda _: models_page(),
    "docs/reference/agent-toml.md": lambda _: config_page(),
    "docs/reference/agent.schema.json": lambda _: config_schema(),
    "hive_core/model/config/seed.py": lambda _: seed_module(),
}


def main() -> None:
    operations.load()
    for place, text in WRITTEN.items():
        (ROOT / place).write_text(text(REGISTRY), encoding="utf-8")


if __name__ == "__main__":
    main()
