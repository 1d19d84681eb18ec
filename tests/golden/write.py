"""What outsiders rely on, as text: `python tests/golden/write.py` writes it anew.

A difference is a change for users: it belongs into CHANGELOG, and an old name stays as an alias.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

import click

from hive_core import errors
from hive_core.cli.core.lazy import Group
from hive_core.cli.main import hive
from hive_core.ledger.core.connection import Connection
from hive_core.ledger.core.ledger import Ledger
from hive_core.operations import load
from hive_core.surfaces import idl

HERE: Final = Path(__file__).parent
# Words for people: they say what something is, and a program does not read them.
_FOR_PEOPLE: Final = frozenset({"description", "title"})


def wire() -> str:
    """Methods, types and errors as introspection describes them."""
    lines = idl.interface(load()).splitlines()
    return "\n".join(line for line in lines if line and not line.lstrip().startswith("#")) + "\n"


def schemas() -> str:
    """JSON schemas of all parameters and results."""
    shapes = {
        operation.name: {
            "params": operation.params.model_json_schema(),
            "result": operation.result.model_json_schema(mode="serialization"),
        }
        for _, operation in sorted(load().items())
    }
    return json.dumps(_for_programs(shapes), indent=1, sort_keys=True) + "\n"


def _for_programs(value: object, *, names: bool = False) -> object:
    """Without descriptions; `names`: the keys are names of fields, of which none is left out."""
    if isinstance(value, Mapping):
        return {
            key: _for_programs(member, names=not names and key in {"properties", "$defs"})
            for key, member in value.items()
            if names or key not in _FOR_PEOPLE
        }
    return [_for_programs(member) for member in value] if isinstance(value, list) else value


def ledger() -> str:
    """Tables, indexes and triggers of a new ledger."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "hive.db"
        Ledger.open(file).close()
        with closing(Connection(file)) as connection:
            rows = connection.rows("SELECT sql FROM sqlite_schema WHERE sql NOT NULL ORDER BY name")
    return "\n".join(_statement(sql) + ";" for (sql,) in rows) + "\n"


def _statement(sql: str) -> str:
    """Without comments and line breaks."""
    lines = (line.partition("--")[0] for line in sql.splitlines())
    return " ".join(" ".join(lines).split())


def exit_codes() -> str:
    """Every error: its name on the wire and the exit status of the command that meets it."""
    rows = sorted((name, kind.exit_code) for name, kind in errors.BY_WIRE.items())
    return "".join(f"{name} {code}\n" for name, code in rows)


def commands() -> str:
    """Every command of `hive` with the names of its options and arguments."""
    with click.Context(hive, info_name="hive", **hive.context_settings) as context:
        return "".join(f"{line}\n" for line in _of_command(hive, context))


def _of_command(command: click.Command, context: click.Context) -> Iterator[str]:
    names = (opt for param in command.params for opt in (*param.opts, *param.secondary_opts))
    yield " ".join((context.command_path, *sorted(names)))
    if isinstance(command, click.Group):
        unlisted = command.unlisted_commands(context) if isinstance(command, Group) else []
        for name in sorted([*command.list_commands(context), *unlisted]):
            child = command.get_command(context, name)
            if child is not None:
                with click.Context(child, parent=context, info_name=name) as below:
                    yield from _of_command(child, below)


FILES: Final[Mapping[str, Callable[[], str]]] = {
    "wire.varlink": wire,
    "schemas.json": schemas,
    "ledger.sql": ledger,
    "exit-codes.txt": exit_codes,
    "commands.txt": commands,
}


def main() -> None:
    for name, text in FILES.items():
        (HERE / name).write_text(text(), encoding="utf-8")
        sys.stdout.write(f"{name}\n")


if __name__ == "__main__":
    main()
