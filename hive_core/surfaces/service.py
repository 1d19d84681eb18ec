"""`org.varlink.service`: the introspection methods of every Varlink service."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

from hive_core import varlink
from hive_core.broker.operation import Operation
from hive_core.broker.request import INTERFACE, Fixed
from hive_core.errors import InterfaceNotFound, InvalidParameter
from hive_core.surfaces import idl

VENDOR: Final = "hive"
PRODUCT: Final = "hived"
_NAMED: Final = 200


def introspection_methods(registry: Mapping[str, Operation], version: str) -> dict[str, Fixed]:
    """The methods whose replies never change, for the broker.

    The description of hive's interface is generated on first use: at the start it would take a
    tenth of the time.
    """
    descriptions: dict[str, Callable[[], bytes]] = {
        idl.SERVICE_INTERFACE: lambda: _reply({"description": idl.SERVICE}),
        INTERFACE: cache(lambda: _reply({"description": idl.interface(registry)})),
    }
    info = _reply({
        "vendor": VENDOR, "product": PRODUCT, "version": version, "url": "",
        "interfaces": sorted(descriptions),
    })  # fmt: skip

    def get_info(parameters: Mapping[str, object]) -> bytes:
        _only(parameters, ())
        return info

    def get_description(parameters: Mapping[str, object]) -> bytes:
        _only(parameters, ("interface",))
        name = parameters.get("interface")
        if not isinstance(name, str):
            raise InvalidParameter("interface", "expected the name of an interface")
        if name not in descriptions:
            raise InterfaceNotFound(name[:_NAMED])
        return descriptions[name]()

    return {
        f"{idl.SERVICE_INTERFACE}.GetInfo": get_info,
        f"{idl.SERVICE_INTERFACE}.GetInterfaceDescription": get_description,
    }


def _reply(parameters: varlink.Message) -> bytes:
    return varlink.encode({"parameters": parameters})


def _only(parameters: Mapping[str, object], known: tuple[str, ...]) -> None:
    for name in parameters:
        if name not in known:
            raise InvalidParameter(name[:_NAMED], "unknown parameter")
