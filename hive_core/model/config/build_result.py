"""Results of the jobs that run Nix. They are untrusted: the jobs read what agents wrote."""

from __future__ import annotations

from typing import Annotated, Final, Self

from pydantic import Field, ValidationError

from hive_core.errors import InvalidArgument
from hive_core.model.agents.agent import StorePath, Value

SAID_MOST: Final = 256 << 10
_Text = Annotated[str, Field(max_length=2000)]
_Log = Annotated[str, Field(max_length=64 << 10)]
_Count = Annotated[int, Field(ge=0, le=1 << 53)]
_Part = tuple[Annotated[str, Field(pattern=r"^[A-Za-z0-9+._?=-]{1,211}$")], _Count]
_Parts = Annotated[tuple[_Part, ...], Field(max_length=500)]


class Closure(Value):
    """The closure of a system: paths and bytes, and the difference to the one before."""

    paths: _Count = 0
    bytes: _Count = 0
    before: _Count = 0
    come: _Parts = ()
    gone: _Parts = ()
    more: _Count = 0


class NixJobResult(Value):
    """How a job ended: `ok`, or the reason in `text`, with the last lines of Nix's output."""

    ok: bool
    text: _Text = ""
    log: _Log = ""
    drv: StorePath | None = None
    out: StorePath | None = None
    built: _Count = 0
    closure: Closure = Closure()
    sources: Annotated[tuple[StorePath, ...], Field(max_length=1000)] = ()

    @classmethod
    def read(cls, data: bytes) -> Self:
        try:
            return cls.model_validate_json(data)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise InvalidArgument(f"invalid result of a Nix job: {where}", field=where) from error
