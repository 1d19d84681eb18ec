"""The operations: one declaration each; near-copies share a file."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from hive_core.broker.operation import REGISTRY, Operation


@cache
def load() -> Mapping[str, Operation]:
    """Import every file of this folder, which declares its operations; gives the registry."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
    return REGISTRY
