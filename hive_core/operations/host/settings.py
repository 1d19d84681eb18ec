"""The settings that hived runs with."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from hive_core.broker.call import Call
from hive_core.broker.operation import Params, Result, operation
from hive_core.model.config.settings import Settings
from hive_core.policy.rules import OPERATOR


class GetSettingsParams(Params):
    """No parameters."""


class SettingRow(Result):
    key: str = Field(description="The key with its tables, as in `limits.agents`.")
    value: object = Field(description="The value that the daemon runs with.")
    default: object = Field(description="The default; null: none, or the key is not in the schema.")
    changed: bool = Field(description="Whether the value differs from the default.")


class SettingRows(Result):
    settings: list[SettingRow] = Field(description="All settings, in the order of the file.")


@operation(action="administer", allow=OPERATOR)
def get_settings(call: Call, _params: GetSettingsParams) -> SettingRows:
    """Show the settings that hived runs with. Secrets are no settings and are not shown."""
    defaults = dict(_flat("", Settings().model_dump(mode="json")))
    return SettingRows(settings=[
        SettingRow(
            key=key, value=value, default=defaults.get(key), changed=value != defaults.get(key)
        )
        for key, value in _flat("", call.settings.model_dump(mode="json"))
    ])  # fmt: skip


def _flat(prefix: str, value: object) -> Iterator[tuple[str, object]]:
    """Each key with all its tables before it; an empty table is a value."""
    if isinstance(value, dict) and (value or not prefix):
        for key, inner in value.items():
            yield from _flat(f"{prefix}.{key}" if prefix else key, inner)
    else:
        yield prefix, value
