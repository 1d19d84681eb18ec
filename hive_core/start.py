"""Where the programs begin that load hundreds of modules: no garbage is collected meanwhile.

What they load stays. Looking through it again and again takes a tenth of their start.
"""

from __future__ import annotations

import gc
from importlib import import_module


def run_hived() -> None:
    _run_program("hive_core.daemon")


def run_hive_model() -> None:
    _run_program("hive_core.proxy.main")


def run_hive_web() -> None:
    _run_program("hive_core.web.main")


def run_hive_notify() -> None:
    _run_program("hive_core.notify.main")


def run_hive_otel() -> None:
    _run_program("hive_core.otel.main")


def _run_program(module: str) -> None:
    gc.disable()
    main = import_module(module).main
    gc.freeze()
    gc.enable()
    main()
