"""`/etc/hive/models.toml` as hived reads it, beside `hive.toml`.

A file with a fault does not keep the daemon from starting: then no agent may use a model, and the
operator gets an alarm. A reload with a fault is refused.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hive_core.errors import InvalidArgument
from hive_core.host.config.settings import SettingsFault
from hive_core.model.agents.model_catalog import ModelCatalog
from hive_core.model.config.limits import ModelSettings
from hive_core.model.config.models import BYTES_MOST, FILE, ModelsFile, parse_models

log = logging.getLogger(__name__)
MODELS: Final = FILE
_NO_MODELS: Final[dict[str, object]] = {"providers": {}, "models": {}}


@dataclass(frozen=True, slots=True)
class LoadedModels:
    """The models of this host. With a `fault` there are none."""

    file: ModelsFile
    fault: str = ""

    def faults(self, tiers: ModelSettings) -> list[str]:
        """What the operator has to mend: the file, or tiers that name a model it does not have."""
        if self.fault:
            return [f"no agent may use a model: {self.fault}"]
        return ModelCatalog(self.file, tiers).faults()


def load_models(path: Path) -> LoadedModels:
    """The models in the file; the embedded model alone if there is no file."""
    try:
        return LoadedModels(parse_models(_read(path)))
    except InvalidArgument as error:
        log.critical("Cannot use the models: %s", error)
        return LoadedModels(ModelsFile.model_validate(_NO_MODELS), str(error))


def check_models(path: Path) -> list[SettingsFault]:
    """The first fault of the file; none if it can be used."""
    try:
        parse_models(_read(path))
    except InvalidArgument as error:
        reason = error.reason.removeprefix(f"{FILE}: ").removeprefix(f"{error.field}: ")
        key = "" if error.field in (FILE, str(path)) else error.field
        return [SettingsFault(path, None, key, reason)]
    return []


def _read(path: Path) -> str:
    """The text of the file; empty if it does not exist."""
    try:
        with path.open("rb") as file:
            data = file.read(BYTES_MOST + 1)
        return data.decode()
    except FileNotFoundError:
        return ""
    except OSError as error:
        reason = f"cannot read the file: {error.strerror}"
        raise InvalidArgument(reason, field=FILE) from error
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"not UTF-8 at byte {error.start}", field=FILE) from error
