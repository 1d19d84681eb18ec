"""Prompts: Markdown templates and data make the texts that a model reads.

Rendering is a pure function of its context and of the shipped files, so the same input gives the
same bytes. Templates are Jinja2 in a sandbox; what the context has is data and is never a template.
A template that uses a value or a tool that is not there is an error, and no gap in the text.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from jinja2 import (
    BaseLoader,
    StrictUndefined,
    TemplateError,
    TemplateNotFound,
    TemplateRuntimeError,
)
from jinja2.sandbox import ImmutableSandboxedEnvironment
from typing_extensions import override

from hive_core.agent.prompt_text import escape_tags, one_line
from hive_core.errors import HiveError, InvalidArgument
from hive_core.runtime.prompt_manifest import MANIFEST, PromptManifest, parse_manifest

SHIPPED: Final = Path(__file__).with_name("templates")
TEMPLATE_MOST: Final = 64 << 10
TEXT_MOST: Final = 256 << 10
# Defaults of the context. `tools`: the names that the model sees, by the names of list_toolset.
# `cli`: the CLI that runs the model, with tools of its own for files and commands.
# `deployed` and `operator`: override files by name, of the agent's configuration and of the host.
DEFAULTS: Final[Mapping[str, object]] = {
    "role": "agent", "profile": "", "phase": "", "tier": "operational", "title": "", "parent": "",
    "children": (), "capabilities": (), "tools": {}, "workspace": "", "instructions": "",
    "definition": "", "skills": (), "servers": (), "deployed": {}, "operator": {}, "task": "",
    "persona": "", "colony": {}, "cli": "",
}  # fmt: skip
# A queen of whom nothing else is known has no colony.
_QUEEN, _FIRST_PHASE = "queen", "independent"
# Files are read in this order; the first that has a name wins.
_LAYERS: Final = ("deployed", "operator")
# What a template can raise that was written badly.
_FAULTS: Final = (
    TemplateError, ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError,
    TypeError, ValueError,
)  # fmt: skip
_NAME: Final = re.compile(r"[a-z0-9_]+(/[a-z0-9_]+)*\.md|manifest\.toml", re.ASCII)


def render_system(context: Mapping[str, object]) -> str:
    """The system prompt of an agent."""
    values = _with_defaults(context)
    files = _files(values)
    segments = (
        _render_file(files, segment.file, values)
        for segment in files.manifest.segments
        if segment.applies_to(values)
    )
    return "\n\n".join(filter(None, segments)) + "\n"


def render(name: str, context: Mapping[str, object]) -> str:
    """One of the texts beside the system prompt, such as `compaction`."""
    values = _with_defaults(context)
    files = _files(values)
    file = f"{name}.md"
    if file not in files.manifest.texts:
        known = ", ".join(text.removesuffix(".md") for text in files.manifest.texts)
        raise InvalidArgument(f"no prompt {name[:64]!r}; there are {known}", field="name")
    return _render_file(files, file, values) + "\n"


def _files(values: Mapping[str, object]) -> PromptFiles:
    """The files of this context; those without overrides are compiled once."""
    return PromptFiles(values) if any(values[layer] for layer in _LAYERS) else _shipped_files()


@cache
def _shipped_files() -> PromptFiles:
    return PromptFiles(DEFAULTS)


def prompt_names() -> list[str]:
    """The shipped files, by name."""
    return sorted(_shipped_texts())


def _with_defaults(context: Mapping[str, object]) -> dict[str, object]:
    values = {**DEFAULTS, **context}
    if values["profile"] == _QUEEN and not values["phase"]:
        values["phase"] = _FIRST_PHASE
    tools = values["tools"]
    if isinstance(tools, Sequence) and not isinstance(tools, str):
        values["tools"] = {str(name): str(name) for name in tools}
    return {**values, **dict(_tool_functions(values))}


class PromptFiles(BaseLoader):
    """The files of one agent: its own, those of the operator, and the shipped ones."""

    def __init__(self, context: Mapping[str, object]) -> None:
        self._layers = {layer: _override_texts(context, layer) for layer in _LAYERS}
        self._layers["shipped"] = _shipped_texts()
        # An agent's own configuration cannot say of which files its prompt consists.
        self._layers["deployed"].pop(MANIFEST, None)
        self.manifest: PromptManifest = parse_manifest(self.text(MANIFEST))
        self.environment = _environment(self)

    def text(self, name: str) -> str:
        """The text of a file; TemplateNotFound."""
        for layer, files in self._layers.items():
            if name in files and not (layer == "deployed" and self._is_operators(name)):
                return files[name]
        raise TemplateNotFound(name)

    def _is_operators(self, name: str) -> bool:
        return name in self.manifest.operators

    @override
    def get_source(
        self, environment: object, template: str
    ) -> tuple[str, str | None, Callable[[], bool] | None]:
        """What Jinja2 calls for a file that a template includes."""
        del environment
        return self.text(template), template, lambda: True


@cache
def _shipped_texts() -> dict[str, str]:
    return {
        path.relative_to(SHIPPED).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(SHIPPED.rglob("*"))
        if path.suffix in (".md", ".toml")
    }


def _override_texts(context: Mapping[str, object], layer: str) -> dict[str, str]:
    """The override files of one layer; others than plain names and texts are refused."""
    files = context[layer]
    if not isinstance(files, Mapping):
        raise InvalidArgument(f"{layer} must be files by their names", field=layer)
    for name, text in files.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidArgument(
                f"{layer}: {str(name)[:64]!r} is not the name of a prompt", field=layer
            )
        if not isinstance(text, str) or len(text.encode(errors="replace")) > TEMPLATE_MOST:
            raise InvalidArgument(
                f"{layer}: {name} must be a text of at most {TEMPLATE_MOST} bytes", field=layer
            )
    return dict(files)


def _render_file(files: PromptFiles, file: str, values: Mapping[str, object]) -> str:
    """The text of one file, without space around it; InvalidArgument names the file."""
    environment = files.environment
    pieces, size = list[str](), 0
    try:
        for piece in environment.get_template(file).generate(values):
            size += len(piece)
            if size > TEXT_MOST:
                raise TemplateRuntimeError(f"it is longer than {TEXT_MOST} characters")
            pieces.append(piece)
    except _FAULTS as error:
        reason = _reason(error)
        raise InvalidArgument(f"cannot render prompt {file}: {reason}", field=file) from error
    return _without_gaps("".join(pieces)).strip()


def _reason(error: Exception) -> str:
    line = getattr(error, "lineno", None)
    place = f"line {line}: " if isinstance(line, int) else ""
    if isinstance(error, TemplateNotFound):
        return f"{place}no prompt {error}"
    return f"{place}{error}"


def _without_gaps(text: str) -> str:
    """At most one empty line between two others: conditions leave more."""
    return re.sub(r"\n{3,}", "\n\n", text)


def _environment(files: BaseLoader) -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        loader=files, undefined=StrictUndefined, autoescape=False,
        trim_blocks=True, lstrip_blocks=True, auto_reload=False,
    )  # fmt: skip
    # The same input gives the same bytes.
    environment.globals = {"range": environment.globals["range"]}
    environment.filters.pop("random")
    environment.filters.update(quoted=_quote, line=one_line, escaped=escape_tags)
    return environment


def _tool_functions(values: Mapping[str, object]) -> Iterator[tuple[str, Callable[..., object]]]:
    """`tool("send")`, `has("send")` and `names("send", "ask")` of the templates."""
    tools = values["tools"]
    if not isinstance(tools, Mapping):
        raise InvalidArgument("tools must be names by the names of list_toolset", field="tools")

    def tool(name: str) -> str:
        if name not in tools:
            raise TemplateRuntimeError(f"{values['role']} has no tool {name}")
        return str(tools[name])

    yield "tool", tool
    yield "has", lambda name: name in tools
    yield "names", lambda *names: ", ".join(f"`{tools[name]}`" for name in names if name in tools)


def _quote(text: str) -> str:
    """A text of others inside a sentence: on one line, between quotes."""
    return json.dumps(one_line(text), ensure_ascii=False)


def main() -> int:
    """Print the system prompt for the context on standard input, a JSON object."""
    try:
        context = json.loads(sys.stdin.buffer.read())
        text = render_system(context)
    except (HiveError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.buffer.write(text.encode(errors="replace"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
