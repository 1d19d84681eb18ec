"""What the jobs that judge a proposed commit say: read with suspicion, because they read it.

A job writes `said.json` last. Its review is there when it said `ok`.
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
    """Something that a job wrote down as JSON."""

    @classmethod
    def _read(cls, data: bytes, what: str, most: int) -> Self:
        if len(data) > most:
            raise InvalidArgument(f"{what}: larger than {most} bytes", field=what)
        try:
            return cls.model_validate_json(data)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise InvalidArgument(f"{what}: {where}: {first['msg']}", field=what) from error


class Verdict(_JobOutput):
    """How a job ended. `rule` names what a refused commit breaks, `path` where; both are plain.

    `text` is one line for people; `fault` says why nothing was judged.
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
        """Where, and what for: `prompts/a.md: larger than 5242880 bytes (blob)`."""
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
    """What a commit is and what it changes. All texts have their odd characters spelled out."""

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
            raise ValueError("agent_toml is both read and not to be read")
        return self

    @property
    def figures(self) -> dict[str, int]:
        """What stands in the row of the approval."""
        return {
            "files": self.files,
            "bytes": self.bytes,
            "changed": len(self.changed),
            "added": sum(each.added for each in self.changed),
            "removed": sum(each.removed for each in self.changed),
        }


class DiffLine(_JobOutput):
    """One line of `diff.jsonl`: of the file before (`old`), after (`new`), or of both.

    `@` begins a file or a passage of it and says in words what no line of it can say.
    """

    path: Path
    old: Annotated[int, Field(ge=1)] | None = None
    new: Annotated[int, Field(ge=1)] | None = None
    sign: Literal["+", "-", " ", "@"]
    text: str

    @classmethod
    def read(cls, data: bytes) -> Self:
        return cls._read(data, DIFF, LINE_MOST)
