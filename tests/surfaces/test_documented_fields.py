"""Calls, results, settings and programs on the pages have the fields that the code has."""

from __future__ import annotations

import inspect
import json
import re
import textwrap
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from each import for_each
from pydantic import ValidationError
from typing_extensions import override

from hive_core.agent.main import HIDDEN, SHORT
from hive_core.agent.python import hive_agent
from hive_core.broker.operation import Operation
from hive_core.errors import HiveError
from hive_core.model.agents.agent import Limits
from hive_core.model.config.agent_config import AgentConfig, parse_agent_config
from hive_core.model.config.models import ModelsFile, parse_models
from hive_core.model.config.settings import Settings
from hive_core.operations import load
from hive_core.proxy.scripted import ScriptedRules, parse_rules
from hive_core.surfaces.shape import result_schema

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "examples/README.md",
    ROOT / "hive_core/README.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if "performance" not in page.parts),
]  # fmt: skip
REGISTRY = load()
TOPS = (ROOT, ROOT / "hive_core", ROOT / "tests")
METHODS = {
    word: operation
    for operation in REGISTRY.values()
    for word in (operation.name, operation.method.rpartition(".")[2], *operation.aliases)
}
# The page makes this operation as its example.
EXAMPLES = {"CountDescendants"}
_CALL = re.compile(r"\bhive(?:-agent)? call ([A-Za-z_]+)(?: +'(\{.*?\})')?", re.DOTALL)
_COMMAND = re.compile(r"(?:.*\$ |.* -- )?hive-agent ([a-z-]+)( .*)?")
_TABLE = re.compile(r"^\[([a-z_]+)[a-z_.\"-]*\]$", re.MULTILINE)
_ABRIDGED = re.compile(r'\.\.\.[",\]}]|, \.\.\.')


class Block(NamedTuple):
    """A block of code on a page: fenced, of the named language, or indented."""

    page: str
    line: int
    language: str
    text: str

    @override
    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(page: Path) -> Iterator[Block]:
    name, lines = str(page.relative_to(ROOT)), page.read_text(encoding="utf-8").splitlines()
    start, language, block = 0, "", list[str]()
    for number, line in enumerate([*lines, ""], 1):
        if fence := re.match(r" {0,3}```(\w*)", line):
            if block:
                yield Block(name, start, language, textwrap.dedent("\n".join(block)))
            language, block = ("" if language else fence[1] or "text"), []
        elif language or line.startswith("    ") or (block and not line):
            start = start if block else number
            block.append(line)
        elif block:
            yield Block(name, start, "", textwrap.dedent("\n".join(block)).strip())
            block = []


BLOCKS = [block for page in PAGES for block in blocks_of(page)]


def calls() -> Iterator[tuple[str, str, str]]:
    """Each `hive call METHOD JSON` of a page: the place, the method and the JSON."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for call in _CALL.finditer(text):
            line = text[: call.start()].count("\n") + 1
            if call[1].isupper() or call[1] in EXAMPLES:  # METHOD stands for any
                continue
            yield f"{page.relative_to(ROOT)}:{line}", call[1], call[2] or ""


@for_each("place, method, text", list(calls()))
def test_a_documented_call_is_accepted(place: str, method: str, text: str) -> None:
    operation = METHODS.get(method)
    assert operation is not None, f"{place}: there is no method {method}"
    if text:
        operation.params.model_validate(json.loads(text))


def results() -> Iterator[tuple[Block, Operation, Any]]:
    """What the pages show below a command of `hive-agent`, where it is JSON and not abridged."""
    decoder = json.JSONDecoder()
    for block in BLOCKS:
        lines = block.text.splitlines()
        for at, line in enumerate(lines[:-1]):
            command = _COMMAND.fullmatch(line)
            rest = "\n".join(lines[at + 1 :])
            is_whole = line.count("'") % 2 == 0
            if command is None or not is_whole or not rest.lstrip().startswith("{"):
                continue
            words = (command[2] or "").split()
            name = words[0] if command[1] == "call" and words else command[1]
            word = {**HIDDEN, **SHORT}.get(name, name.replace("-", "_"))
            shown = rest.lstrip()
            try:
                value, _ = decoder.raw_decode(shown.replace("\n", " "))
            except json.JSONDecodeError:
                assert _ABRIDGED.search(shown), f"{block}: {shown[:60]} is no JSON"
                continue
            yield block, METHODS[word], value


def misfits(value: Any, schema: dict[str, Any], defs: dict[str, Any]) -> Iterator[str]:  # noqa: ANN401
    """The keys of a JSON value that its schema does not have."""
    choices = [schema, *schema.get("anyOf", ())]
    choices = [defs[it["$ref"].rpartition("/")[2]] if "$ref" in it else it for it in choices]
    for choice in choices:
        known = choice.get("properties")
        if isinstance(value, dict) and known:
            for key, inner in value.items():
                if key not in known:
                    yield key
                else:
                    yield from misfits(inner, known[key], defs)
        elif isinstance(value, list) and "items" in choice:
            for inner in value:
                yield from misfits(inner, choice["items"], defs)


RESULTS = list(results())


@for_each(
    "block, operation, value",
    RESULTS,
)
def test_a_documented_result_has_fields_of_the_operation(
    block: Block,
    operation: Operation,
    value: Any,  # noqa: ANN401
) -> None:
    schema = result_schema(operation)
    assert list(misfits(value, schema, schema.get("$defs", {}))) == [], str(block)


PROGRAMS = [block for block in BLOCKS if block.language == "python"]


@for_each("block", PROGRAMS)
def test_a_documented_program_compiles(block: Block) -> None:
    text = block.text
    if text.startswith("@"):
        assert "def " in text, "a decorator decorates a function"
    compile(text, str(block), "exec")


@for_each("block", PROGRAMS)
def test_a_documented_program_imports_what_there_is(block: Block) -> None:
    for module, names in re.findall(r"^from (hive_core[\w.]*) import (.+)$", block.text, re.M):
        imported = __import__(module, fromlist=["*"])
        assert [name for name in names.split(", ") if not hasattr(imported, name)] == []
    for variable in re.findall(r"^(\w+) = hive_agent\.AgentClient\(", block.text, re.M):
        for method in re.findall(rf"\b{variable}\.(\w+)\(", block.text):
            assert hasattr(hive_agent.AgentClient, method), method


def test_the_methods_of_the_client_have_the_documented_parameters() -> None:
    page = ROOT / "docs/how-to/write-an-agent-program.md"
    rows = re.findall(r"^\| `(\w+)\((.*?)\)`", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) > 8
    for name, written in rows:
        known = inspect.signature(getattr(hive_agent.AgentClient, name)).parameters
        words = [word.partition("=")[0].strip() for word in written.split(",")]
        assert [word for word in words if word not in known and word != "..."] == [], name


def tables() -> Iterator[Block]:
    for block in BLOCKS:
        if block.language == "toml" or _TABLE.search(block.text):
            yield block


def fault_of(text: str) -> str:
    """Why no file of hive may hold this text; empty if one may."""
    data = tomllib.loads(text)
    readers: list[tuple[Iterable[str], Callable[[], object]]] = [
        (Settings.model_fields, lambda: Settings.model_validate(data)),
        (AgentConfig.model_fields, lambda: parse_agent_config(data)),
        (ModelsFile.model_fields, lambda: parse_models(text)),
        (ScriptedRules.model_fields, lambda: parse_rules(text.encode(), "rules.toml")),
    ]
    known = [read for fields, read in readers if data.keys() <= set(fields)]
    faults = []
    for read in known:
        try:
            read()
        except (HiveError, ValidationError) as error:
            faults.append(str(error))
        else:
            return ""
    return "; ".join(faults) or f"no file has all of {sorted(data)}"


@for_each("block", list(tables()))
def test_a_documented_file_of_settings_is_accepted(block: Block) -> None:
    assert fault_of(block.text) == ""


def named_settings() -> Iterator[tuple[str, str, str]]:
    """`[table] key` and `table.key` between backticks, where hive.toml has the table."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for pattern in (r"`\[([a-z_]+)\] ([a-z_]+)", r"`([a-z_]+)\.([a-z_]+)`"):
            for match in re.finditer(pattern, text):
                if match[1] in Settings.model_fields and page.name != "nixos-options.md":
                    line = text[: match.start()].count("\n") + 1
                    yield f"{page.relative_to(ROOT)}:{line}", match[1], match[2]


def test_every_named_setting_is_one() -> None:
    settings, odd, names = Settings().model_dump(), [], list(named_settings())
    assert len(names) > 100
    # An agent has limits too, and files end in a suffix.
    others = {"limits": {*Limits.model_fields, "memory"}, "nix": {"conf", "settings"}}
    for place, table, key in names:
        keys = settings[table] if isinstance(settings[table], dict) else {}
        if key not in keys and key not in others.get(table, ()):
            odd.append(f"{place}: {table}.{key}")
    assert odd == []


def test_every_named_module_exists() -> None:
    """Pages name files from the top of the repository, or from the package."""
    named = {
        (str(page.relative_to(ROOT)), file)
        for page in PAGES
        for file in re.findall(r"`([a-z_]+(?:/[a-z0-9_]+)+\.py)\b", page.read_text("utf-8"))
    }
    assert len(named) > 50
    odd = {it for it in named if not any((top / it[1]).exists() for top in TOPS)}
    assert odd == set()


def test_the_pages_were_read() -> None:
    assert len(list(calls())) >= 5
    assert len(RESULTS) >= 5
    assert len(PROGRAMS) >= 5
    assert len(list(tables())) >= 8
    assert fault_of("[limits]\nchilden = 1") != ""
