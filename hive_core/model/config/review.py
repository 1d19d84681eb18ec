"""Results of the jobs that check a proposed commit. They are untrusted: the jobs read it.

A job writes `said.json` last. Its review exists when the verdict is `ok`.
"""

from __future__ import annotations

import builtins
from typing import Annotated, Final, Literal, Self

from pydantic import Field, JsonValue, ValidationError, model_validator

from hive_core.errors import InvalidArgument
from hive_core.model.agents.agent import Commit, NarHash, Value

VERDICT: Final = "said.json"
REVIEW: Final = "review.json"
DIFF: Final = "diff.jsonl"
VERDICT_MOST: Final = 64 << 10  # bytes
REVIEW_MOST: Final = 16 << 20
LINE_MOST: Final = 8 << 20
FILES_MOST: Final = 200_000
WARNINGS_MOST: Final = 64

Text = Annotated[str, Field(max_length=2000)]
Path = Annotated[str, Field(max_length=2000)]
Count = Annotated[int, Field(ge=0, le=1 << 53)]


class _JobOutput(Value):
    """A JSON file that a job wrote."""

    @classmethod
    def _read(cls, data: bytes, file: str, most: int) -> Self:
        if len(data) > most:
            raise InvalidArgument(f"{file}: larger than {most} bytes", field=file)
        try:
            return cls.model_validate_json(data)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise InvalidArgument(f"{file}: {where}: {first['msg']}", field=file) from error


class Verdict(_JobOutput):
    """How a job ended. `rule` names what a refused commit breaks, `path` where; both are plain.

    `text` is one line for people; `fault` says why the commit could not be checked.
    """

    ok: bool = False
    fault: Text = ""
    rule: Annotated[str, Field(max_length=40)] = ""
    path: Path = ""
    text: Text = ""
    figures: dict[Annotated[str, Field(max_length=40)], Count | float] = Field({}, max_length=40)

    @classmethod
    def read(cls, data: bytes) -> Self:
        return cls._read(data, VERDICT, VERDICT_MOST)

    @property
    def reason(self) -> str:
        """Place and reason: `prompts/a.md: larger than 5242880 bytes (blob)`."""
        where = f"{self.path}: " if self.path else ""
        return self.fault or f"{where}{self.text} ({self.rule})"


class ChangedFile(Value):
    """One file that differs from what is deployed; `added` and `removed` count lines."""

    path: Path
    kind: Literal["added", "removed", "changed", "mode"]
    binary: bool = False
    added: Count = 0
    removed: Count = 0


class CommitReview(_JobOutput):
    """What a commit is and what it changes. Control characters in texts are escaped."""

    commit: Commit
    tree: Commit
    nar: NarHash
    parents: Annotated[tuple[Commit, ...], Field(max_length=100)]
    author: Text
    date: Text
    subject: Text
    message: Annotated[str, Field(max_length=64_000)] = ""
    files: Count
    bytes: Count
    changed: Annotated[tuple[ChangedFile, ...], Field(max_length=FILES_MOST)]
    agent_toml: dict[str, JsonValue] | None = None
    agent_toml_fault: Text = ""
    warnings: Annotated[tuple[Text, ...], Field(max_length=WARNINGS_MOST)] = ()

    @classmethod
    def read(cls, data: builtins.bytes) -> Self:
        return cls._read(data, REVIEW, REVIEW_MOST)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.agent_toml is not None and self.agent_toml_fault:
            raise ValueError("agent_toml and agent_toml_fault exclude each other")
        return self

    @property
    def figures(self) -> dict[str, int]:
        """The figures that the row of the approval has."""
        return {
            "files": self.files,
            "bytes": self.bytes,
            "changed": len(self.changed),
            "added": sum(file.added for file in self.changed),
            "removed": sum(file.removed for file in self.changed),
        }


class DiffLine(_JobOutput):
    """One line of `diff.jsonl`: of the file before (`old`), after (`new`), or of both.

    `@` begins a file or a part of it, and describes in words what its lines cannot show.
    """

    path: Path
    old: Annotated[int, Field(ge=1)] | None = None
    new: Annotated[int, Field(ge=1)] | None = None
    sign: Literal["+", "-", " ", "@"]
    text: str

    @classmethod
    def read(cls, data: bytes) -> Self:
        return cls._read(data, DIFF, LINE_MOST)
