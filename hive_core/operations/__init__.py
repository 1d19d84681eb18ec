"""The operations: one declaration each; near-copies share a file."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import walk_packages

from hive_core.broker.operation import REGISTRY, Operation


@cache
def load() -> Mapping[str, Operation]:
    """Import every module of this package, which declares the operations; return the registry."""
    for module in walk_packages(__path__, f"{__name__}."):
        import_module(module.name)
    return REGISTRY
