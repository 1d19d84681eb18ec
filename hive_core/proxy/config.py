"""What hive-model works with: models.toml, keys, rules and prices, read together."""

from __future__ import annotations

import json
import logging
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hive_core.errors import InvalidArgument
from hive_core.model.config.models import FILE, ModelsFile, ProviderKind, parse_models
from hive_core.proxy.failure import CallFailed, provider_fault
from hive_core.proxy.price import PriceTable
from hive_core.proxy.provider import ModelTarget
from hive_core.proxy.scripted import BYTES_MOST as RULES_MOST
from hive_core.proxy.scripted import ScriptedRules, parse_rules

log = logging.getLogger(__name__)
_KEY_MOST: Final = 8 << 10
_MASK: Final = b"***"
_SHORT: Final = 8  # a shorter key would mask ordinary words


@dataclass(frozen=True, slots=True)
class ProxyConfig:
    """One state of the files. Calls that run keep theirs when the files are read again."""

    models: ModelsFile
    keys: Mapping[str, str]
    rules: Mapping[str, ScriptedRules]  # by provider
    prices: PriceTable

    def targets(self, alias: str) -> list[ModelTarget]:
        """The model of this alias, and its fallbacks. CallFailed: 404."""
        model = self.models.models.get(alias)
        if model is None:
            message = f"model {alias[:64]!r} does not exist; GET /v1/models lists yours"
            raise CallFailed(404, message, code="model_not_found")
        return [self._target(name) for name in (alias, *model.fallback)]

    def _target(self, alias: str) -> ModelTarget:
        model, provider = self.models.models[alias], self.models.provider_of(alias)
        return ModelTarget(alias, model, provider, self.keys.get(provider.key or "", ""))

    def check_key(self, target: ModelTarget) -> None:
        """CallFailed (502) where the provider needs a key that is not there."""
        if target.provider.key and not target.key:
            raise provider_fault(
                f"the key {target.provider.key} of provider {target.model.provider} is not set on"
                f" this host; its operator sets it with `hive model key set {target.provider.key}`"
            )

    def mask(self, data: bytes) -> bytes:
        """What a provider says, without keys, also as JSON writes them."""
        for key in self.keys.values():
            if len(key) >= _SHORT:
                written = json.dumps(key)[1:-1]
                for form in (key, written, written.replace("/", "\\/")):
                    data = data.replace(form.encode(), _MASK)
        return data


def load_config(models: Path, keys: Path) -> ProxyConfig:
    """Read all files. InvalidArgument names the first fault; a missing key is only logged."""
    parsed = parse_models(_read_models(models))
    names = {provider.key for provider in parsed.providers.values() if provider.key}
    rules = {
        name: parse_rules(_read_file(Path(provider.path or ""), RULES_MOST), provider.path or "")
        for name, provider in parsed.providers.items()
        if provider.kind is ProviderKind.SCRIPTED
    }
    return ProxyConfig(parsed, dict(_read_keys(keys, names)), rules, PriceTable(parsed))


def _read_models(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"{path}: cannot read the file: {error}", field=FILE) from error


def _read_file(path: Path, most: int) -> bytes:
    """A regular file, not longer than one byte above `most`."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
        with open(file, "rb") as opened:  # noqa: PTH123 - of a descriptor
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise InvalidArgument(f"{path}: is not a regular file", field=str(path))
            return opened.read(most + 1)
    except OSError as error:
        reason = f"{path}: cannot read the file: {error.strerror}"
        raise InvalidArgument(reason, field=str(path)) from error


def _read_keys(folder: Path, names: set[str]) -> Iterator[tuple[str, str]]:
    for name in sorted(names):
        try:
            yield name, _parse_key(_read_file(folder / name, _KEY_MOST))
        except (InvalidArgument, ValueError) as error:
            log.warning("Cannot use key %s: %s", name, error)


def _parse_key(data: bytes) -> str:
    """The key in a file: one line of visible ASCII. The error does not show it."""
    key = data.strip()
    if not 0 < len(key) <= _KEY_MOST:
        raise ValueError(f"it is empty or longer than {_KEY_MOST} bytes")
    if not key.isascii() or not key.decode().isprintable() or b" " in key:
        raise ValueError("it is not one line of visible ASCII characters")
    return key.decode()
