"""What a sub-agent is to do, as the last record of the log that it goes on with.

The file from which a sub-agent is hydrated is a log: for a clone that of its parent, copied at the
call, for a named sub-agent an empty one; behind it stands the record `fork`. So a clone reads the
history of its parent with the code that reads every log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from hive_core.agent.session.conversation import OpenConversation
from hive_core.agent.session.model_socket import ModelInfo
from hive_core.agent.session.records import (
    RECORD_MOST,
    Record,
    decode_record,
    encode_record,
    read_records,
)
from hive_core.agent.session.state import ConversationState
from hive_core.agent.session.toolset import ModelToolset
from hive_core.agent.task_run import mapping
from hive_core.errors import InvalidArgument
from hive_core.varlink import Message

CLONE: Final = "clone"
NAMED: Final = "named"
LOG_MOST: Final = 4 * RECORD_MOST


@dataclass(frozen=True, slots=True)
class ForkOrder:
    """One sub-agent. `prompt`: what its texts are rendered from; `payer`: the task that pays.

    `system` is that of a clone, whole; a named sub-agent has none before its first request.
    `results` answer the open calls in the history of a clone, `text` is the task of another.
    """

    kind: str
    name: str
    subagent: str
    turn: int
    rounds: int
    model: Mapping[str, object]
    tools: list[Message]
    kinds: Mapping[str, str]
    disabled: list[str] = field(default_factory=list)
    depth: int = 1
    clone_depth: int = 0
    payer: str = ""
    system: str = ""
    text: str = ""
    prompt: Mapping[str, object] = field(default_factory=dict)
    results: Mapping[str, object] = field(default_factory=dict)

    @property
    def is_clone(self) -> bool:
        return self.kind == CLONE

    @property
    def toolset(self) -> ModelToolset:
        """The tools as the model sees them."""
        return ModelToolset(self.tools, dict(self.kinds), "", frozenset(self.disabled))

    @property
    def model_info(self) -> ModelInfo:
        return ModelInfo(**self.model)  # type: ignore[arg-type]  # checked by `of`

    @property
    def record(self) -> Record:
        """The record of the log."""
        return {"t": "fork", **asdict(self)}

    @classmethod
    def of(cls, record: Record) -> ForkOrder:
        """The order in a record; InvalidArgument for a record that is none."""
        values = {key: value for key, value in record.items() if key not in ("t", "at")}
        try:
            order = cls(**values)  # type: ignore[arg-type]
            model = order.model_info
        except (TypeError, AttributeError) as error:
            raise _fault(f"its record `fork` is not whole: {error}") from None
        if record.get("t") != "fork" or not model.alias or order.kind not in (CLONE, NAMED):
            raise _fault("it does not end with the record `fork`")
        return order


def encode_hydration(log: bytes, order: ForkOrder) -> bytes:
    """The log up to the call, and the order behind it."""
    return log[: read_records(log).size] + encode_record(order.record)


def read_order(hydration: bytes) -> ForkOrder:
    """The order at the end of a log, whatever stands before it."""
    line = hydration[:-1].rpartition(b"\n")[2] if hydration.endswith(b"\n") else b""
    try:
        record = decode_record(line)
    except RecursionError:
        record = None
    if record is None:
        raise _fault("it does not end with a whole record")
    return ForkOrder.of(record)


def read_hydration(file: Path) -> tuple[list[Record], ForkOrder]:
    """The records of the file, and the order, which is the last of them."""
    with file.open("rb") as data:
        contents = read_records(data.read(LOG_MOST + 1))
    if not contents.records or file.stat().st_size != contents.size:
        raise _fault("it is cut off, or larger than a log")
    order = ForkOrder.of(contents.records[-1])
    state = ConversationState.of(contents.records)
    if order.is_clone and not (state.history and state.system and order.results):
        # Nothing renders a prompt for a clone, so there has to be one.
        raise _fault("a clone needs the system prompt, the history and the call of its parent")
    return contents.records, order


def hydrate(folder: Path, records: list[Record]) -> OpenConversation:
    """A conversation of the sub-agent's own, with these records."""
    name = str(mapping(records[0]).get("conversation") or "")
    data = b"".join(map(encode_record, records))
    place = folder / name
    place.mkdir(mode=0o700, parents=True)
    (place / "log").write_bytes(data)
    return OpenConversation(folder, name)


def new_log(turn: int, conversation: str, log: str) -> bytes:
    """The log of a sub-agent that has no history."""
    first: Record = {
        "t": "open", "log": log, "conversation": conversation, "turns": turn, "seen": [],
    }  # fmt: skip
    return encode_record(first)


def _fault(reason: str) -> InvalidArgument:
    return InvalidArgument(f"cannot hydrate a sub-agent: {reason}", field="hydrate-from")
