"""docs/reference/nixos-options.md from nix/options.nix: run as a program it writes the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from nix.module import ask

FILE: Final = Path(__file__).parents[2] / "docs" / "reference" / "nixos-options.md"
HEAD: Final = """\
# Options of the NixOS module

Generated from `nix/options.nix` by `scripts/generate`; a test keeps it fresh. How to use them:
[NixOS](../how-to/nixos.md). What is not here has no effect in hive; [settings](settings.md) has the
rest of hive.toml. Every name begins with `services.hive.`

| option | type | default | what it is |
|---|---|---|---|
"""


def page() -> str:
    return HEAD + "".join(
        f"{_row(option)}\n" for option in ask('s.listed "" e.options.services.hive')
    )


def _row(option: dict[str, Any]) -> str:
    name = option["name"].removeprefix(".")
    text = " ".join(option["description"].split())
    if option["example"] is not None:
        text += f" Example: {_value(option['example'])}"
    default = "fixed: " if option["readOnly"] else ""
    cells = (f"`{name}`", option["type"], default + _value(option["default"]), text)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _value(value: object) -> str:
    """An expression is shown as it stands, a value as JSON, which is close to Nix."""
    if isinstance(value, dict) and value.get("_type") == "literalExpression":
        return f"`{value['text']}`"
    return f"`{json.dumps(value, ensure_ascii=False)}`"


def main() -> None:
    FILE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
